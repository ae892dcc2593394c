"""Pollux: a genetic search over GPUs per job for the best mean speed-up over a fair share."""

from typing import NamedTuple

import numpy as np

from sim import rounds
from sim.arrays import BoolArray, FloatArray, IntArray
from sim.engine.occupancy import Occupancy
from sim.errors import check_numbers
from sim.jit import array_kernel
from sim.jobs import WHOLE_GPU_MILLI
from sim.protocols import Placer
from sim.sharing import place_alone
from sim.view import ClusterView, Signal

TOURNAMENT = 2  # who breeds is the best of so many


class Limits(NamedTuple):
    """What each of n jobs may get, and what there is."""

    least: IntArray  # (n,) GPUs of a job that gets any
    most: IntArray  # (n,)
    size_milli: IntArray  # (n,) thousandths of a GPU that each of its workers takes
    room_milli: int  # thousandths of a GPU there are


class Effort(NamedTuple):
    """How hard to search."""

    population: int
    generations: int


@array_kernel
def keep_within(
    counts: IntArray,  # (K, n), changed in place
    order: IntArray,  # (K, n) each row a permutation: who is served first
    least: IntArray,
    most: IntArray,
    size_milli: IntArray,
    room_milli: int,
) -> None:
    """Cut every row to what there is.

    Those who get any first get their least, as far as it goes in the order given; then what they
    want beyond that. A job that wants less than its least gets nothing.
    """
    for row in range(counts.shape[0]):  # each is cut on its own, in its own order
        left = room_milli
        for at in order[row]:  # everybody's least, before anybody gets more
            if counts[row, at] < least[at] or least[at] * size_milli[at] > left:
                counts[row, at] = 0
            else:
                left -= least[at] * size_milli[at]
        for at in order[row]:  # who is earlier may leave nothing for the rest
            if counts[row, at] > 0:
                more = min(counts[row, at], most[at]) - least[at]
                more = min(more, left // size_milli[at])
                counts[row, at] = least[at] + more
                left -= more * size_milli[at]


@array_kernel
def fitness(counts: IntArray, cost: FloatArray) -> FloatArray:
    """(K,) minus the summed cost of each row; `cost` (n, W + 1) is of each job with k GPUs."""
    total = np.zeros(counts.shape[0])
    for row in range(counts.shape[0]):  # no (K, n) table of costs on the way
        for at in range(counts.shape[1]):  # in one order: equal rows get equal sums
            total[row] -= cost[at, counts[row, at]]
    return total


def search(
    first: IntArray, cost: FloatArray, limits: Limits, effort: Effort, rng: np.random.Generator
) -> IntArray:
    """(n,) GPUs of each job, of the least summed cost found; never worse than rows of `first`.

    Every generation as many children as parents: of two parents, each the better of two drawn, a
    child takes each job's number from either; then one job in n gets another number within its
    limits, or none. Children are cut to what there is, each in another order, and the best of
    parents and children live on.

    Args:
        first: (k, n) allotments to begin with; cut like children, in order of their columns.
        cost: (n, W + 1) cost of each job with 0 to W GPUs.
        limits: what may be.
        effort: how long to go on.
        rng: where every draw comes from.
    """
    shape = effort.population, len(limits.least)
    alive = np.concatenate([first, _any_numbers(shape, limits, rng)])
    order = _orders(alive.shape, rng)
    order[: len(first)] = np.arange(shape[1])
    keep_within(alive, order, *limits)
    alive, score = _best(alive, fitness(alive, cost), effort.population)
    for _ in range(effort.generations):
        children = _bred(alive, score, shape, rng)
        mutated: BoolArray = rng.random(shape) < 1.0 / shape[1]
        children = np.where(mutated, _any_numbers(shape, limits, rng), children)
        keep_within(children, _orders(shape, rng), *limits)
        alive, score = _best(
            np.concatenate([alive, children]),
            np.concatenate([score, fitness(children, cost)]),
            effort.population,
        )
    best: IntArray = alive[0]
    return best


def _any_numbers(shape: tuple[int, int], limits: Limits, rng: np.random.Generator) -> IntArray:
    """Any number from one below the least, which stands for none, to the most."""
    numbers: IntArray = rng.integers(limits.least - 1, limits.most + 1, size=shape)
    return np.where(numbers < limits.least, 0, numbers)


def _orders(shape: tuple[int, int], rng: np.random.Generator) -> IntArray:
    """Who is served first in each row: one order, begun anywhere (drawing each takes long)."""
    order: IntArray = rng.permutation(shape[1])
    begin = rng.integers(0, shape[1], size=(shape[0], 1))
    turned: IntArray = order[(np.arange(shape[1]) + begin) % shape[1]]
    return turned


def _bred(
    alive: IntArray, score: FloatArray, shape: tuple[int, int], rng: np.random.Generator
) -> IntArray:
    drawn = rng.integers(0, len(alive), size=(TOURNAMENT, 2, shape[0]))
    parents = np.take_along_axis(drawn, score[drawn].argmax(axis=0)[None], axis=0)[0]
    either: BoolArray = rng.random(shape) < 1 / 2
    child: IntArray = np.where(either, alive[parents[0]], alive[parents[1]])
    return child


def _marks(width: int) -> IntArray:
    """(width,) odd numbers whose sums tell rows apart, all but surely, as hashes do."""
    return np.cumprod(np.full(width, 6364136223846793005, dtype=np.int64))


def _best(rows: IntArray, score: FloatArray, number: int) -> tuple[IntArray, FloatArray]:
    """The best rows, best first, equal ones once; ties go to the earlier row."""
    distinct = np.sort(np.unique(rows @ _marks(rows.shape[1]), return_index=True)[1])
    kept = distinct[np.argsort(-score[distinct], kind="stable")][:number]
    return rows[kept], score[kept]


NEVER = 1e30  # a cost
LEAST_FACTOR = 1e-3  # of a speed-up, however often a job has restarted


class Pollux(rounds.RoundScheduler):
    """Every round a genetic search finds how many GPUs elastic jobs get.

    Source: Qiao et al., OSDI 2021, section 4.2. A job's speed-up with n GPUs is its goodput over
    that with a fair share, all GPUs over all jobs; sought is the largest power mean (`power` -1:
    harmonic) of the speed-ups. A running job that would get another number counts
    (T - R * restart_s) / (T + restart_s) of its speed-up, T its age and R its restarts so far.

    Goodput here is throughput alone, as measured (`Catalogue.speedup`) and modelled beyond with
    the believed network: nobody measured gradient noise scales, so batches are as fixed as the
    work, and statistical efficiency is 1. Nothing is known of durations.

    Chosen here: the search is over numbers of GPUs, not over servers; the placer places them, and
    gangs that need several servers are first offered those without another such gang (the paper
    forbids the two to meet). A job without GPUs counts as `idle_speedup` divided by 1 + the rounds
    it has waited: the paper's jobs all shrink to one GPU, ours need not, so rigid gangs take turns
    rather than starve. A fair share below a job's least is that part of the time with its least.
    GPU types are taken as equal. Who finds no place with its number is offered its least. Between
    rounds newcomers start with their gang or, where that does not fit, their least.
    """

    order_name = "pollux"
    order_needs = Signal.PROFILE | Signal.INTERFERENCE
    makes_room = True

    def __init__(
        self, *, placer: Placer, round_s: float, population: int, generations: int, power: float,
        idle_speedup: float, restart_s: float,
    ) -> None:  # fmt: skip
        """`restart_s`: what the search takes a restart to cost."""
        super().__init__(placer=placer, round_s=round_s)
        check_numbers("scheduler", "2 or more", population=population)  # parents
        check_numbers("scheduler", "0 or more", generations=generations, restart_s=restart_s)
        check_numbers("scheduler", "from -100 to below 0", power=power)
        check_numbers("scheduler", "above 0, at most 1", idle_speedup=idle_speedup)
        self.effort = Effort(population, generations)
        self.power = power
        self.idle_speedup = idle_speedup
        self.restart_s = restart_s
        self._scaling = rounds.ToldScaling()
        self._waited: dict[int, int] = {}  # rounds since it last had GPUs, of waiting jobs

    def reset(self, seed: int) -> None:
        """Begin anew, with another cluster perhaps."""
        super().reset(seed)
        self._scaling = rounds.ToldScaling()
        self._waited = {}

    def allot(self, view: ClusterView) -> list[rounds.Share]:
        """The best allotment found; who has waited longest is placed first, then the largest."""
        self._waited = {job: self._waited.get(job, -1) + 1 for job in view.queued.tolist()}
        jobs = rounds.present(view)
        if len(jobs) == 0 or not rounds.gpus_up(view).any():
            return []
        held = np.where(np.isin(jobs, view.running), view.jobs.held[jobs], 0)
        waited = np.array([self._waited.get(job, 0) for job in jobs.tolist()])
        # Who is still restarting stays, or rounds shorter than restarts would do no work.
        stays: BoolArray = (held > 0) & (view.jobs.resume_s[jobs] >= view.now_s)
        waited[stays] = waited.max() + 1
        limits = _limits(view, jobs)
        limits = limits._replace(
            least=np.where(stays, held, limits.least), most=np.where(stays, held, limits.most)
        )
        if len(view.queued) == 0 and (limits.least == limits.most).all():
            return rounds.shares_of(jobs, held)
        cost = self._cost(view, jobs, held, waited, limits)
        cost[stays, 0] = NEVER
        # Those first to whom their least brings most a GPU: it is the order of cutting.
        gain = cost[:, 0] - cost[np.arange(len(jobs)), limits.least]
        order = np.argsort(-gain / (limits.least * limits.size_milli), kind="stable")
        jobs, held, waited, cost = jobs[order], held[order], waited[order], cost[order]
        limits = limits._replace(
            least=limits.least[order], most=limits.most[order], size_milli=limits.size_milli[order]
        )
        first = np.stack([held, np.where(held > 0, held, limits.least), limits.least, limits.most])
        gpus = search(first, cost, limits, self.effort, self._rng)
        ranks = np.lexsort((-gpus, -waited))
        return rounds.shares_of(jobs[ranks], gpus[ranks])

    def leftovers(self, view: ClusterView) -> list[rounds.Share]:
        """Everybody's least, in order of submission."""
        jobs = rounds.present(view)
        return rounds.shares_of(jobs, _limits(view, jobs).least)

    def newcomers(self, view: ClusterView) -> list[rounds.Share]:
        """Every waiting job with its gang, then with its least."""
        fewest = rounds.shares_of(view.queued, _limits(view, view.queued).least)
        return super().newcomers(view) + fewest

    def _cost(
        self, view: ClusterView, jobs: IntArray, held: IntArray, waited: IntArray, limits: Limits
    ) -> FloatArray:
        """(n, W + 1) speed-up with 0 to W GPUs to the `power`; lower is better."""
        speed = self._goodput(view, jobs, limits)
        speedup = speed / _at_share(speed, limits.room_milli / (len(jobs) * limits.size_milli))
        age_s = view.now_s - view.jobs.submit_s[jobs]
        lost_s = view.jobs.restarts[jobs] * self.restart_s
        kept = (age_s - lost_s) / np.maximum(age_s + self.restart_s, 1.0)
        factor = np.clip(kept, LEAST_FACTOR, 1.0)[:, None]
        resized: BoolArray = np.arange(speed.shape[1]) != held[:, None]
        speedup = np.where(resized & (held > 0)[:, None], speedup * factor, speedup)
        speedup[:, 0] = self.idle_speedup / (1.0 + waited)
        return speedup**self.power

    def _goodput(self, view: ClusterView, jobs: IntArray, limits: Limits) -> FloatArray:
        """(n, W + 1) work a second with 0 to W GPUs, most compact; in parts below the least."""
        profile = view.jobs.profile[jobs]
        throughput = self._scaling.throughput(view)
        numbers = np.arange(int(limits.most.max()) + 1)
        least, most = limits.least[:, None], limits.most[:, None]
        whole: FloatArray = throughput[profile[:, None], np.clip(numbers, least, most)]
        return np.where(numbers < least, whole * (numbers / least), whole)

    def _found(
        self, view: ClusterView, occupancy: Occupancy, share: rounds.Share
    ) -> IntArray | None:
        """As in the parent; a gang of several servers keeps away from others if it can."""
        if share.gpus > view.topology.gpus_per_server.max():
            gpus = place_alone(
                view, occupancy, share.job, self.placer, self._rng,
                gang=share.gpus, on=~_crossed(view, occupancy),
            )  # fmt: skip
            if gpus is not None:
                return gpus
        return super()._found(view, occupancy, share)


def _at_share(speed: FloatArray, gpus: FloatArray) -> FloatArray:
    """(n, 1) `speed` (n, W + 1) at a number of GPUs (n,) that need not be whole."""
    last = speed.shape[1] - 1
    within = np.clip(gpus, 0, last)
    low = np.minimum(within.astype(np.int64), last - 1)
    rows = np.arange(len(speed))
    below, above = speed[rows, low], speed[rows, low + 1]
    between: FloatArray = below + (within - low) * (above - below)
    return between[:, None]


def _limits(view: ClusterView, jobs: IntArray) -> Limits:
    """Fewest and most GPUs of each job, no more than there are, and what there is."""
    least, most = rounds.gpus_between(view, jobs)
    return Limits(
        least=least,
        most=most,
        size_milli=np.rint(rounds.worker_gpus(view, jobs) * WHOLE_GPU_MILLI).astype(np.int64),
        room_milli=int(rounds.gpus_up(view).sum()) * WHOLE_GPU_MILLI,
    )


def _crossed(view: ClusterView, occupancy: Occupancy) -> BoolArray:
    """(S,) servers that have a worker of a gang on several servers."""
    gpus = np.flatnonzero(occupancy.tenants > 0)
    server, job = view.topology.gpu_server[gpus], occupancy.tenant[gpus, 0]
    pairs = np.unique(np.stack([job, server]), axis=1)
    jobs, servers = np.unique(pairs[0], return_counts=True)
    crossed = np.zeros(view.topology.num_servers, dtype=np.bool_)
    crossed[pairs[1][np.isin(pairs[0], jobs[servers > 1])]] = True
    return crossed
