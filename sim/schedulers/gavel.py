"""Gavel: a linear program shares the time on each type of GPU; rounds carry it out."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.decision import Decision
from sim.engine.occupancy import Occupancy
from sim.errors import GpuYardError, SimulationError
from sim.jobs import ask_of
from sim.protocols import Placer
from sim.rounds import RoundScheduler, Share, gang_gpus, gpus_up, present
from sim.view import ClusterView, Signal

DIGITS = 9  # speeds that agree to so many are equal


@dataclass(frozen=True)
class Classes:
    """C classes of like jobs, K ways to run: one for each GPU type, and one for a mix of types."""

    jobs: IntArray  # (C,) jobs in each
    gpus: FloatArray  # (C,) GPUs that one of them asks for
    speed: FloatArray  # (C, K) work a second, over that with an equal share of every type; 0: no
    use: FloatArray  # (K, T) of which types the GPUs of each way are; rows sum to 1


def relative_speeds(view: ClusterView, jobs: IntArray, gpus_of_type: IntArray) -> FloatArray:
    """(n, T + 1) work a second of each job, over that with an equal share of every type; 0: no.

    Way k < T is to run on GPUs of type k, way T on whatever types there are; that is for gangs
    which no single type can hold, and counts 1. An equal share is as large as the type is. Needs
    PROFILE and INTERFERENCE.

    Args:
        view: of the cluster.
        jobs: (n,) waiting or running.
        gpus_of_type: (T,) GPUs that are up, by `Topology.gpu_types`.
    """
    rows = [view.belief.type_index(name) for name in view.topology.gpu_types]
    pace = 1.0 / view.belief.catalogue.compute_s[view.jobs.profile[jobs]][:, rows]
    most, gang = _most_workers(view, jobs, len(gpus_of_type)), view.jobs.num_gpus[jobs]
    fits = gang[:, None] <= most
    equal = (np.where(fits, pace, 0.0) * gpus_of_type).sum(axis=1) / max(1, gpus_of_type.sum())
    alone = np.where(fits, pace / np.where(equal > 0, equal, 1.0)[:, None], 0.0)
    mixes = ~fits.any(axis=1) & (gang <= most.sum(axis=1))
    return np.column_stack([alone, mixes.astype(np.float64)])


def classes_of(
    gpus: FloatArray, speed: FloatArray, gpus_of_type: IntArray
) -> tuple[Classes, IntArray]:
    """Classes of jobs with equal speeds that ask for equally many GPUs; (n,) class of each job.

    Args:
        gpus: (n,) that each job asks for.
        speed: (n, T + 1) as of `relative_speeds`.
        gpus_of_type: (T,) GPUs that are up.
    """
    like = np.column_stack([gpus, speed]).round(DIGITS).astype(np.float64)
    found, class_of, count = np.unique(like, axis=0, return_inverse=True, return_counts=True)
    everywhere = gpus_of_type / max(1, int(gpus_of_type.sum()))
    use = np.vstack([np.eye(len(gpus_of_type)), everywhere])
    return Classes(count.astype(np.int64), found[:, 0], found[:, 1:], use), class_of.ravel()


def _most_workers(view: ClusterView, jobs: IntArray, types: int) -> FloatArray:
    """(n, T) workers of each job that the servers of a type that are up could take if empty."""
    occupancy, gpu_type = Occupancy(view), view.topology.server_gpu_type
    asks = [ask_of(view.jobs.demands, job) for job in jobs.tolist()]
    like = dict(zip(asks, jobs.tolist(), strict=True))
    room = {
        ask: np.bincount(gpu_type, occupancy.workers(job)[1], types) for ask, job in like.items()
    }
    return np.array([room[ask] for ask in asks], dtype=np.float64).reshape(len(jobs), types)


MAX_MIN, TOTAL_THROUGHPUT = "max_min", "total_throughput"
POLICIES = (MAX_MIN, TOTAL_THROUGHPUT)

SLACK_FRAC = 1e-6  # of a class's level, which others may cost it: rounding, no more
NOTHING = 1e-9  # shares and prices below the solver's precision


def time_shares(classes: Classes, gpus_of_type: IntArray, policy: str) -> FloatArray:
    """(C, K) share of the time that each job of a class should run in each way.

    `max_min` makes the least of (GPUs x normalised throughput) over the jobs as large as it can
    be, then the least over those that can have more, and so on (water filling);
    `total_throughput` only makes the sum of (GPUs x normalised throughput) large. Narayanan and
    others, "Heterogeneity-aware cluster scheduling policies for deep learning workloads", OSDI
    2020, section 4. A job is in one place at a time, and all together hold no more GPUs of a type
    than there are. Like jobs get like shares, which loses nothing since the programs are convex.

    Args:
        classes: what wants to run; those whose speeds are all 0 get nothing.
        gpus_of_type: (T,) GPUs of each type.
        policy: one of `POLICIES`.

    Raises:
        SimulationError: the solver gave up.
    """
    shares = np.zeros(classes.speed.shape)
    rows, ways = np.nonzero(classes.speed > 0)
    if len(rows) == 0:
        return shares
    shares[rows, ways] = _solved(classes, gpus_of_type, policy, rows, ways)
    shares[shares < NOTHING] = 0.0
    return shares


def _solved(
    classes: Classes, gpus_of_type: IntArray, policy: str, rows: IntArray, ways: IntArray
) -> FloatArray:
    """Values of the pairs (rows, ways); the last variable of the programs is the least one."""
    pairs = len(rows)
    worth = classes.gpus[rows] * classes.speed[rows, ways]
    some, at = np.unique(rows, return_inverse=True)
    held = classes.jobs[rows] * classes.gpus[rows] * classes.use[ways].T  # (T, pairs)
    types = np.hstack([held, np.zeros((len(gpus_of_type), 1))])
    lines = np.vstack([_sums(-worth, at, len(some)), _sums(np.ones(pairs), at, len(some)), types])
    limits = np.concatenate([np.ones(len(some)), gpus_of_type])
    if policy == TOTAL_THROUGHPUT:
        cost = np.append(-classes.jobs[rows] * worth, 0.0)
        return _best(cost, lines[len(some) :], limits)[0]
    most = np.maximum.reduceat(worth, np.flatnonzero(np.diff(at, prepend=-1)))
    return _filled(lines, limits, most)


def _filled(lines: FloatArray, limits: FloatArray, most: FloatArray) -> FloatArray:
    """The pairs' values where the least is largest, then the least of those not held there, ...

    Each level is found from above: the prices at which it is too high say how high it can be.

    Args:
        lines: the first one of each class, its throughput below 0; then those with limits.
        limits: of the lines after the first ones.
        most: (n,) throughput of each class where it runs all the time.
    """
    n, cost = len(most), np.append(np.zeros(lines.shape[1] - 1), -1.0)
    floors, rising, level = np.zeros(n), np.ones(n, dtype=np.bool_), np.inf
    while True:
        wanted = np.minimum(most, level)
        lines[:n, -1] = np.where(rising, wanted, 0.0)
        x, prices = _best(cost, lines, np.concatenate([-floors, limits]))
        price, caps = prices[:n][rising], most[rising]
        part = float((-lines[:n, :-1] @ x / wanted)[rising].min())  # of what is wanted
        if part < 1.0 - SLACK_FRAC:
            heights = np.append(0.0, np.sort(caps))
            lower = np.interp(part, np.minimum.outer(heights, caps) @ price, heights)
            level = min(float(lower), level * (1.0 - SLACK_FRAC))
            continue
        # Who has a price has no more in any solution: more of it would cost one who has as little.
        held = rising & ((prices[:n] > NOTHING) | (most <= level))
        floors[held] = wanted[held] * (1.0 - SLACK_FRAC)
        rising, level = rising & ~held, np.inf
        if not rising.any() or not held.any():
            return x


def _sums(values: FloatArray, line: IntArray, lines: int) -> FloatArray:
    """(lines, pairs + 1) matrix that adds up the pairs of each line."""
    matrix = np.zeros((lines, len(values) + 1))
    matrix[line, np.arange(len(values))] = values
    return matrix


def _best(cost: FloatArray, lines: FloatArray, limits: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The pairs' values where lines @ x <= limits and the cost is lowest; what each line costs.

    Raises:
        SimulationError: the solver gave up.
    """
    # scipy.optimize takes a moment to import, which runs of other schedulers need not pay.
    from scipy.optimize import linprog

    found = linprog(cost, A_ub=lines, b_ub=limits, method="highs")
    if found.status != 0 or found.x is None:
        raise SimulationError(f"gavel: the linear program has no answer: {found.message}")
    return found.x[:-1], -found.ineqlin.marginals


class TimesReceived:
    """Running sums over the stay of each job, (J, T + 1): T types of GPU, and a mix of types."""

    def __init__(self, view: ClusterView) -> None:
        """Start at the view's instant with nothing."""
        shape = len(view.jobs.submit_s), len(view.topology.gpu_types) + 1
        self._at_s = view.now_s
        self._share = np.zeros(shape)  # as of the last program; 0 for jobs that came later
        self._known = np.zeros(shape[0], dtype=np.bool_)  # the last program knew the job
        self._entitled_s = np.zeros(shape)
        self._received_s = np.zeros(shape)
        # (J,) times that it had lost its GPUs when the last decision was done
        self._stops = np.array(view.jobs.restarts)

    def count(self, view: ClusterView) -> None:
        """Add the time since the last decision.

        Since then have run who runs, and who fails or is evicted just now and so waits again.
        """
        past_s, self._at_s = view.now_s - self._at_s, view.now_s
        if past_s <= 0:
            return
        for jobs in (view.queued, view.running):
            self._entitled_s[jobs] += self._share[jobs] * past_s
        lost = view.queued[view.jobs.restarts[view.queued] > self._stops[view.queued]]
        ran = np.concatenate([view.running, lost])
        if len(ran):
            self._received_s[ran, ways_of(view, ran)] += past_s

    def note(self, view: ClusterView, preempts: Sequence[int]) -> None:
        """Remember how often each job has lost its GPUs when `preempts` are done."""
        for jobs in (view.queued, view.running):
            self._stops[jobs] = view.jobs.restarts[jobs]
        self._stops[list(preempts)] += 1

    def entitle(self, jobs: IntArray, share: FloatArray) -> None:
        """From now on `jobs` are to have these shares (n, T + 1) of the time."""
        self._share[jobs] = share
        self._known[jobs] = True

    def priority(self, jobs: IntArray, round_s: float) -> tuple[FloatArray, FloatArray]:
        """(n, T + 1) entitled time, the coming round's included, over time received; and shares.

        0 where the share is 0; infinite where nothing was received, and for new jobs.
        """
        share, known = self._share[jobs], self._known[jobs]
        due_s = self._entitled_s[jobs] + share * round_s
        received_s = self._received_s[jobs]
        ratio = np.full(share.shape, np.inf)
        np.divide(due_s, received_s, out=ratio, where=received_s > 0)
        ratio[(share <= 0) & known[:, None]] = 0.0
        ratio[~known] = np.inf
        return ratio, share


def ways_of(view: ClusterView, jobs: IntArray) -> IntArray:
    """(n,) type of the GPUs that each of `jobs` has, or last had; number of types where several."""
    held = view.jobs.held[jobs]
    begin = np.cumsum(held) - held
    at = np.repeat(view.slot[jobs] - begin, held) + np.arange(held.sum())
    gpu_type = view.topology.server_gpu_type[view.topology.gpu_server[view.placed[at]]]
    least, most = np.minimum.reduceat(gpu_type, begin), np.maximum.reduceat(gpu_type, begin)
    return np.where(least == most, least, len(view.topology.gpu_types)).astype(np.int64)


ROUNDING_GPUS = 1e-9


class Gavel(RoundScheduler):
    """Runs jobs on the types of GPU where a linear program wants them, in rounds.

    Source: Narayanan and others, "Heterogeneity-Aware Cluster Scheduling Policies for Deep
    Learning Workloads", OSDI 2020, sections 4 (policies) and 5 (rounds).

    How it works: at every round a linear program gives each job its share X of the time on each
    type of GPU, from predicted throughputs. `max_min` is the paper's
    heterogeneity-aware least attained service: the least throughput over jobs, each relative to
    what an equal share of every type would give it and times its gang, is made as large as it can
    be, then that of the jobs that can have more than the least, and so on (the paper's water
    filling). `total_throughput` makes their sum large and may let jobs wait for as long as others
    are there. A job's priority on a type is X over the part of its time that it received there;
    pairs of job and type are served greedily, largest first, as far as the type's GPUs go. With one
    type of GPU nothing is left of it but sharing by turns.

    What the paper leaves open or does otherwise: X changes whenever jobs come and go, so what a
    job was entitled to is summed up over its stay and set against what it received, which is X
    over the part received where X does not change; the authors forget the past from time to
    time. Who has received nothing comes first. Throughputs are those of single GPUs
    (`compute_s`), gangs on one type scale alike on all. Jobs of equal speeds and gangs are one
    class of the program, which so stays small. Who cannot have more than a level is told by the
    program's prices (duals), where the authors solve a mixed-integer program. A gang that no type
    can hold runs across types. Between rounds jobs start on what is free by the same priority, new
    ones among the first. Packing two jobs on a GPU is left out.
    """

    order_name = "gavel"
    order_needs = Signal.PROFILE | Signal.INTERFERENCE
    makes_room = True

    def __init__(self, *, placer: Placer, round_s: float, policy: str) -> None:
        """`policy`: `max_min` or `total_throughput`."""
        super().__init__(placer=placer, round_s=round_s)
        if policy not in POLICIES:
            raise GpuYardError(f"scheduler.policy is {policy}; use one of {', '.join(POLICIES)}")
        self.policy = policy
        self.reset(0)

    def reset(self, seed: int) -> None:
        """Nobody has received anything."""
        super().reset(seed)
        self._times: TimesReceived | None = None
        self._solved: tuple[bytes, FloatArray] | None = None

    def decide(self, view: ClusterView) -> Decision:
        """Count the time received since the last decision, then decide as in every round."""
        if self._times is None:
            self._times = TimesReceived(view)
        self._times.count(view)
        decision = super().decide(view)
        self._times.note(view, decision.preempts)
        return decision

    def allot(self, view: ClusterView) -> list[Share]:
        """Pairs of job and type by priority, as far as the GPUs go."""
        assert self._times is not None
        jobs, gpus_of_type = present(view), gpus_up(view)
        if len(jobs) == 0:
            return []
        gpus, speed = gang_gpus(view, jobs), relative_speeds(view, jobs, gpus_of_type)
        classes, class_of = classes_of(gpus, speed, gpus_of_type)
        self._times.entitle(jobs, self._shares(classes, gpus_of_type)[class_of])
        asked = dict(zip(jobs.tolist(), gpus.tolist(), strict=True))
        left = gpus_of_type.astype(np.float64)
        taken: dict[int, Share] = {}
        for share in self._ranked(view, jobs, speed):
            if share.job not in taken and _fits(left, share, asked[share.job]):
                taken[share.job] = share
        return list(taken.values())

    def leftovers(self, view: ClusterView) -> list[Share]:
        """Every job on every type that it can use, by priority."""
        return self._alternatives(view, present(view))

    def newcomers(self, view: ClusterView) -> list[Share]:
        """Those who wait, likewise."""
        return self._alternatives(view, view.queued)

    def _alternatives(self, view: ClusterView, jobs: IntArray) -> list[Share]:
        return self._ranked(view, jobs, relative_speeds(view, jobs, gpus_up(view)))

    def _shares(self, classes: Classes, gpus_of_type: IntArray) -> FloatArray:
        """The program's answer; the last one again where nothing has changed."""
        arrays = (classes.jobs, classes.gpus, classes.speed, gpus_of_type)
        key = b"".join(array.tobytes() for array in arrays)
        if self._solved is None or self._solved[0] != key:
            self._solved = key, time_shares(classes, gpus_of_type, self.policy)
        return self._solved[1]

    def _ranked(self, view: ClusterView, jobs: IntArray, speed: FloatArray) -> list[Share]:
        """Possible pairs: by priority, then share, then speed, then submission."""
        assert self._times is not None
        priority, entitled = self._times.priority(jobs, self.round_s)
        row, way = np.nonzero(speed > 0)
        keys = (way, row, -speed[row, way], -entitled[row, way], -priority[row, way])
        best = np.lexsort(keys)
        row, way = row[best], way[best]
        types = speed.shape[1] - 1
        gangs = view.jobs.num_gpus[jobs]
        return [
            Share(job, gpus, gpu_type if gpu_type < types else None)
            for job, gpus, gpu_type in zip(
                jobs[row].tolist(), gangs[row].tolist(), way.tolist(), strict=True
            )
        ]


def _fits(left: FloatArray, share: Share, gpus: float) -> bool:
    """Take `gpus` of what is left of the share's type, or of all alike; False: too few."""
    of_type = left if share.gpu_type is None else left[share.gpu_type : share.gpu_type + 1]
    if of_type.sum() < gpus - ROUNDING_GPUS:
        return False
    of_type *= 1.0 - gpus / max(of_type.sum(), gpus)
    return True
