"""The scheduling world as a PettingZoo parallel environment: one agent a partition."""

import copy
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from pettingzoo import ParallelEnv

from marl.env.layout import CodecRules, Layout, Observation
from marl.env.plays import DTYPES
from marl.env.turns import Turns
from marl.env.world import Reward, World, draw_window
from sim.arrays import FloatArray
from sim.errors import GpuYardError, InvalidDecision, nearest
from sim.jobs import JobTable


class LegalActions(spaces.Discrete[np.int64]):
    """`Discrete(n)` whose plain `sample()` draws legal actions only.

    The environment keeps `legal` up to date, so that tools that sample without a mask (PettingZoo's
    tests, random baselines) play by the rules. A mask or probabilities that are given count alone.
    """

    def __init__(self, n: int) -> None:
        """All `n` actions count as legal until the environment says otherwise."""
        super().__init__(n)
        self.legal: npt.NDArray[np.int8] | None = None  # (n,) 1 where legal

    def sample(self, mask: Any = None, probability: Any = None) -> np.int64:
        """One action, uniform over those that are legal now."""
        if mask is None and probability is None:
            mask = self.legal
        return super().sample(mask, probability)


OPTIONS = ("window", "cut_frac")  # of `reset`


def _options(given: dict[str, Any]) -> tuple[int | None, float]:
    """Window (None: drawn) and share of the rounds that `reset` is asked for.

    Other options are another tool's and pass (PettingZoo's own tests give one), slips do not.
    """
    if not isinstance(given, Mapping):
        raise GpuYardError(f"options is {given!r}; it must be a dict or None")
    for key in given.keys() - set(OPTIONS):
        if hint := nearest(str(key), OPTIONS):
            raise GpuYardError(f"options has no {key!r}{hint}")
    window, cut_frac = given.get("window"), given.get("cut_frac", np.inf)
    if window is not None and not _is_count(window):
        raise GpuYardError(f"options.window is {window!r}; it must be a whole number from 0")
    if not isinstance(cut_frac, Real) or not float(cut_frac) > 0.0:
        raise GpuYardError(f"options.cut_frac is {cut_frac!r}; it must be a number above 0")
    return None if window is None else int(window), float(cut_frac)


def _is_count(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 0


ROUNDS_PER_JOB = 5.2  # turns: about what an episode takes, measured in the headline setting
Infos = dict[str, dict[str, Any]]
Step = tuple[dict[str, Observation], dict[str, float], dict[str, bool], dict[str, bool], Infos]


def agent_name(partition: int) -> str:
    """The agent that owns `partition`."""
    return f"agent_{partition}"


@dataclass(kw_only=True, eq=False, repr=False)
class SchedulingEnv(ParallelEnv[str, Observation, int]):
    """Cooperative placement of an episode's jobs.

    Observation: dict of arrays (`Layout.shapes`); `action_mask` is 1 where legal. Action: start
    (job w of the window, server s, exclusive or shared), forward (w, to partition m), or *wait*.
    With `rules.granularity` worker a start places one worker of a gang, and its agent has further
    turns until the gang is complete, with no other choice than where its next worker goes.
    Agents take turns at one instant, until all wait; then time passes to the next event. An agent
    whose turn it is not has only *wait* in its mask. An illegal action raises InvalidDecision.

    Reward: see `marl.env.world`. Termination: all jobs are done or withdrawn. Truncation:
    never, unless `max_rounds` is reached. The episode's jobs come from `make_jobs(seed)`; equal
    seeds give equal episodes.
    """

    metadata: ClassVar[dict[str, Any]] = {"name": "gpuyard_scheduling_v0", "render_modes": []}

    world: World
    layout: Layout
    rules: CodecRules
    reward: Reward
    # Of a seed from the environment's own stream, each reset; below its `windows`, if it has some.
    make_jobs: Callable[[int], JobTable]
    max_rounds: int
    # All agents observe at each step, as PettingZoo demands; without, only those with a choice do,
    # at less cost.
    everyone: bool

    def __post_init__(self) -> None:
        """No episode is under way."""
        self.render_mode = None
        self._rng = np.random.default_rng()
        self.possible_agents = [agent_name(m) for m in range(self.world.partitions)]
        self.agents: list[str] = []
        self._observation_space = _observation_space(self.layout)
        actions = self.layout.actions
        self._action_space = {agent: LegalActions(actions) for agent in self.possible_agents}
        self.turns: Turns | None = None  # of the episode under way
        self._steps = 0  # of it

    def observation_space(self, agent: str) -> spaces.Dict:
        """The same space for every agent."""
        del agent
        return self._observation_space

    @cached_property
    def state_space(self) -> spaces.Box:
        """Of `state`: as long as all agents' observations together."""
        one = spaces.flatten_space(self._observation_space)
        assert isinstance(one, spaces.Box)
        ends = np.tile((one.low, one.high), len(self.possible_agents)).astype(np.float32)
        return spaces.Box(*ends)

    def state(self) -> npt.NDArray[np.float32]:
        """(n,) what all agents see now, for a critic that judges for all of them.

        Agent after agent, its arrays in alphabetical order of their names
        (`gymnasium.spaces.flatten`): reshaped to (agents, -1), row m is agent_m's.

        Raises:
            RuntimeError: no episode was begun, or this is a pickle's.
        """
        if self.turns is None:
            raise RuntimeError("state() before reset(), or after pickling")
        seen = self.turns.seen_by_all()
        each = [seen[m][key].ravel() for m in sorted(seen) for key in self._observation_space]
        return np.concatenate(each, dtype=np.float32)

    def action_space(self, agent: str) -> LegalActions:
        """Discrete, the same size for every agent; `sample()` draws what is legal now."""
        return self._action_space[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Observation], Infos]:
        """A new episode; without a seed the environment's stream goes on.

        Args:
            seed: of this episode and those after it.
            options: `{"window": k}` plays window k, as `gpuyard evaluate` does; `{"cut_frac": f}`
                truncates after about a share f of the rounds; with `rules.granularity` worker,
                where each worker takes a round, after less.

        Raises:
            GpuYardError: an option is none of these, or no such number.
        """
        if seed is not None:
            if not _is_count(seed):
                raise GpuYardError(f"seed is {seed!r}; it must be a whole number from 0, or None")
            self._rng = np.random.default_rng(seed)
        window, cut_frac = _options(options or {})
        if window is None:
            window = draw_window(self.make_jobs, self._rng, 2**31)
        jobs = self.make_jobs(window)
        turns = Turns(self.world.simulator(jobs), self.layout, self.rules, gathers=True)
        self._most_rounds = int(max(1, min(self.max_rounds, cut_frac * ROUNDS_PER_JOB * len(jobs))))
        self.turns, self._steps = turns, 0
        self.agents = list(self.possible_agents)
        alive = turns.next()
        # At the end of all things everybody gave up before anyone could choose.
        observations = self._seen(turns) if alive else self._named(turns.seen_by_all())
        return observations, {agent: {} for agent in self.agents}

    def fork(self) -> Self:
        """This episode at this turn, and the stream of episodes after it, in a copy of its own."""
        return copy.deepcopy(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """A fork, for compiled code shares what it holds; what wraps this has the fork's spaces."""
        memo[id(self)] = twin = copy.copy(self)
        twin.turns = None if self.turns is None else self.turns.fork()
        twin._rng, twin.agents = copy.deepcopy(self._rng), list(self.agents)
        twin._action_space = copy.deepcopy(self._action_space, memo)
        return twin

    def __getstate__(self) -> dict[str, Any]:
        """Without the episode under way, which holds addresses that mean nothing elsewhere."""
        return {**self.__dict__, "turns": None, "agents": []}

    def step(self, actions: dict[str, int]) -> Step:
        """One turn: the agent whose turn it is acts, the others wait."""
        turns, agents = self.turns, self.agents
        if turns is None or not agents:
            raise RuntimeError("step() before reset(), after the episode's end, or after pickling")
        self._act(turns, actions)
        self._steps += 1
        alive = turns.next()
        observations = self._seen(turns) if alive else {}
        rewards = self._rewards(turns)
        over = turns.over
        cut = not over and self._steps >= self._most_rounds
        infos: Infos = {agent: {} for agent in agents}
        if over or cut:
            self.agents = []
            infos = {agent: {"jct_mean_s": turns.jct_mean_s()} for agent in agents}
            # A last observation for everyone: RLlib needs it at a cut, and loses steps without it.
            observations = self._named(turns.seen_by_all())
        return (
            observations,
            {agent: float(rewards[m]) for m, agent in enumerate(agents)},
            dict.fromkeys(agents, over),
            dict.fromkeys(agents, cut),
            infos,
        )

    def _act(self, turns: Turns, actions: dict[str, int]) -> None:
        """Carry out the action of the agent whose turn it is; all have to be legal."""
        if not isinstance(actions, Mapping):
            raise InvalidDecision(f"actions are {actions!r}; step takes a dict, agent to action")
        chosen: dict[int, int] = {}
        for agent, action in actions.items():
            if agent not in self.possible_agents:
                raise InvalidDecision(
                    f"{agent!r} is no agent; there are {', '.join(self.possible_agents)}"
                )
            partition = self.possible_agents.index(agent)
            try:
                chosen[partition] = operator.index(action)
            except TypeError:
                raise InvalidDecision(
                    f"{agent} gives {action!r}; an action is a whole number"
                ) from None
            turns.check(partition, chosen[partition])
        if turns.agent >= 0:
            if turns.agent not in chosen:
                raise InvalidDecision(f"no action of {agent_name(turns.agent)}, whose turn it is")
            turns.act(chosen[turns.agent])

    def _rewards(self, turns: Turns) -> FloatArray:
        """(M,) what the reward makes of the time since the last turn; GpuYardError: no numbers."""
        given = self.reward(turns.take())
        agents = len(self.agents)
        try:
            numbers = np.asarray(given, dtype=np.float64)
        except (TypeError, ValueError):  # texts, lists of several lengths
            numbers = np.empty(0)
        if numbers.shape != (agents,) or not np.all(np.isfinite(numbers)):
            raise GpuYardError(
                f"{type(self.reward).__qualname__} gives {given!r}; a reward must give one finite "
                f"number for each of the {agents} agents"
            )
        return numbers

    def _seen(self, turns: Turns) -> dict[str, Observation]:
        """What the agent of this turn sees; with `everyone`, what all see."""
        return self._named(turns.seen_by_all() if self.everyone else {turns.agent: turns.seen()})

    def _named(self, seen: dict[int, Observation]) -> dict[str, Observation]:
        named = {agent_name(m): observation for m, observation in seen.items()}
        for agent, observation in named.items():
            self._action_space[agent].legal = observation["action_mask"].astype(np.int8)
        return named

    def render(self) -> None:
        """Nothing to draw live; see `sim.report` for figures of a finished run."""


def _observation_space(layout: Layout) -> spaces.Dict:
    racks = (0.0, max(layout.racks - 1, 0.0))
    ends = {"server_rack": racks, "all_racks": racks, "action_mask": (0.0, 1.0)}
    boxes: dict[str, spaces.Space[Any]] = {
        key: spaces.Box(*ends.get(key, (-np.inf, np.inf)), shape, DTYPES.get(key, np.float32))
        for key, shape in layout.shapes().items()
    }
    return spaces.Dict(boxes)
