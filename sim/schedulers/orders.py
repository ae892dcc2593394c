"""Orders without a system of their own: textbook ones, and baselines of the papers on others."""

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.codes import ARRIVAL, LEFT, QUANTA, SERVICE, SMALLEST_GANG, TETRIS, TRUE_LEFT
from sim.decision import Start
from sim.engine import composed
from sim.engine.queues import tetris_score
from sim.errors import check_numbers
from sim.protocols import Placer, Sharing
from sim.view import ClusterView, Signal


class Fifo(composed.ByArrival):
    """Jobs start in order of submission.

    Strict by default: a head that cannot be placed blocks the queue, as in Helios' and Tiresias'
    simulators. With `skip_blocked` those behind it may start (backfill without reservation), and
    the name is `fifo_skip`.
    """

    order_name = "fifo"
    engine_code = ARRIVAL

    def __init__(self, *, placer: Placer, sharing: Sharing, skip_blocked: bool) -> None:
        """Compose FIFO with a placement and a sharing rule."""
        super().__init__(placer=placer, sharing=sharing, skip_blocked=skip_blocked)
        if skip_blocked:
            self.order_name = "fifo_skip"


class Sjf(composed.ByTimeLeft):
    """Shortest predicted duration first; running jobs are left alone.

    With the oracle estimator this is the textbook SJF; ties go to the earlier job.
    """

    order_name = "sjf"
    engine_code = LEFT


class SmallestGang(composed.QueueScheduler):
    """Fewest GPUs first, then first submitted; knows nothing of durations."""

    order_name = "smallest_gang"
    order_needs = Signal.NONE
    engine_code = SMALLEST_GANG

    def order(self, view: ClusterView) -> IntArray:
        """Waiting jobs, fewest GPUs first."""
        return view.queued[np.argsort(view.jobs.num_gpus[view.queued], kind="stable")]


ROUNDING = 1e-9  # of a quantum: a job woken at its boundary counts as past it


class Las(composed.PreemptiveScheduler):
    """Runs the jobs with least attained service (GPU-seconds), in steps of a quantum.

    Priority is ⌊attained / quantum⌋, then submission: jobs of one step do not preempt each other.
    Preemption is considered at arrivals, finishes, and when a running job crosses a quantum while
    another waits; there is no fixed tick. Continuous relative of Tiresias' 2D-LAS (Gu et al.,
    NSDI 2019), which has few queues of growing width and promotes the starved.
    """

    order_name = "las"
    order_needs = Signal.NONE
    engine_code = QUANTA

    def __init__(self, *, placer: Placer, sharing: Sharing, quantum_gpu_s: float) -> None:
        """`quantum_gpu_s`: GPU-seconds a step."""
        super().__init__(placer=placer, sharing=sharing)
        check_numbers("scheduler", "above 0", quantum_gpu_s=quantum_gpu_s)
        self.quantum_gpu_s = quantum_gpu_s

    def priority(self, view: ClusterView, jobs: IntArray) -> FloatArray:
        """Whole quanta attained."""
        return np.floor(view.jobs.attained_gpu_s[jobs] / self.quantum_gpu_s + ROUNDING)

    def wake_s(self, view: ClusterView, starts: list[Start]) -> float | None:
        """The next time at which a job that runs after this decision crosses a quantum."""
        # Who moves counts once, with the restart it leaves: the one it begins is no shorter.
        ran = view.running.tolist()
        new = sorted({start.job for start in starts}.difference(ran))
        running = np.array([*ran, *new], dtype=np.int64)
        attained_gpu_s = view.jobs.attained_gpu_s[running]
        next_gpu_s = (self.priority(view, running) + 1.0) * self.quantum_gpu_s
        wait_s = (next_gpu_s - attained_gpu_s) / view.jobs.num_gpus[running]
        # Restarts under way are no service; a start's own is not known here.
        under_way_s = np.maximum(view.jobs.resume_s[view.running] - view.now_s, 0.0)
        wait_s[: len(ran)] += under_way_s
        return composed.next_s(view.now_s, view.now_s + wait_s)


class Srtf(composed.PreemptiveScheduler):
    """Runs the jobs with least true work left: a reference.

    Preemption is considered at arrivals and finishes. A blocked job does not block others. Ties
    go to the earlier job.
    """

    order_name = "srtf"
    order_needs = Signal.DURATION
    engine_code = TRUE_LEFT

    def priority(self, view: ClusterView, jobs: IntArray) -> FloatArray:
        """True remaining seconds at speed 1."""
        return view.jobs.remaining_s[jobs]


class Srsf(composed.PreemptiveScheduler):
    """Runs the jobs with least predicted service left: remaining time x GPUs.

    Source: the order that Tiresias (Gu et al., NSDI 2019, section 3.1) takes as the best one when
    durations are known, and that Ada-SRSF (Wang et al., arXiv 2002.10105) builds on. Preemption is
    considered at arrivals and finishes; a blocked job does not block others; ties go to the earlier
    job. The papers know the durations; chosen here: predictions, so that it can be used without an
    oracle. `estimator=oracle` gives the papers' form. A job that outruns its prediction has nothing
    left, so nobody preempts it any more.
    """

    order_name = "srsf"
    order_needs = Signal.PREDICTION
    engine_code = SERVICE

    def priority(self, view: ClusterView, jobs: IntArray) -> FloatArray:
        """Predicted GPU-seconds left at speed 1."""
        left_gpu_s: FloatArray = view.jobs.predicted_remaining_s[jobs] * view.jobs.num_gpus[jobs]
        return left_gpu_s


class Spjf(composed.ByTimeLeft):
    """Shortest predicted duration first; whoever does not fit blocks the rest.

    Baseline SPJF of A-SRPT (Luo et al., INFOCOM 2025). Chosen where that is silent: what is
    left of a job that queues again counts; ties go to the earlier job.
    `sjf` is the same order that lets others pass unless told otherwise.
    """

    order_name = "spjf"
    engine_code = LEFT


class Spwf(composed.ByWorkLeft):
    """Least predicted duration x GPUs first; whoever does not fit blocks the rest.

    Baseline SPWF of A-SRPT (Luo et al., INFOCOM 2025). Chosen where that is silent: what is
    left of a job that queues again counts; ties go to the earlier job.
    """

    order_name = "spwf"
    engine_code = SERVICE


class WcsDuration(composed.ByTimeLeft):
    """Shortest predicted duration first; starts every job that fits.

    Baseline WCS-Duration of A-SRPT (Luo et al., INFOCOM 2025). Chosen where that is silent: what is
    left of a job that queues again counts; ties go to the earlier job.
    """

    order_name = "wcs_duration"
    engine_code = LEFT


class WcsSubtime(composed.ByArrival):
    """First submitted; starts every job that fits.

    Baseline WCS-SubTime of A-SRPT (Luo et al., INFOCOM 2025), which leaves the details open;
    chosen here: a job that queues again keeps the place of its submission. It is FIFO that lets
    others pass, without a reservation for who waits, so large gangs may starve.
    """

    order_name = "wcs_subtime"
    engine_code = ARRIVAL


class WcsWorkload(composed.ByWorkLeft):
    """Least predicted duration x GPUs first; starts every job that fits.

    Baseline WCS-Workload of A-SRPT (Luo et al., INFOCOM 2025). Chosen where that is silent: what is
    left of a job that queues again counts; ties go to the earlier job.
    """

    order_name = "wcs_workload"
    engine_code = SERVICE


class LeastInterferenceFirst(composed.ByArrival):
    """First submitted, blocked ones skipped; workers where interference is least.

    The placement is the rule: its configuration composes the `least_interference` placer and
    sharing `always`; with the belief `linear` this is LIF-Linear (Harmony's baseline).
    """

    order_name = "lif"
    order_needs = Signal.PROFILE | Signal.INTERFERENCE
    engine_code = ARRIVAL


class LoadBalance(composed.ByArrival):
    """First submitted, blocked ones skipped; each worker to the least loaded server.

    The placement is the rule: its configuration composes the `least_loaded` placer. Spreads gangs
    (Harmony, Bao et al., INFOCOM 2019, compares with it).
    """

    order_name = "load_balance"
    engine_code = ARRIVAL


class Tetris(composed.QueueScheduler):
    """Jobs that align with the freest server and have little predicted work left go first.

    Packing score plus shortest remaining time (Grandl et al., SIGCOMM 2014). A job's score is its
    alignment, the dot product of its demand on a server and that server's free GPUs on the best
    server (both as shares of a server), less ε p: p is its predicted remaining work (time x GPUs)
    over the queue's mean, ε the mean alignment, so that both terms have one scale. With one
    resource what is free on the best server is a factor of all scores, which orders nothing and is
    left out: it is 0 where GPUs are to be shared. Our choices where the paper leaves room: one
    resource; durations are predictions; blocked jobs are skipped; placement is `worst_fit`, the
    highest dot product.
    """

    order_name = "tetris"
    order_needs = Signal.PREDICTION
    engine_code = TETRIS

    def order(self, view: ClusterView) -> IntArray:
        """Waiting jobs by falling score, then by submission."""
        if len(view.queued) == 0:
            return view.queued
        largest = float(view.topology.gpus_per_server[view.servers].max())
        left_s = view.jobs.predicted_remaining_s[view.queued]
        score = tetris_score(view.jobs.num_gpus[view.queued], left_s, largest)
        return view.queued[np.argsort(-score, kind="stable")]
