"""Tiresias with the Gittins index: rank by what finished jobs tell of service."""

import math
from collections.abc import Sequence

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray
from sim.decision import Decision, Start
from sim.engine.composed import PreemptiveScheduler
from sim.errors import GpuYardError
from sim.jit import array_kernel
from sim.protocols import Placer, Sharing
from sim.signals import Signal
from sim.view import ClusterView


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
    done_frac = np.cumsum(np.bincount(quanta)) / len(quanta)
    spent = np.concatenate([[0.0], np.cumsum(1.0 - done_frac[:-1])])
    return _steepest(spent, done_frac)


@array_kernel
def _steepest(x: FloatArray, y: FloatArray) -> FloatArray:
    """(m - 1,) steepest slope from each of m points to a later one; x ascends strictly."""
    last = len(x) - 1
    slope = np.empty(last)
    after = np.empty(last, dtype=np.int64)  # next corner of the hull of the points from here on
    for here in range(last - 1, -1, -1):
        to = here + 1
        best = (y[to] - y[here]) / (x[to] - x[here])
        while to < last and slope[to] >= best:
            to = after[to]
            best = (y[to] - y[here]) / (x[to] - x[here])
        slope[here] = best
        after[here] = to
    return slope


ROUNDING = 1e-9  # of a quantum: a job woken at its boundary counts as past it


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


@array_kernel
def quanta_of_leavers(
    before: IntArray, ran: BoolArray, seen_gpu_s: FloatArray, here: IntArray,
    marked: BoolArray, quantum_gpu_s: float,
) -> FloatArray:  # fmt: skip
    """Quanta, the last begun one included, of those of `before` who `ran` and are not `here`.

    `marked` (J,) is scratch, all False.
    """
    marked[here] = True
    quanta, gone = np.empty(len(before)), 0
    for at, job in enumerate(before):
        if ran[at] and not marked[job]:
            quanta[gone] = quanta_of(seen_gpu_s[at], quantum_gpu_s) + 1.0
            gone += 1
    marked[here] = False
    return quanta[:gone]


MOST_QUANTA = 200_000  # that are told apart; longer jobs count as having taken these
NOBODY: IntArray = np.empty(0, dtype=np.int64)


class TiresiasGittins(PreemptiveScheduler):
    """Runs the jobs that, given their attained service, are likeliest to be done soon.

    Source: the 2D-Gittins index of Tiresias (Gu et al., NSDI 2019, section 3.2), where the
    distribution of service (GPUs x time) is known and the durations are not. The index of a job is
    the best chance of being done per GPU-second that a further stretch of service offers
    (`sim.schedulers.tiresias_gittins`); the highest runs first, others are preempted.

    Chosen here where the paper leaves room. The distribution is learned in the run: the service of
    the jobs that have left, rounded up to whole quanta; who gave up counts as done. A job that has
    more service than any of them comes last, least attained service first. Until `least_history`
    jobs have left, all rank by least attained service. The index is made anew whenever the history
    has grown by `refit_growth_frac`, not at each finish: every change of ranks costs preemptions.
    Ranks are those of whole quanta instead of the paper's queues, so a job is not preempted inside
    a quantum unless another arrives or the index changes. A job's service when it left is taken
    from its last quantum seen, so the scheduler asks to be woken at every quantum of a running job
    even if nobody waits. Placement is left to the placer, as in `tiresias`.
    """

    order_name = "tiresias_gittins"
    order_needs = Signal.NONE
    one_queue = True  # it remembers who was there, in the whole cluster

    def __init__(
        self,
        *,
        placer: Placer,
        sharing: Sharing,
        quantum_gpu_s: float,
        least_history: int,
        refit_growth_frac: float,
    ) -> None:
        """Learning.

        Args:
            placer: where jobs go.
            sharing: whether they may share GPUs.
            quantum_gpu_s: GPU-seconds in which service is told apart.
            least_history: jobs that have left before the index is used.
            refit_growth_frac: growth of the history after which the index is made anew.

        Raises:
            GpuYardError: a quantum that is not above 0, a history below 1 or a growth below 0.
        """
        super().__init__(placer=placer, sharing=sharing)
        for key, value, good, rule in (
            ("quantum_gpu_s", quantum_gpu_s, 0 < quantum_gpu_s < np.inf, "above 0"),
            ("least_history", least_history, least_history >= 1, "1 or more"),
            ("refit_growth_frac", refit_growth_frac, 0 <= refit_growth_frac < np.inf, "0 or more"),
        ):
            if not good:
                raise GpuYardError(f"scheduler.{key} is {value}; it must be {rule}")
        self.quantum_gpu_s = float(quantum_gpu_s)  # one type, compiled once
        self.least_history = least_history
        self.refit_growth_frac = refit_growth_frac
        self._forget()

    def reset(self, seed: int) -> None:
        """Forget the history and start the placer's random stream anew."""
        super().reset(seed)
        self._forget()

    def _forget(self) -> None:
        # Who was there after the last decision, with their service then; of them, who had run.
        self._here, self._seen_gpu_s = NOBODY, np.empty(0)
        self._ran: BoolArray = np.empty(0, dtype=np.bool_)
        self._marked: BoolArray = np.empty(0, dtype=np.bool_)  # (J,) scratch, all False
        self._history: list[int] = []  # quanta of those who left
        self._refit_at = self.least_history  # length of the history
        self._index = np.empty(0)  # (most quanta,) empty until there is enough history

    def decide(self, view: ClusterView) -> Decision:
        """Learn from who has left, then serve by rank."""
        here = np.concatenate([view.running, view.queued])
        if len(self._marked) == 0:
            self._marked = np.zeros(len(view.jobs.submit_s), dtype=np.bool_)
        self._learn(here)
        if len(view.queued) > 0:
            decision = self.orders(view)
        else:  # only a quantum that is over
            decision = Decision(wake_s=self.asked_again_s(view, [], ()))
        self._here, self._seen_gpu_s = here, view.jobs.attained_gpu_s[here]
        self._ran = self._seen_gpu_s > 0
        self._ran[: len(view.running)] = True
        if decision.starts:
            self._ran |= np.isin(here, [start.job for start in decision.starts])
        return decision

    def _learn(self, here: IntArray) -> None:
        """Note the service of jobs that have run and left since the last decision."""
        # Woken at every quantum, it last saw a job in the quantum in which that left.
        taken = quanta_of_leavers(
            self._here, self._ran, self._seen_gpu_s, here, self._marked, self.quantum_gpu_s
        )
        if len(taken) == 0:
            return
        self._history += np.minimum(taken, MOST_QUANTA).astype(np.int64).tolist()
        known = len(self._history)
        if known >= self._refit_at:
            self._index = gittins_index(np.array(self._history))
            self._refit_at = known + max(1, int(self.refit_growth_frac * known))

    def priority(self, view: ClusterView, jobs: IntArray) -> FloatArray:
        """Minus the index; whole quanta attained where there is none, which comes after."""
        return indexed_keys(jobs, view.jobs.attained_gpu_s, self.quantum_gpu_s, self._index)

    def asked_again_s(
        self, view: ClusterView, starts: list[Start], preempts: Sequence[int]
    ) -> float | None:
        """The next quantum even if nobody waits, to learn how long jobs run."""
        again_s = super().asked_again_s(view, starts, preempts)
        return self.wake_s(view, starts) if again_s is None else again_s

    def wake_s(self, view: ClusterView, starts: list[Start]) -> float | None:
        """The next time at which a job that runs after this decision has one more quantum."""
        new = [start.job for start in starts]
        jobs = (
            np.concatenate([view.running, np.array(new, dtype=np.int64)]) if new else view.running
        )
        if len(jobs) == 0:
            return None
        columns = view.jobs
        wait_s = least_wait_s(
            jobs, columns.attained_gpu_s, columns.num_gpus, columns.resume_s, view.now_s,
            self.quantum_gpu_s,
        )  # fmt: skip
        # Where the wait is below the clock's grain, the next instant there is.
        return max(view.now_s + wait_s, math.nextafter(view.now_s, math.inf))
