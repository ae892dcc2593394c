"""A run set to one instant as told from outside: who waits, who runs where and how far."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.decision import Decision, Start
from sim.kernel.layout import QUEUED
from sim.kernel.leaving import cordon
from sim.simulator import Simulator


@dataclass(frozen=True)
class Instant:
    """What has become of every job of the table up to now; jobs that do not run wait."""

    now_s: float
    placements: Sequence[tuple[int, IntArray]]  # (row, its GPUs) of the running, first to start
    progress_s: FloatArray  # (J,) work done
    attained_gpu_s: FloatArray  # (J,) GPU seconds of service
    started_s: FloatArray  # (J,) of the attempt that runs; NaN where none does
    resume_s: FloatArray  # (J,) when that attempt began, or begins, to make progress
    restarts: IntArray  # (J,) times it lost its GPUs
    forwards: IntArray  # (J,)
    closed: Sequence[int]  # servers that take nobody new; who runs there stays


def set_to(simulator: Simulator, at: Instant) -> None:
    """Bring a fresh run to an instant, as if all had happened that led to it.

    Schedulers may be asked and decisions applied then; time is not meant to go on. Partitions are
    those of `jobs.home`.

    Raises:
        InvalidDecision: a placement of a running job is impossible.
    """
    state, row = simulator.state, simulator.state.job
    world = state.world[0]
    count = len(row)
    world["now_s"] = at.now_s
    world["next_arrival"] = count
    row["status"] = QUEUED
    row["progress_s"] = row["saved_s"] = row["seen_progress_s"] = at.progress_s
    state.queue[:count] = np.arange(count)
    world["queue_first"], world["num_queued"] = 0, count
    simulator.apply(Decision(starts=tuple(Start(job, gpus) for job, gpus in at.placements)))
    running = np.array([job for job, _ in at.placements], dtype=np.int64)
    _date(simulator, at, running)
    row["restarts"] = row["preemptions"] = at.restarts
    row["forwards"] = at.forwards
    for server in at.closed:
        cordon(state, server)
    first, waiting = int(world["queue_first"]), int(world["num_queued"])
    state.joined[:waiting] = state.queue[first : first + waiting]
    world["num_joined"] = waiting
    simulator.forget_log()


def _date(simulator: Simulator, at: Instant, running: IntArray) -> None:
    """Write when those who run began, and what service that comes to."""
    row = simulator.state.job
    for name in ("started_s", "resume_s"):
        row[name][running] = getattr(at, name)[running]
    row["first_start_s"][running] = at.started_s[running]
    row["rated_s"][running] = np.maximum(at.now_s, at.resume_s[running])
    under_way_s = np.zeros(len(row))
    under_way_s[running] = np.maximum(0.0, at.now_s - at.resume_s[running])
    row["attained_gpu_s"] = at.attained_gpu_s
    row["served_gpu_s"] = at.attained_gpu_s - under_way_s * row["held"]
