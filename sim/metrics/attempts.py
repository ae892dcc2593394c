"""The attempts of a run: each stretch of time during which a job held its GPUs."""

from dataclasses import dataclass

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray
from sim.metrics.event_effects import hold_change
from sim.metrics.over_time import span_s
from sim.run import Run


@dataclass(frozen=True)
class Attempts:
    """A attempts in order of their starts."""

    job: IntArray  # (A,) row of the job table
    number: IntArray  # (A,) 1 for the first attempt of its job
    start_s: FloatArray  # (A,)
    end_s: FloatArray  # (A,) end of the run where `open`
    start_event: IntArray  # (A,) row of the log; its `gpus` are those of the attempt
    open: BoolArray  # (A,) the run ended first


def attempts_of(run: Run) -> Attempts:
    """Pair each start with the next end of the same job.

    The log must alternate, as `consistency.check_run` makes sure.
    """
    change = hold_change(run.log)
    events = np.flatnonzero(change)
    by_job = events[np.argsort(run.log.job[events], kind="stable")]
    starts = change[by_job] > 0
    following = np.append(by_job[1:], -1)
    closed = np.append(~starts[1:] & (np.diff(run.log.job[by_job]) == 0), False)
    job = run.log.job[by_job[starts]]
    first = np.flatnonzero(np.diff(job, prepend=-1))
    number = np.arange(len(job)) - np.repeat(first, np.diff(np.append(first, len(job)))) + 1
    is_open = ~closed[starts]
    end_s = np.where(is_open, span_s(run)[1], run.log.time_s[following[starts]])
    order = np.argsort(by_job[starts], kind="stable")
    start_event = by_job[starts][order]
    return Attempts(
        job=job[order],
        number=number[order],
        start_s=run.log.time_s[start_event],
        end_s=end_s[order],
        start_event=start_event,
        open=is_open[order],
    )
