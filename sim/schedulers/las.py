"""Least attained service, with preemption at quanta."""

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.codes import QUANTA
from sim.decision import Start
from sim.engine.composed import PreemptiveScheduler
from sim.errors import GpuYardError
from sim.protocols import Placer, Sharing
from sim.signals import Signal
from sim.view import ClusterView

ROUNDING = 1e-9  # of a quantum: a job woken at its boundary counts as past it


class Las(PreemptiveScheduler):
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
        if quantum_gpu_s <= 0:
            raise GpuYardError(f"scheduler.quantum_gpu_s is {quantum_gpu_s}; it must be above 0")
        self.quantum_gpu_s = quantum_gpu_s

    def priority(self, view: ClusterView, jobs: IntArray) -> FloatArray:
        """Whole quanta attained."""
        steps: FloatArray = np.floor(view.jobs.attained_gpu_s[jobs] / self.quantum_gpu_s + ROUNDING)
        return steps

    def wake_s(self, view: ClusterView, starts: list[Start]) -> float | None:
        """The next time at which a job that runs after this decision crosses a quantum."""
        running = np.array(
            [*view.running.tolist(), *(start.job for start in starts)], dtype=np.int64
        )
        if len(running) == 0:
            return None
        attained_gpu_s = view.jobs.attained_gpu_s[running]
        next_gpu_s = (self.priority(view, running) + 1.0) * self.quantum_gpu_s
        wait_s = (next_gpu_s - attained_gpu_s) / view.jobs.num_gpus[running]
        # Restarts under way are no service; a start's own is not known here.
        under_way_s = np.maximum(view.jobs.resume_s[view.running] - view.now_s, 0.0)
        wait_s[: len(view.running)] += under_way_s
        # Where the wait is below the clock's grain, the next instant there is.
        return max(view.now_s + float(wait_s.min()), float(np.nextafter(view.now_s, np.inf)))
