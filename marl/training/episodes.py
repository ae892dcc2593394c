"""A training run besides RLlib's knobs: its episodes and environments, and how it is judged.

The warm start imitates a composite heuristic before PPO and fits a first value function; it is
written here because RLlib's offline learners read single-agent episodes only. To distil a teacher,
the network plays itself, and the teacher says at some of its turns how it would have scored.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from marl.env.actions import EXCLUSIVE, FORWARD, MODES, SHARED, START
from marl.env.layout import NEEDS, CodecRules, Layout, Observation, layout_for
from marl.env.scheduling_env import SchedulingEnv
from marl.env.turns import SideBySide, Turns
from marl.env.world import Reward, World, discounted
from marl.policy.from_torch import net_of
from marl.policy.network import Net, NetLoop, choose, link
from marl.policy.pair_score import PairScorePolicy, Policy, best_action, networks_of, stack
from marl.training.spec import TrainingError, WarmStartSpec
from sim.arrays import FloatArray
from sim.jobs import JobTable
from sim.report.job_times import counted, jct_s
from sim.run import Run
from sim.scoring.table import OfForward, OfPair
from sim.simulator import Simulator


class Windowed(Protocol):
    """Anything that hands out windows, ready to be played; can be pickled."""

    def window(self, part: str, index: int) -> JobTable:
        """Window `index` of `part`."""

    def windows(self, part: str) -> int | None:
        """How many windows `part` has; None: one for every index."""


@dataclass(frozen=True)
class Windows:
    """Maps an episode's seed to a window of one part; never touches another part."""

    source: Windowed
    part: str

    @property
    def windows(self) -> int | None:
        """So many there are to draw from; None: one for every seed."""
        return self.source.windows(self.part)

    def __call__(self, episode: int) -> JobTable:
        """The jobs of one episode."""
        return self.source.window(self.part, episode)


def stream_seed(first: int, behind: int) -> int:
    """Where draws, or a copy of an environment, begin: `first`, or elsewhere on a resume.

    `behind`: iterations of the checkpoint, whose draws and episodes would else come again. The seed
    is then below 2**31: to RLlib's, numbers of its processes are added, to 2**32 at most.
    """
    if not behind:
        return first
    return int(np.random.SeedSequence((first, behind)).generate_state(1)[0] >> 1)


@dataclass(frozen=True)
class Episodes:
    """Picklable: remote env runners make their environments from it."""

    world: World
    rules: CodecRules
    reward: Reward
    windows: Windows
    max_rounds: int

    @property
    def layout(self) -> Layout:
        """Padded sizes of observations."""
        return layout_for(self.world.topology, self.world.partition_of_server, self.rules)

    def env(self, *, everyone: bool = False) -> SchedulingEnv:
        """An environment; without `everyone`, agents that have no choice do not observe."""
        return SchedulingEnv(
            world=self.world,
            layout=self.layout,
            rules=self.rules,
            reward=self.reward,
            make_jobs=self.windows,
            max_rounds=self.max_rounds,
            everyone=everyone,
        )


def play_greedily(
    policy: Policy, simulators: Sequence[Simulator], rules: CodecRules, *, name: str
) -> list[Run]:
    """Play fresh `simulators` of one cluster to their ends, as `scheduler=marl` decides.

    What deciding cost is NaN in the runs, named `name`: it cannot be told from the rest.
    """
    first = simulators[0]
    layout = layout_for(first.topology, first.partition_of_server, rules)
    net = net_of(policy, layout)
    if net is not None:
        return [_played(simulator, layout, rules, net, name) for simulator in simulators]
    runs = SideBySide.fresh(simulators, layout, rules, gathers=False)
    policy.eval()
    while len(rows := runs.playing) > 0:
        observations = {key: torch.from_numpy(value) for key, value in runs.seen(rows).items()}
        with torch.no_grad():
            chosen = best_action(policy(observations).logits)
        runs.act(rows, np.array(chosen, dtype=np.int64))
    return [run.simulator.outcome(name, run.decisions, np.nan, np.nan) for run in runs.runs]


def _played(simulator: Simulator, layout: Layout, rules: CodecRules, net: Net, name: str) -> Run:
    loop = NetLoop(simulator.views(NEEDS), layout, rules, net)
    simulator.play(loop, None)
    return simulator.outcome(name, loop.decisions, np.nan, np.nan)


def validation_jct_s(
    policy: Policy, world: World, rules: CodecRules, windows: Windows, count: int
) -> float:
    """Geometric mean over `count` windows of the reported mean JCT, acting greedily.

    Raises:
        TrainingError: a window has no mean, without which no policy would ever be the best.
    """
    simulators = [world.simulator(windows(index)) for index in range(count)]
    runs = play_greedily(policy, simulators, rules, name="marl")
    times_s = [jct_s(run)[counted(run)] for run in runs]
    for window, each in enumerate(times_s):
        if len(each) == 0:
            raise TrainingError(
                f"validation window {window}: none of its measured jobs was done; take longer "
                "windows (workload.num_jobs), or jobs of which fewer are given up"
            )
    return float(np.exp(np.mean([np.log(each.mean()) for each in times_s])))


@dataclass(frozen=True)
class RuleTeacher:
    """Shortest predicted job first, waits for a compact placement, shares if it pays, forwards.

    Job by job in the window's order: the tightest compact exclusive start; else the compact
    shared start with the highest predicted combined speed above `least_speed`; else a forward to
    the peer that could start it now and has the least shorter work ahead. If no job has any, wait.
    """

    layout: Layout
    least_speed: float

    def act(self, observation: Observation) -> int:
        """The action of one agent."""
        mask = observation["action_mask"] > 0
        if not mask[:-1].any():
            return self.layout.wait  # it is another agent's turn
        starts, forwards = self._starts(observation), self._forwards(observation, mask)
        can_start = np.isfinite(starts).any(axis=1)
        can_forward = np.isfinite(forwards).any(axis=1)
        able = np.flatnonzero(can_start | can_forward)
        if len(able) == 0:
            return self.layout.wait if mask[-1] else int(np.argmax(mask))
        job = int(able[0])
        if can_start[job]:
            return self.layout.sizes.action(START, job, *divmod(int(np.argmin(starts[job])), MODES))
        return self.layout.sizes.action(FORWARD, job, int(np.argmin(forwards[job])))

    def _starts(self, observation: Observation) -> np.ndarray:
        """(W, S * MODES) preference, lower first, inf where the rule does not start."""
        pairs = observation["pairs"]  # (W, S, MODES, OfPair)
        compact = (pairs[..., OfPair.LEGAL] > 0) & (pairs[..., OfPair.COMPACT] > 0)
        own, victim = pairs[..., OfPair.OWN_SLOWDOWN], pairs[..., OfPair.WORST_VICTIM]
        speed = np.exp(-own) + np.exp(-victim)
        rank = np.where(compact, 0.0, np.inf)
        rank[..., EXCLUSIVE] += pairs[..., EXCLUSIVE, OfPair.FRAGMENTS]
        together = speed[..., SHARED]
        rank[..., SHARED] += np.where(together > self.least_speed, 10.0 - together, np.inf)
        return rank.reshape(len(rank), -1)

    def _forwards(self, observation: Observation, mask: np.ndarray) -> np.ndarray:
        """(W, M) preference, lower first, inf where the rule does not forward."""
        rows = observation["forwards"]
        legal = self.layout.sizes.part(FORWARD, mask)
        able = legal & (rows[..., OfForward.PLACEABLE] > 0)
        return np.where(able, rows[..., OfForward.WORK_AHEAD], np.inf)


@dataclass(frozen=True)
class Lessons:
    """N decisions of the teacher."""

    observations: dict[str, Tensor]  # (N, ...)
    actions: Tensor  # (N,)
    returns: Tensor  # (N,) discounted as PPO's


Teacher = Callable[[Observation], int]


def greedy(policy: Policy) -> Teacher:
    """The network as its own teacher."""

    def act(observation: Observation) -> int:
        with torch.no_grad():
            return best_action(policy(stack([observation])).logits)[0]

    return act


def play(
    env: SchedulingEnv, teacher: Teacher, episodes: int, gamma: float, seed: int,
    progress: Callable[[], None], *, discount_s: float | None = None,
) -> Lessons:  # fmt: skip
    """Let the teacher play; only decisions with a choice are kept.

    `gamma` and `discount_s`: as `PpoSpec` has them.
    """
    seen: list[Observation] = []
    actions: list[int] = []
    returns: list[float] = []
    for episode in range(episodes):
        tracks, over = _play_one(env, teacher, seed * 1000 + episode)
        for observations, taken, rewards, at_s in tracks:
            seen += observations
            actions += taken
            later = 1.0 if discount_s is None else np.exp(-np.diff(at_s) / discount_s)
            returns += discounted(rewards, gamma * later, over)
        progress()
    return Lessons(stack(seen), torch.tensor(actions), torch.tensor(returns, dtype=torch.float32))


# Observations, actions, rewards until the next turn; when turns were, and the end.
Track = tuple[list[Observation], list[int], list[float], list[float]]


def _play_one(env: SchedulingEnv, teacher: Teacher, seed: int) -> tuple[list[Track], bool]:
    """What each agent saw, did and got; False after a cut."""
    tracks: dict[str, Track] = {agent: ([], [], [], []) for agent in env.possible_agents}
    observations, _ = env.reset(seed=seed)
    ended: dict[str, bool] = {}
    turns = env.turns
    assert turns is not None
    while env.agents:
        chosen = {a: teacher(o) for a, o in observations.items() if a in env.agents}
        for agent, action in chosen.items():
            if observations[agent]["action_mask"][:-1].any():
                tracks[agent][0].append(observations[agent])
                tracks[agent][1].append(action)
                tracks[agent][2].append(0.0)
                tracks[agent][3].append(turns.now_s)
        observations, rewards, ended, *_ = env.step(chosen)
        for agent, reward in rewards.items():
            if tracks[agent][2]:
                tracks[agent][2][-1] += reward
    for *_, at_s in tracks.values():
        at_s.append(turns.now_s)
    return list(tracks.values()), all(ended.values())


def imitate(
    policy: Policy, lessons: Lessons, spec: WarmStartSpec, seed: int
) -> Iterator[tuple[float, float]]:
    """Fit `policy` in place; yields (loss, agreement with the teacher) after each epoch.

    Where it is not to imitate, its choices stay: without a prior, beside which a fresh network adds
    nothing yet, the critic's head alone is fitted.
    """
    generator = torch.Generator().manual_seed(seed)
    networks = networks_of(policy)
    fitted = list(policy.parameters())
    if not spec.by_rule and any(each.prior is None for each in networks):
        heads = [each.value for each in networks if each.value is not None]
        fitted = [weights for head in heads for weights in head.parameters()]
    optimiser = torch.optim.Adam(fitted, lr=spec.learning_rate)
    count = len(lessons.actions)
    for _ in range(spec.epochs):
        losses, agreed = 0.0, 0
        for rows in torch.randperm(count, generator=generator).split(spec.minibatch):
            batch = {key: value[rows] for key, value in lessons.observations.items()}
            scores = policy(batch)
            choice = functional.cross_entropy(scores.logits, lessons.actions[rows])
            judged = functional.smooth_l1_loss(policy.values(scores.state), lessons.returns[rows])
            loss = spec.by_rule * choice + spec.value_weight * judged
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(fitted, 1.0)
            optimiser.step()
            losses += float(loss.detach()) * len(rows)
            agreed += int((scores.logits.argmax(-1) == lessons.actions[rows]).sum())
        yield losses / count, agreed / count


BATCH_OF_SCORES = 512  # observations that a teacher scores at once


@dataclass(frozen=True, eq=False)
class Shown:
    """N turns, and how the teacher scores the actions there."""

    observations: Observation  # name -> (N, ...)
    scores: FloatArray  # (N, actions) float32, very low where not legal

    def __len__(self) -> int:
        """N."""
        return len(self.scores)


def joined(parts: Sequence[Shown]) -> Shown:
    """All of them as one; `parts` is not empty."""
    return Shown(
        {
            name: np.concatenate([part.observations[name] for part in parts])
            for name in parts[0].observations
        },
        np.concatenate([part.scores for part in parts]),
    )


def watch(
    player: PairScorePolicy,
    teacher: PairScorePolicy,
    rules: CodecRules,
    simulator: Simulator,
    share: float,
    seed: int,
) -> Shown | None:
    """Let `player` play one fresh run; the teacher scores a share of the turns, drawn from `seed`.

    Returns:
        None if no turn was drawn.

    Raises:
        ValueError: the player is not compiled (`marl.policy.from_torch.why_torch`).
        SimulationError: jobs wait for ever.
        InvalidDecision: the simulator refused an action.
    """
    layout = layout_for(simulator.topology, simulator.partition_of_server, rules)
    net = net_of(player.eval(), layout)
    if net is None:
        raise ValueError("who is watched plays compiled: encoder=hierarchical")
    run = Turns(simulator, layout, rules, gathers=False)
    link(net, run.play)
    rng = np.random.default_rng(seed)
    seen: list[Observation] = []
    while run.next():
        if rng.random() < share:
            seen.append(run.seen())
        run.act(int(choose(run.play, net)))
    if not seen:
        return None
    found = {name: value.numpy() for name, value in stack(seen).items()}
    return Shown(found, _scores(teacher, found))


def _scores(teacher: PairScorePolicy, seen: Observation) -> FloatArray:
    """(N, actions) what a teacher says."""
    said = []
    with torch.no_grad():
        for first in range(0, len(seen["jobs"]), BATCH_OF_SCORES):
            rows = slice(first, first + BATCH_OF_SCORES)
            part = {name: torch.from_numpy(value[rows]) for name, value in seen.items()}
            said.append(teacher(part).logits.numpy())
    return np.concatenate(said)
