"""Double DQN of a job picker, on RLlib's new API stack."""

from collections.abc import Callable
from dataclasses import asdict
from itertools import count
from typing import Any

from ray.rllib.algorithms.dqn import DQN, DQNConfig
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.tune.registry import register_env

from marl.rllib.build import built
from marl.rllib.dueling_module import DuelingModule
from marl.rllib.own_stream import OwnStream
from marl.rllib.taught_learner import TaughtLearner
from marl.topdrl.dqn_spec import DqnSpec
from marl.topdrl.env import PickJobEnv
from marl.topdrl.imitate import ImitationSpec
from marl.topdrl.spec import NetworkSpec, SightSpec

ENV_NAME = "gpuyard_pick_job"


def build_dqn(
    *,
    make_env: Callable[[], PickJobEnv],
    dqn: DqnSpec,
    network: NetworkSpec,
    sight: SightSpec,
    imitation: ImitationSpec,
    weights: dict[str, Any] | None,
    seed: int,
) -> DQN:
    """The algorithm, ready to train; `weights` start the network, None draws them.

    `imitation` names the rule that it stays near, as far as `dqn.taught_weight` says.
    """
    copies = count()

    def create(context: Any) -> OwnStream:
        del context
        return OwnStream(make_env(), seed * 1_000_003 + next(copies))

    register_env(ENV_NAME, create)
    model = {
        "network": asdict(network),
        "sight": asdict(sight),
        "weights": weights,
        "epsilon_steps": (dqn.epsilon_first, dqn.epsilon_last, dqn.epsilon_steps),
    }
    rule = {"least_speed": imitation.least_speed, "margin": imitation.margin}
    config = (
        DQNConfig()
        .environment(ENV_NAME, disable_env_checking=True)
        .env_runners(
            num_env_runners=0,
            num_envs_per_env_runner=dqn.envs,
            rollout_fragment_length=dqn.n_step,
        )
        .rl_module(rl_module_spec=RLModuleSpec(module_class=DuelingModule, model_config=model))
        .learners(
            num_learners=0,
            learner_class=TaughtLearner,
            learner_config_dict={"weight": dqn.taught_weight, **rule},
        )
        .training(**_knobs(dqn))
        .reporting(min_sample_timesteps_per_iteration=dqn.iteration_steps)
        .debugging(seed=seed, log_level="ERROR")
    )
    algorithm: DQN = built(config)
    return algorithm


def _knobs(dqn: DqnSpec) -> dict[str, Any]:
    """RLlib's names for DQN's knobs."""
    return {
        "gamma": dqn.gamma,
        "n_step": dqn.n_step,
        "lr": dqn.learning_rate,
        "grad_clip": dqn.grad_clip,
        "train_batch_size_per_learner": dqn.batch,
        "training_intensity": dqn.batch / dqn.steps_per_update,
        "target_network_update_freq": dqn.target_steps,
        "num_steps_sampled_before_learning_starts": dqn.start_steps,
        "double_q": True,
        "dueling": True,
        "num_atoms": 1,
        "epsilon": dqn.epsilon_last,  # the module's own schedule counts
        "store_buffer_in_checkpoints": True,
        "replay_buffer_config": {"type": "EpisodeReplayBuffer", "capacity": dqn.replay_steps},
    }
