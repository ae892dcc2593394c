"""Progress: the share of its whole work that each job has done."""

import numpy as np

from sim.arrays import FloatArray
from sim.jit import kernel
from sim.kernel.layout import BLOCKED, FINISHED, PENDING, RUNNING, WITHDRAWN, State


@kernel
def accrue_progress(state: State, known: FloatArray, out: FloatArray) -> None:
    """Add to out (M,) the shares of their work that jobs have done since the last call.

    `known` (J,) is each job's share as of the last call, 0 in the beginning; NaN once the job has
    left and is booked. A finished job has given 1 in all, whatever it lost to failures on its way;
    one that is withdrawn what it had done. It counts for the partition that has the job.
    """
    now_s, jobs = state.world[0].now_s, state.job
    for job in range(len(jobs)):
        status = jobs[job].status
        if status == PENDING:
            return  # jobs arrive in order of rows
        if status == BLOCKED or np.isnan(known[job]):
            continue
        done_s = jobs[job].progress_s
        if status == RUNNING and jobs[job].rate > 0.0:
            done_s += jobs[job].rate * max(0.0, now_s - jobs[job].rated_s)
        share = 1.0
        if status != FINISHED:
            share = min(done_s / jobs[job].work_s, 1.0) if jobs[job].work_s > 0.0 else 0.0
        out[jobs[job].partition] += share - known[job]
        known[job] = np.nan if status in (FINISHED, WITHDRAWN) else share
