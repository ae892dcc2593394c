"""Tiresias: two-dimensional least attained service in a few queues, or by the Gittins index."""

from collections.abc import Sequence

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray
from sim.decision import Decision, Start
from sim.engine.composed import PreemptiveScheduler, later_s, next_s, still_waiting
from sim.errors import GpuYardError, check_numbers
from sim.jit import array_kernel
from sim.protocols import Placer, Sharing
from sim.view import ClusterView, Signal

ROUNDING = 1e-9  # of a threshold: a job woken at it counts as past it
TICK_S = 1e-6  # of waiting: the same for promotions


class Tiresias(PreemptiveScheduler):
    """Few queues by attained service (GPU-seconds); first in, first out inside each.

    Source: discretised 2D-LAS of Tiresias (Gu et al., NSDI 2019, section 3.2). A job starts in the
    first queue and sinks to the next whenever its attained service (GPUs x time) passes a
    threshold. Jobs of a higher queue preempt those of lower ones. A job that has waited
    `promote_knob` times as long as it has run is promoted to the first queue. The first two
    thresholds of `conf/` and promotion switched off are those of the authors' simulator; the third
    is chosen here.

    Chosen here where the paper leaves room: first in means first submitted, for promoted jobs too,
    and a waiting job may take the GPUs of one of its queue that was submitted later: who sinks into
    a queue gives way to those who wait there. Preemption is considered at arrivals and finishes,
    when a running job passes a threshold and when a waiting one is promoted, not at ticks. The
    paper counts the time waited since the job last ran or was promoted, which needs memory; here it
    is all its time since submission in which it attained nothing (restarts included) against all
    its time of service, so nothing is kept between decisions and every partition can have its
    Tiresias. A promoted job runs in turns, each as much service as the first queue gives, or as it
    had before if that is more. Nobody cuts the first one short, lest jobs that are all due push
    each other aside all the time; the rank is kept to the end of the turn in which it has run
    enough, else it would be due as soon as it gave way. Tiresias consolidates only jobs whose
    tensors are skewed in size. The catalogue knows no sizes of tensors, so that is left to the
    placer: `consolidated` treats every job as skewed. Like every rule that takes turns, it may
    never end where preemption loses all work (`preempt_saves=false` without periodic checkpoints).
    """

    order_name = "tiresias"
    order_needs = Signal.NONE

    def __init__(
        self, *, placer: Placer, sharing: Sharing, thresholds_gpu_s: Sequence[float],
        promote_knob: float | None,
    ) -> None:  # fmt: skip
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
        try:
            ends_gpu_s: FloatArray = np.array(thresholds_gpu_s, dtype=np.float64).reshape(-1)
        except (TypeError, ValueError):
            ends_gpu_s = np.array([])
        rising = np.all(np.diff(ends_gpu_s, prepend=0.0) > 0) and np.all(np.isfinite(ends_gpu_s))
        if len(ends_gpu_s) == 0 or not rising:
            raise GpuYardError(
                f"scheduler.thresholds_gpu_s is {thresholds_gpu_s}; it must be one or more "
                "ascending numbers above 0"
            )
        check_numbers("scheduler", "null, or 0 or more", promote_knob=promote_knob)
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
            turn_s, kept_s = self._turns_s(gang, ran_before_s, waited_s, self.promote_knob)
            in_first = began_s + turn_s > view.now_s + TICK_S
            back_s = began_s + np.where(in_first, turn_s, kept_s)
            promoted = np.logical_or(*self._promoted(view, jobs, self.promote_knob))
            sinks_s = np.where(promoted, back_s, sinks_s)
        return next_s(view.now_s, sinks_s)

    def asked_again_s(
        self, view: ClusterView, starts: list[Start], preempts: Sequence[int]
    ) -> float | None:
        """Also when a job that waits after this decision is promoted."""
        again_s = super().asked_again_s(view, starts, preempts)
        if self.promote_knob is None:
            return again_s
        jobs = np.array(still_waiting(view, starts, preempts), dtype=np.int64)
        ran_s, waited_s = self._ran_and_waited_s(view, jobs)
        left_s = self.promote_knob * ran_s - waited_s
        sunk = (self._level(view, jobs) > 0) & (left_s > TICK_S)
        promoted_s = next_s(view.now_s, view.now_s + left_s[sunk])
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

    def _turns_s(
        self, gang: IntArray, before_s: FloatArray, waited_s: FloatArray, knob: float
    ) -> tuple[FloatArray, FloatArray]:
        """(n,) a turn of a job that was promoted, and all that it runs before it loses its rank."""
        turn_s: FloatArray = np.maximum(self.ends_gpu_s[0] / gang, before_s)
        enough_s = waited_s / knob - before_s
        return turn_s, turn_s * (np.floor((enough_s + TICK_S) / turn_s) + 1.0)

    def _promoted(
        self, view: ClusterView, jobs: IntArray, knob: float
    ) -> tuple[BoolArray, BoolArray]:
        """(n,) whether a job has waited long enough; (n,) whether it runs its turn, as it had."""
        ran_s, waited_s = self._ran_and_waited_s(view, jobs)
        runs = np.zeros(len(view.jobs.submit_s), dtype=np.bool_)
        runs[view.running] = True
        running = runs[jobs]
        since_s = np.maximum(view.now_s - view.jobs.resume_s[jobs], 0.0)
        before_s = ran_s - since_s
        turn_s, kept_s = self._turns_s(view.jobs.num_gpus[jobs], before_s, waited_s, knob)
        was_due = running & (waited_s + TICK_S >= knob * before_s)
        in_turn = was_due & (before_s > TICK_S) & (since_s + TICK_S < turn_s)
        keeps = was_due & (since_s + TICK_S < kept_s)
        due = keeps | (~running & (waited_s + TICK_S >= knob * ran_s))
        return (ran_s > TICK_S) & due, in_turn


def gittins_index(quanta: IntArray) -> FloatArray:
    """Index of a job that has attained k whole quanta of service, for each k.

    With N the quanta that a job takes until it is done, the index is (Gittins 1979; Gu et al., NSDI
    2019, section 3.2)

        G(k) = max over d >= 1 of P(N <= k + d | N > k) / E[min(N - k, d) | N > k],

    the best chance to be done per quantum spent. With x_k the sum of P(N > i) for i < k and
    y_k = P(N <= k), that is the steepest slope from the point (x_k, y_k) to a later one, so the
    upper hull of the points gives all of them in one pass from right to left.

    Args:
        quanta: (n,) quanta that finished jobs took, each 1 or more, n >= 1.

    Returns:
        (most quanta,) the index for k = 0, 1, ...; nobody is known to take more.
    """
    # Counts, not fractions: equal slopes are equal numbers then, and nobody preempts his equal.
    done = np.cumsum(np.bincount(quanta)).astype(np.float64)
    spent = np.concatenate([[0.0], np.cumsum(len(quanta) - done[:-1])])
    return _steepest(spent, done)


@array_kernel
def _steepest(x: FloatArray, y: FloatArray) -> FloatArray:
    """(m - 1,) steepest slope from each of m points to a later one; x ascends strictly."""
    last = len(x) - 1
    slope = np.empty(last)
    after = np.empty(last, dtype=np.int64)  # next corner of the hull of the points from here on
    for here in range(last - 1, -1, -1):  # from the right: later corners are known
        to = here + 1
        best = (y[to] - y[here]) / (x[to] - x[here])
        while to < last and slope[to] >= best:  # corners passed never come back: linear in all
            to = after[to]
            best = (y[to] - y[here]) / (x[to] - x[here])
        slope[here] = best
        after[here] = to
    return slope


@array_kernel
def quanta_of(attained_gpu_s: float, quantum_gpu_s: float) -> float:
    """Whole quanta of service."""
    return float(np.floor(attained_gpu_s / quantum_gpu_s + ROUNDING))


@array_kernel
def indexed_keys(
    jobs: IntArray, attained_gpu_s: FloatArray, quantum_gpu_s: float, index: FloatArray
) -> FloatArray:
    """(n,) minus the index of each job's whole quanta; these themselves where it has none."""
    keys = np.empty(len(jobs))
    for at, job in enumerate(jobs):
        keys[at] = quanta_of(attained_gpu_s[job], quantum_gpu_s)
        if keys[at] < len(index):
            keys[at] = -index[int(keys[at])]
    return keys


@array_kernel
def least_wait_s(
    jobs: IntArray,
    attained_gpu_s: FloatArray,  # (J,)
    gang: IntArray,  # (J,)
    resume_s: FloatArray,  # (J,) restarts until then are no service
    now_s: float,
    quantum_gpu_s: float,
) -> float:
    """Time until the first of `jobs`, which run from now on, has one more quantum."""
    least_s = np.inf
    for job in jobs:
        next_gpu_s = (quanta_of(attained_gpu_s[job], quantum_gpu_s) + 1.0) * quantum_gpu_s
        wait_s = (next_gpu_s - attained_gpu_s[job]) / gang[job]
        wait_s += max(resume_s[job] - now_s, 0.0)
        least_s = min(least_s, wait_s)
    return least_s


MOST_QUANTA = 200_000  # that are told apart; longer jobs count as having taken these


class TiresiasGittins(PreemptiveScheduler):
    """Runs the jobs that, given their attained service, are likeliest to be done soon.

    Source: the 2D-Gittins index of Tiresias (Gu et al., NSDI 2019, section 3.2), where the
    distribution of service (GPUs x time) is known and the durations are not. The index of a job is
    the best chance of being done per GPU-second that a further stretch of service offers
    (`gittins_index`); the highest runs first, others are preempted.

    Chosen here where the paper leaves room. The distribution is learned in the run: the service of
    the jobs that have left, rounded up to whole quanta; who gave up counts as done. A job that has
    more service than any of them comes last, least attained service first. Until `least_history`
    jobs have left, all rank by least attained service. The index is made anew whenever the history
    has grown by `refit_growth_frac`, not at each finish: every change of ranks costs preemptions.
    Ranks are those of whole quanta instead of the paper's queues, so a job is not preempted inside
    a quantum unless another arrives or the index changes. Placement is left to the placer, as in
    `tiresias`.
    """

    order_name = "tiresias_gittins"
    order_needs = Signal.NONE
    one_queue = True  # it remembers who was there, in the whole cluster

    def __init__(
        self,
        *,
        placer: Placer,  # where jobs go
        sharing: Sharing,  # whether they may share GPUs
        quantum_gpu_s: float,  # GPU-seconds in which service is told apart
        least_history: int,  # jobs that have left before the index is used
        refit_growth_frac: float,  # growth of the history after which the index is made anew
    ) -> None:
        """Learning; GpuYardError: a quantum not above 0, a history below 1 or a growth below 0."""
        super().__init__(placer=placer, sharing=sharing)
        check_numbers("scheduler", "above 0", quantum_gpu_s=quantum_gpu_s)
        check_numbers("scheduler", "1 or more", least_history=least_history)
        check_numbers("scheduler", "0 or more", refit_growth_frac=refit_growth_frac)
        self.quantum_gpu_s = float(quantum_gpu_s)  # one type, compiled once
        self.least_history = least_history
        self.refit_growth_frac = refit_growth_frac
        self._forget()

    def reset(self, seed: int) -> None:
        """Forget the history and start the placer's random stream anew."""
        super().reset(seed)
        self._forget()

    def _forget(self) -> None:
        self._ran: set[int] = set()  # of those who are here as of the last decision, who ever ran
        self._history: list[int] = []  # quanta of those who left
        self._refit_at = self.least_history  # length of the history
        self._index = np.empty(0)  # (most quanta,) empty until there is enough history

    def decide(self, view: ClusterView) -> Decision:
        """Learn from who has left, then serve by rank."""
        self._learn(view)
        decision = self.orders(view)
        self._ran.update(start.job for start in decision.starts)
        return decision

    def _learn(self, view: ClusterView) -> None:
        """Note the service of jobs that have run and left since the last decision."""
        runs = set(view.running.tolist())
        left = self._ran.difference(runs, view.queued.tolist())
        self._ran = (self._ran - left) | runs
        if not left:
            return
        quanta = np.ceil(view.jobs.attained_gpu_s[list(left)] / self.quantum_gpu_s - ROUNDING)
        self._history += np.clip(quanta, 1, MOST_QUANTA).astype(np.int64).tolist()
        known = len(self._history)
        if known >= self._refit_at:
            self._index = gittins_index(np.array(self._history))
            self._refit_at = known + max(1, int(self.refit_growth_frac * known))

    def priority(self, view: ClusterView, jobs: IntArray) -> FloatArray:
        """Minus the index; whole quanta attained where there is none, which comes after."""
        return indexed_keys(jobs, view.jobs.attained_gpu_s, self.quantum_gpu_s, self._index)

    def wake_s(self, view: ClusterView, starts: list[Start]) -> float | None:
        """The next time at which a job that runs after this decision has one more quantum."""
        new = np.array([start.job for start in starts], dtype=np.int64)
        jobs: IntArray = np.concatenate([view.running, new])
        columns = view.jobs
        wait_s = least_wait_s(
            jobs, columns.attained_gpu_s, columns.num_gpus, columns.resume_s, view.now_s,
            self.quantum_gpu_s,
        )  # fmt: skip
        return later_s(view.now_s, view.now_s + wait_s)
