"""Picking jobs as a Gymnasium environment, one decision a step; and imitation before Q-learning.

In imitation the rule's actions are the best of their states by a margin.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from marl.env.scheduling_env import LegalActions
from marl.env.world import World, discounted, draw_window
from marl.topdrl import codec
from sim.arrays import BoolArray, FloatArray, IntArray
from sim.errors import check_numbers
from sim.jobs import JobTable
from sim.kernel.layout import QUEUED, RUNNING
from sim.simulator import Simulator

FLOW, CREDIT = "flow", "credit"
KINDS = (FLOW, CREDIT)


@dataclass(frozen=True, kw_only=True)
class RewardSpec:
    """How throughput becomes a reward."""

    kind: str  # `flow` or `credit`
    price: float  # of a GPU-second, in worth; only for `credit`

    def __post_init__(self) -> None:
        """Raise a TopDrlError, naming key and value, for one that is none."""
        if self.kind not in KINDS:
            raise codec.TopDrlError(
                f"reward.kind is {self.kind!r}; it must be {' or '.join(KINDS)}"
            )
        check_numbers("reward", "from 0 to 1", codec.TopDrlError, price=self.price)


class Reward:
    """Gathers the reward of one decision after the other.

    `flow`: worth of the work done since the last decision, as a published throughput reward.
    `credit`: a start gets at once what its job will be worth on these GPUs, less `price` for the
    GPU time that it takes; GPUs that idle while somebody waits cost `price`, too. When the job
    stops, what it was thought to be worth gives way to what it did and took: one that is withdrawn
    or loses its work earns no more than that. Over a long run both add up to throughput, but for a
    constant; `credit` says at once which start earned it.
    """

    def __init__(
        self, spec: RewardSpec, *, worth: FloatArray, gangs: IntArray, gpu_s: float
    ) -> None:
        """Nothing is gathered yet.

        Args:
            spec: which reward.
            worth: (J,) of a GPU of each job.
            gangs: (J,) GPUs.
            gpu_s: rewards count in so many GPU-seconds of worth 1.
        """
        self._spec, self._worth, self._gangs, self._gpu_s = spec, worth, gangs, gpu_s
        self._credit, self._done, self._held = 0.0, np.zeros(len(worth)), np.zeros(len(worth))
        self._credited: dict[int, float] = {}  # of running jobs, with what was done before

    def start(self, job: int, left_s: float, speed: float) -> None:
        """`job` with `left_s` of work left starts on GPUs where it runs at `speed`."""
        credit = self._worth_of(job, left_s, left_s / speed)
        self._credit += credit
        self._credited[job] = credit + self._worth_of(job, self._done[job], self._held[job])

    def _worth_of(self, job: int, done_s: float, held_s: float) -> float:
        gain = float(self._worth[job]) * done_s - self._spec.price * held_s
        return float(self._gangs[job]) * gain

    def idle(self, gpu_s: float) -> None:
        """So many GPU-seconds nobody used, while somebody waited."""
        self._credit -= self._spec.price * gpu_s

    def take(self, done_s: FloatArray, held_s: FloatArray, running: BoolArray) -> float:
        """Reward since the last call.

        Args:
            done_s: (J,) the work done so far.
            held_s: (J,) time on GPUs so far, of jobs that do not run.
            running: (J,) whether they do.
        """
        step_s, self._done, self._held = done_s - self._done, done_s, held_s
        if self._spec.kind != CREDIT:
            return float(np.dot(self._worth * self._gangs, step_s)) / self._gpu_s
        for job in [job for job in self._credited if not running[job]]:
            in_all = self._worth_of(job, done_s[job], held_s[job])
            self._credit += in_all - self._credited.pop(job)
        gained, self._credit = self._credit, 0.0
        return gained / self._gpu_s


MOST_SEED = 2**31 - 1
Step = tuple[codec.Observation, float, bool, bool, dict[str, Any]]


class PickJobEnv(gym.Env[codec.Observation, np.int64]):
    """Which waiting job starts next, on the GPUs closest to each other.

    Observation: dict of float32 arrays (`marl.topdrl.codec`). Action: a slot of the queue window,
    or hold (the last number), by `action_mask`; an illegal action raises TopDrlError. A start takes
    no time; after a hold time passes to the next event at which some job could start. Holding is
    not legal while nothing runs, so nobody starves in an empty cluster.

    Reward: see `Reward`. Who learns discounts it by decisions, not by time, as code of the authors'
    group does; there each decision takes one row of time. Truncation: the last job has come (what
    is left then is the same work for everybody). Termination: all jobs are done by then. The jobs
    of an episode come from `make_jobs(seed)`; equal seeds give equal episodes.
    """

    def __init__(
        self,
        *,
        world: World,
        observation: codec.ObservationSpec,
        network: codec.NetworkSpec,
        reward: RewardSpec,
        make_jobs: Callable[[int], JobTable],
    ) -> None:
        """`make_jobs` gets a number drawn from the environment's own stream at each reset."""
        self._world, self._spec = world, observation
        self._network, self._reward_spec = network, reward
        self._make_jobs = make_jobs
        self._actions = LegalActions(observation.slots + 1)
        self.action_space = self._actions
        self.observation_space = observation_space(observation, network)
        self._simulator: Simulator | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[codec.Observation, dict[str, Any]]:
        """The first instant at which some job can start.

        `options={"jobs": JobTable}` plays these jobs.
        """
        super().reset(seed=seed)
        jobs = (options or {}).get("jobs")
        if jobs is None:
            jobs = self._make_jobs(draw_window(self._make_jobs, self.np_random, MOST_SEED))
        self._simulator = self._world.simulator(jobs)
        self._views = self._simulator.views(codec.NEEDS)
        self._simulator.advance()
        self._view = self._views.view()
        self._codec = codec.Codec(self._view, self._spec, self._network)
        self._last_s = float(jobs.submit_s[-1])
        self._reward = Reward(
            self._reward_spec,
            worth=self._codec.worth,
            gangs=jobs.num_gpus,
            gpu_s=self._world.topology.num_gpus * max(self._last_s, 1.0) / len(jobs),
        )
        self._turn = self._codec.turn(self._view)
        if not self._turn.has_choice:
            self._wait()
        return self._observed(), {}

    def step(self, action: np.int64 | int) -> Step:
        """Start or hold; then on to the next decision."""
        assert self._simulator is not None, "reset first"
        alive = True
        decision = self._turn.decision(int(action))
        if decision.starts:
            place = self._turn.places[int(action)]
            assert place is not None  # the mask says so
            job = decision.starts[0].job
            left_s = float(self._view.jobs.predicted_remaining_s[job])
            self._reward.start(job, left_s, place.speed)
        self._simulator.apply(decision)
        self._view = self._views.view()
        if decision.again:
            self._turn = self._codec.turn(self._view)
        if not decision.again or not self._turn.has_choice:
            alive = self._wait()
        cut = alive and self._view.now_s >= self._last_s
        row = self._simulator.state.job
        running = row["status"] == RUNNING
        done_s = np.where(running, row["seen_progress_s"], row["progress_s"])  # (J,) at speed 1
        reward = self._reward.take(done_s, row["run_s"].copy(), running)
        return self._observed(), reward, not alive, cut, {}

    def _wait(self) -> bool:
        """Let time pass to the next choice; False at the end."""
        while self._advance():
            self._turn = self._codec.turn(self._view)
            if self._turn.has_choice:
                return True
        self._turn = self._codec.turn(self._view)
        return False

    def _advance(self) -> bool:
        assert self._simulator is not None
        now_s, idle = self._view.now_s, float(self._view.server_free.sum())
        waiting = self._view.queued.copy()
        alive = self._simulator.advance()
        self._view = self._views.view()
        if len(waiting) > 0:
            self._reward.idle(idle * (self._waited_until_s(waiting) - now_s))
        return alive

    def _waited_until_s(self, waiting: IntArray) -> float:
        """Until when some of those who waited at the last instant did: now, or all gave up before.

        They did so at once, for an instant at which somebody still waits is the next one.
        """
        assert self._simulator is not None
        jobs, status = self._simulator.jobs, self._simulator.state.job["status"]
        if jobs.fates is None or (status[waiting] == QUEUED).any():
            return self._view.now_s
        return float((jobs.submit_s + jobs.fates.withdraw_s)[waiting].max())

    def _observed(self) -> codec.Observation:
        self._actions.legal = self._turn.observation["action_mask"].astype(np.int8)
        return self._turn.observation


def observation_space(
    observation: codec.ObservationSpec, network: codec.NetworkSpec
) -> spaces.Dict:
    """Shapes and bounds of an observation."""

    def unit(*shape: int) -> spaces.Box:
        return spaces.Box(0.0, 1.0, shape, np.float32)

    cluster = network.racks, network.rack_servers, network.server_gpus
    return spaces.Dict(
        {
            "gpus": unit(*cluster, len(codec.OfGpu)),
            "slots": unit(observation.slots, len(codec.OfSlot)),
            "backlog": spaces.Box(0.0, 10.0, (1,), np.float32),
            "action_mask": unit(observation.slots + 1),
        }
    )


@dataclass(frozen=True)
class CompactTeacher:
    """Starts the first slot whose closest GPUs are compact enough; else holds.

    Slots come in order of worth a GPU (`ObservationSpec.order`), so this is: the most valuable job
    first, and no job on GPUs far apart while it can wait. Where holding is not legal the fastest
    start is taken.
    """

    least_speed: float  # on the closest GPUs, relative to compact ones

    def act(self, observation: codec.Observation) -> int:
        """An action that the mask allows."""
        read = ("action_mask", "slots")
        return int(self.act_on_batch({k: torch.from_numpy(observation[k])[None] for k in read})[0])

    def act_on_batch(self, observation: dict[str, Tensor]) -> Tensor:
        """(B,) the same for a batch."""
        mask, speed = observation["action_mask"] > 0, observation["slots"][..., codec.OfSlot.SPEED]
        starts = mask[:, :-1]
        good = starts & (speed >= self.least_speed)
        hold = torch.full_like(good[:, 0], mask.shape[1] - 1, dtype=torch.int64)
        fastest = torch.where(starts, speed, -1.0).argmax(-1)
        otherwise = torch.where(mask[:, -1], hold, fastest)
        return torch.where(good.any(-1), good.to(torch.int64).argmax(-1), otherwise)


IMITATION_RULES = {
    "0 or more": ("episodes", "epochs", "margin"),
    "a whole number from 1": ("minibatch",),
    "above 0": ("learning_rate",),
    "from 0 to 1": ("random_share",),
}


@dataclass(frozen=True, kw_only=True)
class ImitationSpec:
    """How long and how hard."""

    episodes: int  # that the teacher plays; 0: start from nothing
    epochs: int
    minibatch: int
    learning_rate: float
    least_speed: float  # the teacher's, on the closest GPUs
    random_share: float  # of the actions are drawn at random, to see where they lead
    margin: float  # by which the teacher's action is to be better than others

    def __post_init__(self) -> None:
        """Raise a TopDrlError, naming key, value and rule, where one is out of range."""
        for rule, keys in IMITATION_RULES.items():
            values = {key: getattr(self, key) for key in keys}
            check_numbers("imitation", rule, codec.TopDrlError, **values)


@dataclass(frozen=True)
class Lessons:
    """N decisions: what was seen, done, taught, and what came of it."""

    observation: dict[str, Tensor]
    done: Tensor  # (N,) actions
    taught: Tensor  # (N,) the teacher's
    gain: Tensor  # (N,) discounted rewards from there on


def play_lessons(
    env: PickJobEnv, spec: ImitationSpec, gamma: float, seed: int
) -> Iterator[list[tuple[codec.Observation, int, int, float]]]:
    """The decisions of one episode after the other."""
    teacher = CompactTeacher(spec.least_speed)
    rng = np.random.default_rng(seed)
    for episode in range(spec.episodes):
        seen, _ = env.reset(seed=seed * 1_000_003 + episode)
        steps: list[tuple[codec.Observation, int, int]] = []
        rewards: list[float] = []
        over = cut = False
        while not (over or cut):
            taught = teacher.act(seen)
            explore = rng.random() < spec.random_share
            done = int(rng.choice(np.flatnonzero(seen["action_mask"]))) if explore else taught
            steps.append((seen, done, taught))
            seen, reward, over, cut, _ = env.step(done)
            rewards.append(reward)
        gains = discounted(rewards, gamma, over)
        yield [(*step, gain) for step, gain in zip(steps, gains, strict=True)]


def gathered(episodes: list[list[tuple[codec.Observation, int, int, float]]]) -> Lessons:
    """All decisions as tensors."""
    rows = [row for episode in episodes for row in episode]
    seen = {key: np.stack([row[0][key] for row in rows]) for key in rows[0][0]}
    return Lessons(
        observation={key: torch.from_numpy(stacked) for key, stacked in seen.items()},
        done=torch.tensor([row[1] for row in rows]),
        taught=torch.tensor([row[2] for row in rows]),
        gain=torch.tensor([row[3] for row in rows], dtype=torch.float32),
    )


def imitate(
    network: nn.Module, lessons: Lessons, spec: ImitationSpec, seed: int
) -> Iterator[tuple[float, float]]:
    """(loss, share of decisions in which the network agrees with the teacher) of every epoch.

    The loss is Huber's between value and gain of what was done, plus the large margin of Hester et
    al. (Deep Q-learning from demonstrations, AAAI 2018) for what the teacher would have done.
    """
    optimizer = torch.optim.Adam(network.parameters(), lr=spec.learning_rate)
    chance = torch.Generator().manual_seed(seed)
    count = len(lessons.done)
    for _ in range(spec.epochs):
        losses, agreed = [], 0
        for rows in torch.randperm(count, generator=chance).split(spec.minibatch):
            values = network({key: each[rows] for key, each in lessons.observation.items()})
            value = values.gather(1, lessons.done[rows, None])[:, 0]
            behind = behind_by(values, lessons.taught[rows], spec.margin)
            loss = nn.functional.huber_loss(value, lessons.gain[rows]) + behind.mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(float(loss.detach()))
            agreed += int((values.argmax(-1) == lessons.taught[rows]).sum())
        yield float(np.mean(losses)), agreed / count


def behind_by(values: Tensor, taught: Tensor, margin: float) -> Tensor:
    """(B,) how far the taught action is from leading all others by `margin`; 0 where it leads."""
    extra = torch.full_like(values, margin).scatter(1, taught[:, None], 0.0)
    return (values + extra).amax(-1) - values.gather(1, taught[:, None])[:, 0]
