"""Makes a trace fit a cluster: caps on gangs and durations, and the offered load."""

from dataclasses import replace

import numpy as np

from sim.arrays import FloatArray
from sim.errors import TraceError
from sim.traces.ragged import owners, starts
from sim.traces.select import take
from sim.traces.trace import Trace
from sim.traits import WHOLE_GPU_MILLI, Attempts


def cap(
    trace: Trace,
    *,
    max_gang: int | None,
    drop_too_large: bool,
    capacity: int,
    min_duration_s: float | None,
    max_duration_s: float | None,
) -> tuple[Trace, int]:
    """Clip gangs and durations; None leaves them. A clipped gang keeps its duration.

    The range of an elastic job is clipped with its gang, and failures that a shorter duration no
    longer reaches are left out.

    Args:
        trace: J jobs.
        max_gang: larger gangs become this size.
        drop_too_large: leave out gangs above `capacity` (after `max_gang`) instead of failing.
        capacity: GPUs of the cluster.
        min_duration_s: shorter jobs are lengthened to this.
        max_duration_s: longer jobs are cut to this.

    Returns:
        The trace and the number of jobs left out.

    Raises:
        TraceError: naming the first gang above the capacity, or if no job is left.
    """
    if max_gang is not None:
        trace = _smaller(trace, max_gang)
    if min_duration_s is not None or max_duration_s is not None:
        trace = _clipped(trace, min_duration_s, max_duration_s)
    large = trace.num_gpus > capacity
    if not large.any():
        return trace, 0
    if not drop_too_large:
        row = int(np.argmax(large))
        place = _line_of(trace, row)
        raise TraceError(
            f"{place}job {trace.job_id[row]}: a gang of {trace.num_gpus[row]} GPUs cannot run on a "
            f"cluster of {capacity} GPUs ({int(large.sum())} such jobs in trace {trace.name}); "
            f"set workload.max_gang={capacity} to cap gangs, workload.drop_too_large=true to "
            f"leave such jobs out, or use a larger topology"
        )
    if large.all():
        raise TraceError(
            f"trace {trace.name}: every gang is above the cluster's {capacity} GPUs, so "
            f"workload.drop_too_large=true leaves no job; set workload.max_gang={capacity}"
        )
    return take(trace, ~large), int(large.sum())


def _line_of(trace: Trace, row: int) -> str:
    if trace.line is None:
        return ""
    return f"{trace.file or 'the file'}, line {trace.line[row]}, "


def _smaller(trace: Trace, max_gang: int) -> Trace:
    """Gangs, and the ranges of elastic jobs, up to `max_gang`."""
    limits = {
        name: np.minimum(column, max_gang)
        for name in ("num_gpus", "least_gpus", "most_gpus")
        if (column := getattr(trace, name)) is not None
    }
    return replace(trace, **limits)


def _clipped(trace: Trace, low_s: float | None, high_s: float | None) -> Trace:
    """Durations, failures and limits: what is foreseen obeys the caps as what happens does."""
    duration_s = np.clip(trace.duration_s, low_s, high_s)
    limit_s = None if trace.limit_s is None else np.clip(trace.limit_s, low_s, high_s)
    attempts = _within(trace.attempts, duration_s)
    return replace(trace, duration_s=duration_s, limit_s=limit_s, attempts=attempts)


def _within(attempts: Attempts | None, duration_s: FloatArray) -> Attempts | None:
    """The failures before the end of each job."""
    if attempts is None:
        return None
    job = owners(attempts.first)
    kept = attempts.fail_at_s < duration_s[job]
    lengths = np.bincount(job[kept], minlength=len(duration_s))
    return Attempts(starts(lengths), attempts.fail_at_s[kept])


def offered_load(trace: Trace, gpus: int) -> float:
    """sum(gang * duration) / (gpus * submission span); infinite where the span is 0.

    A worker that takes a part of a GPU counts as that part.
    """
    share = 1.0 if trace.gpu_milli is None else trace.gpu_milli / WHOLE_GPU_MILLI
    work_gpu_s = float(np.sum(trace.num_gpus * trace.duration_s * share))
    span_s = float(trace.submit_s[-1] - trace.submit_s[0])
    return work_gpu_s / (gpus * span_s) if span_s > 0 else np.inf


def scale_load(trace: Trace, load: float, gpus: int) -> Trace:
    """Stretch submission times from the first job on by one factor, to the given offered load.

    Raises:
        TraceError: if the load is not above 0, or the jobs have no work or one submission time.
    """
    if not (np.isfinite(load) and load > 0):
        raise TraceError(f"workload.load is {load}; it must be a finite number above 0")
    now = offered_load(trace, gpus)
    if not (np.isfinite(now) and now > 0):
        raise TraceError(
            f"trace {trace.name}: its load cannot be scaled, for its jobs have no work or all "
            f"come at one time; set workload.load=null"
        )
    first_s = trace.submit_s[0]
    return replace(trace, submit_s=(trace.submit_s - first_s) * (now / load))
