"""Delay: the part of job completion time that decisions can change."""

import numpy as np
from numba import njit

from sim.arrays import FloatArray
from sim.kernel.layout import FINISHED, PENDING, RUNNING, State


@njit(cache=True)
def accrue_delay(state: State, known_s: FloatArray, out: FloatArray) -> None:
    """Add to out (M,) the seconds of delay that jobs gathered since the last call.

    Delay of a job is time in the system minus work done: it grows by 1 a second while the job
    waits, by 1 - rate while it runs (so it shrinks on a GPU faster than the reference), and ends
    at JCT - duration. Summed over jobs it differs from total JCT by a constant, with far less
    noise. It counts for the partition that has the job at the end of the interval. `known_s` (J,)
    is each job's delay at the last call, updated here; NaN where a finished job is booked.
    """
    now_s, jobs = state.world[0].now_s, state.job
    for job in range(len(jobs)):
        status = jobs[job].status
        if status == PENDING:
            return  # jobs arrive in order of rows
        if np.isnan(known_s[job]):
            continue  # finished and booked
        if status == FINISHED:
            delay_s = jobs[job].finish_s - jobs[job].submit_s - jobs[job].work_s
        else:
            ahead_s = max(0.0, now_s - jobs[job].rated_s) if jobs[job].rate > 0.0 else 0.0
            done_s = jobs[job].progress_s
            if status == RUNNING:
                done_s += jobs[job].rate * ahead_s
            delay_s = now_s - jobs[job].submit_s - done_s
        out[jobs[job].partition] += delay_s - known_s[job]
        known_s[job] = np.nan if status == FINISHED else delay_s


def fresh_delays(num_jobs: int) -> FloatArray:
    """The `known_s` of a run that has not begun."""
    return np.zeros(num_jobs)
