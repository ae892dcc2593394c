"""Delay: the part of job completion time that decisions can change."""

from typing import NamedTuple

import numpy as np

from sim.arrays import FloatArray
from sim.jit import kernel
from sim.kernel.layout import BLOCKED, FINISHED, PENDING, RUNNING, WITHDRAWN, State


class Known(NamedTuple):
    """Delay of J jobs as of the last call of `accrue_delay`."""

    since_s: FloatArray  # (J,) when it could first run: no parent in its way; NaN before
    delay_s: FloatArray  # (J,) NaN once the job has left and is booked


def nothing_known(num_jobs: int) -> Known:
    """What is known of a run that has not begun."""
    return Known(np.full(num_jobs, np.nan), np.zeros(num_jobs))


@kernel
def accrue_delay(state: State, known: Known, out: FloatArray) -> None:
    """Add to out (M,) the seconds of delay that jobs gathered since the last call.

    Delay of a job is time in the system minus work done: it grows by 1 a second while the job
    waits, by 1 - rate while it runs (so it shrinks on a GPU faster than the reference), by what a
    failure loses, and ends at JCT - duration, or where the job is withdrawn. Summed over jobs it
    differs from total JCT by a constant, with far less noise. It counts for the partition that
    has the job at the end of the interval. Time blocked by parents is nobody's: a job's delay
    begins when it is ready. Call this after every advance: somebody decides at the very instant
    at which a job is ready, so the first time it is seen waiting is that instant.
    """
    now_s, jobs = state.world[0].now_s, state.job
    for job in range(len(jobs)):
        status = jobs[job].status
        if status == PENDING:
            return  # jobs arrive in order of rows
        if status == BLOCKED or np.isnan(known.delay_s[job]):
            continue
        gone = status in (FINISHED, WITHDRAWN)
        until_s = jobs[job].finish_s if gone else now_s
        if np.isnan(known.since_s[job]):
            known.since_s[job] = until_s  # no time at all for one that left unseen
        done_s = jobs[job].work_s if status == FINISHED else jobs[job].progress_s
        if status == RUNNING and jobs[job].rate > 0.0:
            done_s += jobs[job].rate * max(0.0, now_s - jobs[job].rated_s)
        delay_s = until_s - known.since_s[job] - done_s
        out[jobs[job].partition] += delay_s - known.delay_s[job]
        known.delay_s[job] = np.nan if gone else delay_s
