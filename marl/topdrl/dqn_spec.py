"""What a DQN run is told, as plain numbers."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class DqnSpec:
    """Double DQN's knobs; steps are decisions."""

    steps: int  # of training
    time_budget_s: float | None  # stop after the iteration that reaches it; None: no limit
    iteration_steps: int  # between two looks at progress
    envs: int  # copies of the environment
    gamma: float  # a decision, not a second
    n_step: int
    batch: int
    steps_per_update: int  # a multiple of `envs`
    replay_steps: int
    start_steps: int  # before the first update
    target_steps: int  # between two copies to the target network
    learning_rate: float
    taught_weight: float  # of the rule's margin in the loss; 0: double DQN alone
    grad_clip: float
    epsilon_first: float
    epsilon_last: float
    epsilon_steps: int
    checkpoint_every: int  # iterations
    validate_every: int  # iterations
