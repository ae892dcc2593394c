"""Gavel's linear program: what share of the time each class of jobs runs on each type of GPU.

GPUs by number, not by place: how many there are of each type, how many jobs ask for.

How fast Gavel takes each job to be on each type of GPU, and which jobs it may treat as one.

What each job was entitled to and what it received, by type of GPU.
"""

from dataclasses import dataclass

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray
from sim.errors import SimulationError
from sim.traits import WHOLE_GPU_MILLI
from sim.view import ClusterView

MAX_MIN, TOTAL_THROUGHPUT = "max_min", "total_throughput"
POLICIES = (MAX_MIN, TOTAL_THROUGHPUT)

# Of the least throughput, which the second program may give up: rounding, no more.
SLACK_FRAC = 1e-6
NOTHING = 1e-9  # shares below the solver's precision


@dataclass(frozen=True)
class Classes:
    """C classes of like jobs, K ways to run: one for each GPU type, and one for a mix of types."""

    jobs: IntArray  # (C,) jobs in each
    gpus: FloatArray  # (C,) GPUs that one of them asks for
    speed: FloatArray  # (C, K) work a second, over that with an equal share of every type; 0: no
    use: FloatArray  # (K, T) of which types the GPUs of each way are; rows sum to 1


def time_shares(classes: Classes, gpus_of_type: IntArray, policy: str) -> FloatArray:
    """(C, K) share of the time that each job of a class should run in each way.

    `max_min` makes the least of (GPUs x normalised throughput) over the jobs as large as it can
    be, and what is then left as useful as it can be; `total_throughput` only makes the sum of
    (GPUs x normalised throughput) large. Narayanan and others, "Heterogeneity-aware cluster
    scheduling policies for deep learning workloads", OSDI 2020, section 4. A job is in one place
    at a time, and all together hold no more GPUs of a type than there are. Like jobs get like
    shares, which loses nothing since the programs are convex.

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
    one_place = _sums(np.ones(pairs), at, len(some))
    types = np.hstack([held, np.zeros((len(gpus_of_type), 1))])
    lines = [one_place, types]
    limits = [np.ones(len(some)), gpus_of_type.astype(np.float64)]
    total = np.append(-classes.jobs[rows] * worth, 0.0)
    if policy == TOTAL_THROUGHPUT:
        return _best(total, lines, limits, None)
    at_least = _sums(-worth, at, len(some))
    at_least[:, -1] = 1.0
    lines, limits = [*lines, at_least], [*limits, np.zeros(len(some))]
    least = _best(np.append(np.zeros(pairs), -1.0), lines, limits, None)
    reached = np.bincount(at, worth * least).min()
    return _best(total, lines, limits, float(reached * (1.0 - SLACK_FRAC)))


def _sums(values: FloatArray, line: IntArray, lines: int) -> FloatArray:
    """(lines, pairs + 1) matrix that adds up the pairs of each line."""
    matrix = np.zeros((lines, len(values) + 1))
    matrix[line, np.arange(len(values))] = values
    return matrix


def _best(
    cost: FloatArray, lines: list[FloatArray], limits: list[FloatArray], least: float | None
) -> FloatArray:
    """The pairs' values where lines @ x <= limits and the cost is lowest; `least` bounds the last.

    Raises:
        SimulationError: the solver gave up.
    """
    # scipy.optimize takes a moment to import, which runs of other schedulers need not pay.
    from scipy.optimize import linprog

    bounds = [(0.0, None)] * (len(cost) - 1) + [(0.0 if least is None else least, None)]
    found = linprog(
        cost,
        A_ub=np.vstack(lines),
        b_ub=np.concatenate(limits),
        bounds=bounds,
        method="highs",
    )
    if found.status != 0 or found.x is None:
        raise SimulationError(f"gavel: the linear program has no answer: {found.message}")
    x: FloatArray = found.x[:-1]
    return x


def gpus_up(view: ClusterView) -> IntArray:
    """(K,) GPUs of each of `Topology.gpu_types` on servers that the view owns and that are up."""
    topology, servers = view.topology, view.servers
    size = np.where(view.server_closed[servers] == 0, topology.gpus_per_server[servers], 0)
    kinds = len(topology.gpu_types)
    return np.bincount(topology.server_gpu_type[servers], size, kinds).astype(np.int64)


def worker_gpus(view: ClusterView, jobs: IntArray) -> FloatArray:
    """(len(jobs),) GPUs that one worker of each asks for: 1, or the part that it shares."""
    if view.jobs.demands is None:
        return np.ones(len(jobs))
    part: FloatArray = view.jobs.demands.gpu_milli[jobs] / WHOLE_GPU_MILLI
    return part


def gang_gpus(view: ClusterView, jobs: IntArray) -> FloatArray:
    """(len(jobs),) GPUs that the whole gang of each asks for."""
    asked: FloatArray = view.jobs.num_gpus[jobs] * worker_gpus(view, jobs)
    return asked


def present(view: ClusterView) -> IntArray:
    """(n,) waiting and running jobs, ascending."""
    return np.sort(np.concatenate([view.queued, view.running]))


DIGITS = 9  # speeds that agree to so many are equal


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
    gpus = gang_gpus(view, jobs)
    accepted = _accepted(view, jobs, len(gpus_of_type)) & (gpus_of_type > 0)
    fits = accepted & (gpus[:, None] <= gpus_of_type)
    equal = (np.where(fits, pace, 0.0) * gpus_of_type).sum(axis=1) / max(1, gpus_of_type.sum())
    alone = np.where(fits, pace / np.where(equal > 0, equal, 1.0)[:, None], 0.0)
    mixes = ~fits.any(axis=1) & (gpus <= (accepted * gpus_of_type).sum(axis=1))
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


def _accepted(view: ClusterView, jobs: IntArray, types: int) -> BoolArray:
    """(n, T) whether a job takes GPUs of that type."""
    if view.jobs.demands is None:
        return np.ones((len(jobs), types), dtype=np.bool_)
    mask = view.jobs.demands.type_mask[jobs]
    accepted: BoolArray = (mask[:, None] >> np.arange(types)) & 1 == 1
    return accepted


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

    def count(self, view: ClusterView) -> None:
        """Add the time since the last call: running jobs have run since then."""
        past_s, self._at_s = view.now_s - self._at_s, view.now_s
        if past_s <= 0:
            return
        for jobs in (view.queued, view.running):
            self._entitled_s[jobs] += self._share[jobs] * past_s
        if len(view.running):
            self._received_s[view.running, ways_of(view)] += past_s

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


def ways_of(view: ClusterView) -> IntArray:
    """(r,) type of GPU of each running job; the number of types where it has several."""
    held = view.jobs.held[view.running]
    begin = np.cumsum(held) - held
    at = np.repeat(view.slot[view.running] - begin, held) + np.arange(held.sum())
    kinds = view.topology.server_gpu_type[view.topology.gpu_server[view.placed[at]]]
    least, most = np.minimum.reduceat(kinds, begin), np.maximum.reduceat(kinds, begin)
    return np.where(least == most, least, len(view.topology.gpu_types)).astype(np.int64)
