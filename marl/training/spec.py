"""What a training run is told, as plain numbers, and its errors."""

from dataclasses import dataclass

from sim.errors import GpuYardError


class TrainingError(GpuYardError):
    """Training cannot go on; the message names the iteration or the checkpoint, and the fix."""


class CheckpointError(TrainingError):
    """A checkpoint is missing, truncated or foreign; the message names file, fault and fix."""


@dataclass(frozen=True, kw_only=True)
class PpoSpec:
    """PPO's knobs (Schulman et al., 2017), for agent steps."""

    iterations: int
    time_budget_s: float | None  # stop after the iteration that reaches it; None: no limit
    batch_agent_steps: int  # agent steps sampled an iteration
    minibatch_agent_steps: int
    epochs: int
    learning_rate: float
    gamma: float  # a step of an agent, not a second
    gae_lambda: float
    clip: float
    entropy: float
    value_weight: float
    value_clip: float
    grad_clip: float
    average_decay: float  # of the averaged weights, an iteration; 0: no averaging
    env_runners: int  # 0: sample in the training process
    envs_per_runner: int
    checkpoint_every: int  # iterations
    array_runner: bool  # sample in arrays; False: by RLlib's own runner, the slow reference


@dataclass(frozen=True, kw_only=True)
class WarmStartSpec:
    """What precedes PPO: imitation of a teacher (as DL2 starts from a heuristic), or values only.

    Where the teacher is the network itself, which begins as the linear score, only its values are
    fitted: PPO's first advantages then mean something.
    """

    episodes: int  # windows played by the teacher; 0: no warm start
    by_rule: (
        bool  # the teacher is the rule of `marl.training.warm_start`; False: the network itself
    )
    least_speed: float  # predicted combined speed above which the teacher shares a GPU
    epochs: int
    minibatch: int
    learning_rate: float
    value_weight: float
