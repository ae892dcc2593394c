"""The scheduling environment as RLlib wants it: only agents with a choice appear in a step."""

from typing import Any

from ray.rllib.env.multi_agent_env import MultiAgentEnv

from marl.codec.layout import Observation
from marl.env.scheduling_env import SchedulingEnv

ALL = "__all__"
Flags = dict[str, bool]
Step = tuple[dict[str, Observation], dict[str, float], Flags, Flags, dict[str, Any]]


class RllibSchedulingEnv(MultiAgentEnv):
    """Wraps a `SchedulingEnv`.

    RLlib's own PettingZoo wrapper turns truncation into termination, fails when the agents of a
    step change, and would train on agents that have no choice; hence this one. Rewards come for
    every agent at every step: RLlib adds those between an agent's turns to its last action, and
    leaves out those before its first turn, which no action of its own has caused.
    """

    def __init__(self, env: SchedulingEnv, *, seed: int, first_cut_frac: float) -> None:
        """`seed` starts this copy's own stream of episodes.

        The first episode is cut after about `first_cut_frac` of its length, different for each
        copy, so that copies do not all fill and drain their clusters in the same iterations.
        """
        super().__init__()
        self.env = env
        self.possible_agents = list(env.possible_agents)
        self.agents: list[str] = []
        self.observation_spaces = {a: env.observation_space(a) for a in self.possible_agents}
        self.action_spaces = {a: env.action_space(a) for a in self.possible_agents}
        self._first_seed: int | None = seed
        self._first_cut_frac = first_cut_frac

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Observation], dict[str, Any]]:
        """The next episode of this copy's stream; RLlib's seed, equal for all copies, is unused.

        Episodes in which nobody ever has a choice (all jobs are withdrawn at once) are passed by.
        """
        del seed, options
        first = self._first_seed is not None
        cut = {"cut_frac": self._first_cut_frac} if first else None
        observations = _with_a_choice(self.env.reset(seed=self._first_seed, options=cut)[0])
        while not observations:
            observations = _with_a_choice(self.env.reset()[0])
        self._first_seed = None
        self.agents = list(self.possible_agents)
        return observations, {}

    def step(self, actions: dict[str, int]) -> Step:
        """One turn; agents without a choice wait."""
        observations, rewards, ended, cut, infos = self.env.step(actions)
        over, truncated = all(ended.values()), any(cut.values())
        if over or truncated:
            self.agents = []
            # Everyone gets a last observation; the flags of single agents stay unset, because
            # RLlib would take an agent that is done by itself for terminated.
            return observations, rewards, {ALL: over}, {ALL: truncated}, infos
        return _with_a_choice(observations), rewards, {ALL: False}, {ALL: False}, {}


def _with_a_choice(observations: dict[str, Observation]) -> dict[str, Observation]:
    return {a: o for a, o in observations.items() if o["action_mask"][:-1].any()}
