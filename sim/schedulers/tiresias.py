"""Tiresias: two-dimensional least attained service in a few queues, with promotion."""

import math
from collections.abc import Sequence

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray
from sim.decision import Start
from sim.engine.composed import PreemptiveScheduler
from sim.errors import GpuYardError
from sim.protocols import Placer, Sharing
from sim.signals import Signal
from sim.view import ClusterView

ROUNDING = 1e-9  # of a threshold: a job woken at it counts as past it
TICK_S = 1e-6  # of waiting: the same for promotions


class Tiresias(PreemptiveScheduler):
    """Few queues by attained service (GPU-seconds); first in, first out inside each.

    Source: discretised 2D-LAS of Tiresias (Gu et al., NSDI 2019, section 3.2). A job starts in the
    first queue and sinks to the next whenever its attained service (GPUs x time) passes a
    threshold. Jobs of a higher queue preempt those of lower ones. A job that has waited
    `promote_knob` times as long as it has run is promoted to the first queue. The thresholds of
    `conf/` and promotion switched off are those of the authors' simulator.

    Chosen here where the paper leaves room: first in means first submitted, for promoted jobs too,
    and a waiting job may take the GPUs of one of its queue that was submitted later: who sinks into
    a queue gives way to those who wait there. Preemption is considered at arrivals and finishes,
    when a running job passes a threshold and when a waiting one is promoted, not at ticks. The
    paper counts the time waited since the job last ran or was promoted, which needs memory; here it
    is all its time since submission in which it attained nothing (restarts included) against all
    its time of service, so nothing is kept between decisions and every partition can have its
    Tiresias. A promoted job keeps its rank while that holds. Once started it has a turn that nobody
    cuts short: as much service as the first queue gives, or as it had before if that is more, lest
    jobs that are all due push each other aside all the time. Tiresias consolidates only jobs whose
    tensors are skewed in size. The catalogue knows no sizes of tensors, so that is left to the
    placer: `consolidated` treats every job as skewed. Like every rule that takes turns, it may
    never end where preemption loses all work (`preempt_saves=false` without periodic checkpoints).
    """

    order_name = "tiresias"
    order_needs = Signal.NONE

    def __init__(
        self,
        *,
        placer: Placer,
        sharing: Sharing,
        thresholds_gpu_s: Sequence[float],
        promote_knob: float | None,
    ) -> None:
        """Queues and promotion.

        Args:
            placer: where jobs go.
            sharing: whether they may share GPUs.
            thresholds_gpu_s: attained service at which the next queue begins, one a queue but the
                last.
            promote_knob: time waited over time run at which a job is promoted; None or 0: never.

        Raises:
            GpuYardError: thresholds that do not ascend from above 0, or a negative knob.
        """
        super().__init__(placer=placer, sharing=sharing)
        ends_gpu_s: FloatArray = np.array(thresholds_gpu_s, dtype=np.float64)
        rising = np.all(np.diff(ends_gpu_s, prepend=0.0) > 0) and np.all(np.isfinite(ends_gpu_s))
        if len(ends_gpu_s) == 0 or not rising:
            raise GpuYardError(
                f"scheduler.thresholds_gpu_s is {list(thresholds_gpu_s)}; it must be one or more "
                "ascending numbers above 0"
            )
        if promote_knob is not None and not 0 <= promote_knob < math.inf:
            raise GpuYardError(
                f"scheduler.promote_knob is {promote_knob}; it must be null, 0 (never) or above"
            )
        self.ends_gpu_s = ends_gpu_s
        self.promote_knob = promote_knob or None

    def priority(self, view: ClusterView, jobs: IntArray) -> FloatArray:
        """By queue, then by submission; promoted jobs are in the first queue."""
        level = self._level(view, jobs)
        if self.promote_knob is not None:
            due, in_turn = self._promoted(view, jobs, self.promote_knob)
            level[due] = 0
            level[in_turn] = -1  # nor does another promoted job cut the turn short
        key: IntArray = level * len(view.jobs.submit_s) + jobs
        return key.astype(np.float64)

    def wake_s(self, view: ClusterView, starts: list[Start]) -> float | None:
        """The next time at which a job that runs after this decision sinks to another queue."""
        new = np.array([start.job for start in starts], dtype=np.int64)
        jobs: IntArray = np.concatenate([view.running, new])
        began_s = np.concatenate([view.jobs.resume_s[view.running], np.full(len(new), view.now_s)])
        from_s = np.maximum(began_s, view.now_s)  # restarts under way are no service
        gang, level = view.jobs.num_gpus[jobs], self._level(view, jobs)
        next_gpu_s = np.append(self.ends_gpu_s, np.inf)[level]
        sinks_s: FloatArray = from_s + (next_gpu_s - view.jobs.attained_gpu_s[jobs]) / gang
        if self.promote_knob is not None:
            ran_s, waited_s = self._ran_and_waited_s(view, jobs)
            ran_before_s = ran_s - np.maximum(view.now_s - began_s, 0.0)
            turn_s = np.maximum(self.ends_gpu_s[0] / gang, ran_before_s)
            turn_over_s = began_s + turn_s
            enough_s = from_s + waited_s / self.promote_knob - ran_s
            back_s = np.where(turn_over_s > view.now_s + TICK_S, turn_over_s, enough_s)
            promoted = np.logical_or(*self._promoted(view, jobs, self.promote_knob))
            sinks_s = np.where(promoted, back_s, sinks_s)
        return _next_s(view.now_s, sinks_s)

    def asked_again_s(
        self, view: ClusterView, starts: list[Start], preempts: Sequence[int]
    ) -> float | None:
        """Also when a job that waits after this decision is promoted."""
        again_s = super().asked_again_s(view, starts, preempts)
        if self.promote_knob is None:
            return again_s
        started = {start.job for start in starts}
        waiting = [job for job in (*view.queued.tolist(), *preempts) if job not in started]
        jobs = np.array(waiting, dtype=np.int64)
        ran_s, waited_s = self._ran_and_waited_s(view, jobs)
        left_s = self.promote_knob * ran_s - waited_s
        sunk = (self._level(view, jobs) > 0) & (left_s > TICK_S)
        promoted_s = _next_s(view.now_s, view.now_s + left_s[sunk])
        return min((s for s in (again_s, promoted_s) if s is not None), default=None)

    def _level(self, view: ClusterView, jobs: IntArray) -> IntArray:
        """(n,) queue by attained service alone."""
        passed_gpu_s = view.jobs.attained_gpu_s[jobs]
        return np.searchsorted(self.ends_gpu_s * (1.0 - ROUNDING), passed_gpu_s, side="right")

    def _ran_and_waited_s(self, view: ClusterView, jobs: IntArray) -> tuple[FloatArray, FloatArray]:
        """(n,) seconds of service, and all others since submission."""
        ran_s: FloatArray = view.jobs.attained_gpu_s[jobs] / view.jobs.num_gpus[jobs]
        waited_s: FloatArray = view.now_s - view.jobs.submit_s[jobs] - ran_s
        return ran_s, waited_s

    def _promoted(
        self, view: ClusterView, jobs: IntArray, knob: float
    ) -> tuple[BoolArray, BoolArray]:
        """(n,) whether a job has waited long enough; (n,) whether it runs its turn, as it had."""
        ran_s, waited_s = self._ran_and_waited_s(view, jobs)
        running = _among(jobs, view.running)
        # By a tick late for who runs and early for who waits: then each is past it when woken.
        due = waited_s + np.where(running, -TICK_S, TICK_S) >= knob * ran_s
        turn_ran_s = np.maximum(view.now_s - view.jobs.resume_s[jobs], 0.0)
        ran_before_s = ran_s - turn_ran_s
        was_due = waited_s + TICK_S >= knob * ran_before_s
        turn_s = np.maximum(self.ends_gpu_s[0] / view.jobs.num_gpus[jobs], ran_before_s)
        in_turn = running & was_due & (ran_before_s > TICK_S) & (turn_ran_s + TICK_S < turn_s)
        return (ran_s > TICK_S) & due, in_turn


def _among(jobs: IntArray, some: IntArray) -> BoolArray:
    """(n,) which of `jobs` are in `some`, which ascends."""
    if len(some) == 0:
        return np.zeros(len(jobs), dtype=np.bool_)
    at = np.minimum(np.searchsorted(some, jobs), len(some) - 1)
    found: BoolArray = some[at] == jobs
    return found


def _next_s(now_s: float, times_s: FloatArray) -> float | None:
    """The least of these times, None if there is none; the next instant where it is not later."""
    least_s = float(times_s.min(initial=np.inf))
    if least_s == np.inf:
        return None
    # Where the wait is below the clock's grain, the next instant there is.
    return max(least_s, float(np.nextafter(now_s, np.inf)))
