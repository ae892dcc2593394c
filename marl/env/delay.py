"""Delay: the part of job completion time that decisions can change."""

import numpy as np
from numba import njit

from sim.arrays import FloatArray
from sim.kernel.state import FINISHED, NOW_S, PENDING, RUNNING, State


@njit(cache=True)
def accrue_delay(state: State, known_s: FloatArray, out: FloatArray) -> None:
    """Add to out (M,) the seconds of delay that jobs gathered since the last call.

    Delay of a job is time in the system minus work done: it grows by 1 a second while the job
    waits, by 1 - rate while it runs (so it shrinks on a GPU faster than the reference), and ends
    at JCT - duration. Summed over jobs it differs from total JCT by a constant, with far less
    noise. It counts for the partition that has the job at the end of the interval. `known_s` (J,)
    is each job's delay at the last call, updated here; NaN where a finished job is booked.
    """
    now_s = state.clock[NOW_S]
    for job in range(len(state.status)):
        status = state.status[job]
        if status == PENDING:
            return  # jobs arrive in order of rows
        if np.isnan(known_s[job]):
            continue  # finished and booked
        if status == FINISHED:
            delay_s = state.finish_s[job] - state.submit_s[job] - state.work_s[job]
        else:
            ahead_s = max(0.0, now_s - state.rated_s[job]) if state.rate[job] > 0.0 else 0.0
            done_s = state.progress_s[job]
            if status == RUNNING:
                done_s += state.rate[job] * ahead_s
            delay_s = now_s - state.submit_s[job] - done_s
        out[state.partition[job]] += delay_s - known_s[job]
        known_s[job] = np.nan if status == FINISHED else delay_s


def fresh_delays(num_jobs: int) -> FloatArray:
    """The `known_s` of a run that has not begun."""
    return np.zeros(num_jobs)
