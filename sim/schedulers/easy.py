"""FIFO with EASY backfill, by prediction."""

from typing import NamedTuple

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray
from sim.codes import ASKED
from sim.decision import Start
from sim.engine.composed import ByArrival
from sim.engine.occupancy import Occupancy
from sim.engine.rule import PAIR
from sim.errors import check_numbers
from sim.protocols import Placer, Sharing
from sim.view import ClusterView, Signal


class Ending(NamedTuple):
    """A job that holds GPUs, and when it is expected to give them back."""

    end_s: float
    job: int
    gpus: IntArray


class Reservation(NamedTuple):
    """GPUs that a blocked job is to get at `shadow_s`."""

    shadow_s: float
    gpus: IntArray

    def outside(self, occupancy: Occupancy) -> Occupancy:
        """A copy of `occupancy` in which the reserved GPUs are full."""
        rest = occupancy.copy()
        rest.bar(self.gpus)
        return rest


class Reserver(NamedTuple):
    """Tries a job on the GPUs that others are expected to leave."""

    view: ClusterView
    placer: Placer
    sharing: Sharing
    rng: np.random.Generator

    def first(self, occupancy: Occupancy, endings: list[Ending], job: int) -> Reservation | None:
        """The earliest end at which `job` has a place; None if it has none even after all ends.

        `endings` are in order of time. One by one: where three share, an end may take a place away.
        """
        for ending in endings:
            gpus, occupancy = self._after(occupancy, [ending], job)
            if gpus is not None:
                return Reservation(ending.end_s, gpus)
        return None

    def reserve(self, occupancy: Occupancy, endings: list[Ending], job: int) -> Reservation | None:
        """The same by bisection: what fits, fits after more ends too."""
        gpus = self._after(occupancy, endings, job)[0]
        if gpus is None:
            return None
        low, high = 0, len(endings)  # after `low` ends it has no place, after `high` it has
        while high - low > 1:
            middle = (low + high) // 2
            found, trial = self._after(occupancy, endings[low:middle], job)
            if found is None:
                low, occupancy = middle, trial
            else:
                high, gpus = middle, found
        return Reservation(endings[high - 1].end_s, gpus) if endings else None

    def _after(
        self, occupancy: Occupancy, endings: list[Ending], job: int
    ) -> tuple[IntArray | None, Occupancy]:
        """GPUs for `job` once these have ended, and who holds what then."""
        trial = occupancy.copy()
        trial.vacate_all((ending.job, ending.gpus) for ending in endings)
        return self.sharing.place(self.view, trial, job, self.placer, self.rng), trial


class Kinds(NamedTuple):
    """Kinds of the jobs of a run, numbered as they come."""

    of: IntArray  # the run's column of gangs
    number: IntArray  # (jobs,) -1: not asked for yet
    known: dict[tuple[int, ...], int]


NO_RESERVATION = Reservation(np.inf, np.empty(0, dtype=np.int64))


def _next(
    at: int, kinds: IntArray, long: BoolArray, open_now: BoolArray, open_long: BoolArray
) -> int:
    """The first from `at` on whose like has not been refused; the number of all if there is none.

    Args:
        at: where to begin.
        kinds: (n,) of the jobs.
        long: (n,) whether each runs beyond the shadow time.
        open_now: (kinds,) false once there was no place.
        open_long: (kinds,) false once there was none beside the reservation.
    """
    rest = kinds[at:]
    able = open_now[rest] & (open_long[rest] | ~long[at:])
    return at + (int(able.argmax()) if able.any() else len(rest))


class Easy(ByArrival):
    """First submitted; a later job passes a blocked head that it does not delay.

    Source: EASY backfilling (Mu'alem & Feitelson, IEEE TPDS 12(6), 2001). The head of the queue has
    a reservation: the shadow time, the earliest at which running jobs leave it enough by
    prediction. A job behind it starts if by prediction it is over at the shadow time, or on what
    the head will not need. Only the head has a reservation; decisions at arrivals and finishes.

    The paper counts processors of one pool. Chosen here: the reservation is a placement, the GPUs
    that placer and sharing rule give the head once the jobs that end first are gone; jobs that run
    longer get other GPUs. So a head that waits for a compact place is kept one. A GPU of which the
    head asks for a part is kept whole: a job that runs longer waits though its part would fit
    beside the head's, since what it would find free must be free both now and then. Cores and
    memory are not reserved. Predictions are at speed 1; a job that has outrun its prediction is
    taken to end in `overrun_s`. Where the head would find no place even in the empty cluster
    (servers away), all others may pass. Stealing (the partitioned form) skips blocked jobs without
    reservations.
    """

    order_name = "easy"
    order_needs = Signal.PREDICTION
    engine_code = ASKED  # `fill` is, where more than one waits and somebody has room

    def __init__(self, *, placer: Placer, sharing: Sharing, overrun_s: float) -> None:
        """`overrun_s`: above 0, what a job has left once it has outrun its prediction."""
        super().__init__(placer=placer, sharing=sharing, skip_blocked=False)
        check_numbers("scheduler", "above 0", overrun_s=overrun_s)
        self.overrun_s = overrun_s
        self._kept: Kinds | None = None

    def fill(
        self, view: ClusterView, occupancy: Occupancy, order: IntArray, skip_blocked: bool
    ) -> list[Start]:
        """Start the head and those after it until one is blocked, then backfill behind that one.

        With `skip_blocked` whoever fits starts, and nobody has a reservation.
        """
        starts: list[Start] = []
        for at, job in enumerate(order.tolist()):
            gpus = self.sharing.place(view, occupancy, job, self.placer, self.rng)
            if gpus is not None:
                occupancy.occupy(job, gpus)
                starts.append(Start(job, gpus))
            elif not skip_blocked:
                return starts + self._backfill(view, occupancy, order[at:], starts)
        return starts

    def _backfill(
        self, view: ClusterView, occupancy: Occupancy, queue: IntArray, started: list[Start]
    ) -> list[Start]:
        """Start jobs behind the blocked `queue[0]` that do not delay it; book them."""
        head, behind = int(queue[0]), queue[1:]
        ends_s = view.now_s + self._left_s(view, behind)
        kinds, count = self._kinds(view, behind)
        may_refuse = self.may_refuse(view.tenant.shape[1])
        starts: list[Start] = []
        reservation: Reservation | None = None
        # Kinds that may have a place, and those of them that run beyond the shadow time.
        open_now, open_long = np.ones((2, count), dtype=np.bool_)
        at, shadow_s = -1, np.inf
        while True:
            at += 1
            if may_refuse:
                at = _next(at, kinds, ends_s > shadow_s, open_now, open_long)
            if at >= len(behind):
                return starts
            job, like = int(behind[at]), kinds[at]
            gpus = self.sharing.place(view, occupancy, job, self.placer, self.rng)
            if gpus is None:
                open_now[like] = False
                continue
            if reservation is None:  # worked out only where somebody could pass
                reservation = self._reserve(view, occupancy, head, started)
                shadow_s = reservation.shadow_s
            if ends_s[at] > shadow_s:
                outside = reservation.outside(occupancy)
                gpus = self.sharing.place(view, outside, job, self.placer, self.rng)
                if gpus is None:
                    open_long[like] = False
                    continue
            occupancy.occupy(job, gpus)
            starts.append(Start(job, gpus))

    def _kinds(self, view: ClusterView, jobs: IntArray) -> tuple[IntArray, int]:
        """(n,) numbers of the kinds of jobs, and how many kinds there are; kept for a run."""
        if self._kept is None or self._kept.of is not view.jobs.num_gpus:
            size = len(view.jobs.num_gpus)
            self._kept = Kinds(view.jobs.num_gpus, np.full(size, -1, dtype=np.int64), {})
        number, known = self._kept.number, self._kept.known
        for job in jobs[number[jobs] < 0].tolist():
            number[job] = known.setdefault(self.class_of(view, job), len(known))
        return number[jobs], len(known)

    def _reserve(
        self, view: ClusterView, occupancy: Occupancy, head: int, started: list[Start]
    ) -> Reservation:
        """What `head` will have; a shadow time of infinity where it will have nothing."""
        running = view.running
        left_s = self._left_s(view, running)
        left_s += np.maximum(view.jobs.resume_s[running] - view.now_s, 0.0)  # restarts under way
        new = np.array([start.job for start in started], dtype=np.int64)
        held = [view.gpus_of(job) for job in running.tolist()] + [s.gpus for s in started]
        jobs = np.concatenate([running, new])
        ends_s = view.now_s + np.concatenate([left_s, self._left_s(view, new)])
        endings = [
            Ending(float(ends_s[at]), int(jobs[at]), held[at])
            for at in np.argsort(ends_s, kind="stable")
        ]
        reserver = Reserver(view, self.placer, self.sharing, self.rng)
        grows = not self.sharing.shares or view.tenant.shape[1] <= PAIR
        search = reserver.reserve if grows else reserver.first
        return search(occupancy, endings, head) or NO_RESERVATION

    def _left_s(self, view: ClusterView, jobs: IntArray) -> FloatArray:
        """(n,) predicted seconds to the end at speed 1, `overrun_s` where that is over."""
        left_s = view.jobs.predicted_remaining_s[jobs]
        return np.where(left_s > 0, left_s, self.overrun_s)
