"""Optimus: elastic gangs grow where a GPU shortens the remaining time most."""

import numpy as np

from sim import rounds
from sim.arrays import FloatArray, IntArray
from sim.errors import check_numbers
from sim.jit import array_kernel
from sim.jobs import WHOLE_GPU_MILLI
from sim.protocols import Placer
from sim.view import ClusterView, Signal


@array_kernel
def _best_step(
    time_s: FloatArray, have: int, most: int, held: int, hysteresis: float
) -> tuple[float, int]:
    """Largest gain per GPU of going from `have` to more, at most `most`; with how many more."""
    best, more = 0.0, 0
    for gpus in range(have + 1, most + 1):
        gain = (time_s[have] - time_s[gpus]) / (gpus - have)
        if held > 0:
            gain = gain * (1.0 + hysteresis) if gpus <= held else gain / (1.0 + hysteresis)
        if gain > best:
            best, more = gain, gpus - have
    return best, more


@array_kernel
def divide(
    time_s: FloatArray, limits: IntArray, held: IntArray, size_milli: IntArray, room_milli: int,
    hysteresis: float,
) -> IntArray:  # fmt: skip
    """(n,) GPUs for each job, 0 for those that have to wait.

    First each job in the order given gets its least, as far as that goes. Then the job whose
    remaining time falls most per GPU gets one more, again and again, while that helps. Where one
    more does not help but several do (a measured scaling has steps), it gets these several.

    Args:
        time_s: (n, W + 1) remaining time with k GPUs; column 0 is never read.
        limits: (n, 2) least and most GPUs, most at most W.
        held: (n,) GPUs that a running job holds, 0 if it waits.
        size_milli: (n,) thousandths of a GPU that each of its workers takes.
        room_milli: thousandths that there are.
        hysteresis: of a running job, gains from what it holds count 1 + this much more, those
            from more than it holds as much less; and it keeps its number where more would
            shorten its remaining time by less than this fraction.
    """
    given = np.zeros(len(held), dtype=np.int64)
    for job in range(len(held)):  # whose least is too much is passed over, not waited for
        need = limits[job, 0] * size_milli[job]
        if need <= room_milli:
            given[job] = limits[job, 0]
            room_milli -= need
    _grow(time_s, limits[:, 1], held, size_milli, room_milli, hysteresis, given)
    for job in range(len(held)):  # at the end: what counts is the whole growth, not each step
        grows = 0 < held[job] < given[job]
        if grows and time_s[job, given[job]] > (1.0 - hysteresis) * time_s[job, held[job]]:
            given[job] = held[job]
    return given


@array_kernel
def _grow(  # noqa: PLR0917 - arrays go by position into compiled code
    time_s: FloatArray,
    most: IntArray,
    held: IntArray,
    size_milli: IntArray,
    room_milli: int,
    hysteresis: float,
    given: IntArray,
) -> None:
    """Add to `given` of those that have their least, where it helps most."""
    gain = np.zeros(len(held))
    more = np.zeros(len(held), dtype=np.int64)
    stale = given > 0
    while len(held) > 0:  # never of nobody: argmax would fail
        for job in range(len(held)):  # others' best steps still fit, and stay best
            if stale[job] or more[job] * size_milli[job] > room_milli:
                reach = min(most[job], given[job] + room_milli // size_milli[job])
                best, more[job] = _best_step(time_s[job], given[job], reach, held[job], hysteresis)
                gain[job] = best / size_milli[job]
                stale[job] = False
        first = int(np.argmax(gain))
        if gain[first] <= 0.0:
            break
        given[first] += more[first]
        room_milli -= more[first] * size_milli[first]
        stale[first] = True


OVERTIME_FRAC = 0.05  # of its prediction: what is left at least, however long the job has run
SHORTEST_S = 1.0


class Optimus(rounds.RoundScheduler):
    """Every round elastic jobs get GPUs where these shorten their rest most.

    Source: Peng and others, "Optimus: An Efficient Dynamic Resource Scheduler for Deep Learning
    Clusters", EuroSys 2018, section 4.

    How it works: the remaining time of a job with n GPUs is its predicted remaining work over the
    throughput of n GPUs, as measured (`Catalogue.speedup`) and modelled with the believed network
    where nobody measured. Every round each job gets the fewest GPUs it runs on; then, again and
    again, the job whose remaining time falls most per GPU gets another, until GPUs run out or
    help nobody. A job that keeps its number keeps its GPUs. Gangs that are not elastic are given
    whole or not at all. With the placer `packed` a job is put on the fewest servers there are.

    What the paper leaves open or does otherwise: it gives out parameter servers and workers, we
    GPUs; it fits loss curves and speeds on line, we read predictions (of a job that outlives
    its own, 5 % of it are taken to be left). Where the least of all jobs is more than the
    cluster, jobs come in order of the GPU-seconds that they still need with their least, so that
    with rigid gangs it is shortest remaining service first. Where one GPU more does not help but
    several do, several are given at once. `hysteresis_frac` saves restarts: see `divide`. Between
    rounds those who wait divide what is free in the same way; nobody grows or shrinks. GPU types
    are taken as equal, and a gang may mix them.
    """

    order_name = "optimus"
    order_needs = Signal.PREDICTION | Signal.PROFILE | Signal.INTERFERENCE
    makes_room = True

    def __init__(self, *, placer: Placer, round_s: float, hysteresis_frac: float) -> None:
        """`hysteresis_frac`: from 0 to below 1, how much better another number of GPUs must be."""
        super().__init__(placer=placer, round_s=round_s)
        check_numbers("scheduler", "from 0 to below 1", hysteresis_frac=hysteresis_frac)
        self.hysteresis_frac = hysteresis_frac
        self._scaling = rounds.ToldScaling()

    def allot(self, view: ClusterView) -> list[rounds.Share]:
        """The GPUs that are up, divided among all jobs."""
        return self._divided(
            view, rounds.present(view), int(rounds.gpus_up(view).sum()) * WHOLE_GPU_MILLI
        )

    def leftovers(self, view: ClusterView) -> list[rounds.Share]:
        """Everybody with the fewest GPUs, in order."""
        return self._fewest(view, rounds.present(view))

    def newcomers(self, view: ClusterView) -> list[rounds.Share]:
        """What is free, divided among those who wait; who finds no place for that asks for less."""
        free = int(view.server_free[view.servers].sum()) * WHOLE_GPU_MILLI
        jobs = np.sort(view.queued)
        return self._divided(view, jobs, free) + self._fewest(view, jobs)

    def _fewest(self, view: ClusterView, jobs: IntArray) -> list[rounds.Share]:
        """The jobs with the fewest GPUs they run on, in order."""
        least = _limits(view, jobs)[:, 0]
        order = self._order(view, jobs, self._speed(view, jobs))
        return rounds.shares_of(jobs[order], least[order])

    def _divided(self, view: ClusterView, jobs: IntArray, room_milli: int) -> list[rounds.Share]:
        speed = self._speed(view, jobs)
        order = self._order(view, jobs, speed)
        jobs, speed = jobs[order], speed[order]
        held = np.where(np.isin(jobs, view.running), view.jobs.held[jobs], 0)
        size_milli = np.rint(rounds.worker_gpus(view, jobs) * WHOLE_GPU_MILLI).astype(np.int64)
        time_s = _left_s(view, jobs)[:, None] / speed
        limits = _limits(view, jobs)
        gpus = divide(time_s, limits, held, size_milli, room_milli, self.hysteresis_frac)
        return rounds.shares_of(jobs, gpus)

    def _speed(self, view: ClusterView, jobs: IntArray) -> FloatArray:
        """(n, W + 1) work a second with k GPUs, over that with the gang; column 0 is infinite."""
        width = int(_limits(view, jobs)[:, 1].max(initial=1))
        throughput = self._scaling.throughput(view)
        profile = view.jobs.profile[jobs]
        gang = np.minimum(view.jobs.num_gpus[jobs], throughput.shape[1] - 1)
        speed: FloatArray = throughput[profile, : width + 1] / throughput[profile, gang][:, None]
        speed[:, 0] = np.inf
        return speed

    def _order(self, view: ClusterView, jobs: IntArray, speed: FloatArray) -> IntArray:
        """Positions in `jobs`, fewest GPU-seconds to go first."""
        least = _limits(view, jobs)[:, 0]
        time_s = _left_s(view, jobs) / speed[np.arange(len(jobs)), least]
        return np.argsort(time_s * least * rounds.worker_gpus(view, jobs), kind="stable")


def _left_s(view: ClusterView, jobs: IntArray) -> FloatArray:
    """(n,) predicted remaining work."""
    floor_s = np.maximum(OVERTIME_FRAC * view.jobs.estimate_s[jobs], SHORTEST_S)
    return np.maximum(view.jobs.predicted_remaining_s[jobs], floor_s)


def _limits(view: ClusterView, jobs: IntArray) -> IntArray:
    """(n, 2) fewest and most GPUs; no more than the cluster has."""
    return np.column_stack(rounds.gpus_between(view, jobs))
