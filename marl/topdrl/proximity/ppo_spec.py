"""What a PPO run of the GPU picker is told, as plain numbers."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class GpuPpoSpec:
    """PPO's knobs; steps are chosen GPUs."""

    steps: int
    time_budget_s: float | None  # stop after the iteration that reaches it; None: no limit
    envs: int
    gamma: float
    gae_lambda: float
    batch: int  # steps sampled an iteration
    minibatch: int
    epochs: int
    learning_rate: float
    clip: float
    entropy: float
    value_weight: float
    grad_clip: float
    checkpoint_every: int  # iterations
    validate_every: int
