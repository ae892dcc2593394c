"""Environments for learners of any kind, and trained policies as schedulers."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np

from gpuyard.api.asking import SAID, Cluster, Trace, composed, listed
from gpuyard.evaluation.experiment import experiment_of
from gpuyard.launch.build import OF_TRAINING, check_training
from gpuyard.training.setting import episodes_of
from marl.env.layout import Observation
from marl.env.scheduling_env import SchedulingEnv, agent_name
from sim.arrays import BoolArray

if TYPE_CHECKING:
    from marl.schedulers.marl import MarlScheduler


UNREAD = SAID | dict.fromkeys(
    [*OF_TRAINING, *(f"{key}." for key in OF_TRAINING), "hydra.run.dir"],
    "the program `gpuyard train`",
)


def make_env(
    trace: Trace = "venus_like",
    cluster: Cluster = "headline_leaf_spine",
    *,
    agents: int = 4,
    part: str = "train",
    seed: int = 0,
    overrides: Sequence[str] = (),
) -> SchedulingEnv:
    """The scheduling world as a PettingZoo `ParallelEnv`, one agent a partition.

    Each episode is a window of `part`; `reset(seed=...)` draws it. Observations, actions and
    reward are those of `gpuyard train` (docs/agents.md), and so are the overrides
    (`["rules.suspends=true", "reward=..."]`).

    Raises:
        GpuYardError: an argument or a row of the trace is wrong.
    """
    words = [f"agents.count={agents}", *listed(overrides, refused=UNREAD)]
    with composed("train", trace=trace, cluster=cluster, overrides=words, seed=seed) as config:
        check_training(config)
        env = episodes_of(config, experiment_of(config), part).env(everyone=True)
        env.reset(seed=seed)  # a file is read while it is there
        return env


class SingleAgentEnv(gymnasium.Env[Observation, int]):
    """One agent that owns the whole cluster, as a Gymnasium environment.

    `observation["action_mask"]` is 1 where an action is legal, `action_masks()` the same for who
    asks by that name (MaskablePPO); `action_space.sample()` draws legal ones only (that of a
    vector of environments does not know which these are).
    """

    metadata = {"render_modes": []}  # noqa: RUF012  (Gymnasium declares it so)

    def __init__(self, env: SchedulingEnv) -> None:
        """`env` has one agent."""
        self._env, self._agent = env, agent_name(0)
        self.observation_space = env.observation_space(self._agent)
        self.action_space = env.action_space(self._agent)  # type: ignore[assignment]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """A new episode."""
        super().reset(seed=seed)
        seen, infos = self._env.reset(seed=seed, options=options)
        return seen[self._agent], infos[self._agent]

    def step(self, action: int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """One action; what time passes goes by until the next choice.

        Raises:
            InvalidDecision: the action is not legal now.
        """
        name = self._agent
        seen, rewards, ended, cut, infos = self._env.step({name: action})
        return seen[name], float(rewards[name]), ended[name], cut[name], infos[name]

    def action_masks(self) -> BoolArray:
        """(actions,) which are legal now."""
        return np.asarray(self._env.action_space(self._agent).legal, dtype=np.bool_)


def make_single_agent_env(
    trace: Trace = "venus_like",
    cluster: Cluster = "headline_leaf_spine",
    *,
    part: str = "train",
    seed: int = 0,
    overrides: Sequence[str] = (),
) -> SingleAgentEnv:
    """`make_env` with one agent.

    `gymnasium.make("gpuyard.gym:gpuyard/Scheduling-v0", ...)` is the same.
    """
    several = "make_env: this form has one agent"
    words = listed(overrides, refused={"agents": several, "agents.count": several})
    return SingleAgentEnv(make_env(trace, cluster, agents=1, part=part, seed=seed, overrides=words))


def load_policy(folder: str | Path) -> "MarlScheduler":
    """A policy as a scheduler for `simulate` and `evaluate`.

    Args:
        folder: the `policy` folder of a training, or one that ships: pretrained (which decides as
            the tuned linear score), pretrained_suspending (learned), pretrained_forest,
            pretrained_alone, pretrained_gittins.

    Raises:
        PolicyFileError: it is missing, truncated or foreign.
    """
    from marl.policy import policy_folder
    from marl.policy.build import load_policy as read_policy
    from marl.schedulers.marl import MarlScheduler

    made = MarlScheduler(checkpoint=str(folder))
    read_policy(policy_folder(str(folder)))  # its weights, too, are whole
    return made
