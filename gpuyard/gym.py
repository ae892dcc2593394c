"""Imported by `gymnasium.make("gpuyard.gym:gpuyard/Scheduling-v0", ...)`, which it makes known."""

import gymnasium

gymnasium.register(
    id="gpuyard/Scheduling-v0",
    entry_point="gpuyard.api.agents:make_single_agent_env",
    disable_env_checker=True,  # it would act at random, and so illegally
    order_enforce=False,
)
