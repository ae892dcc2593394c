"""What partitions gather while time passes: delay and progress of their jobs."""

from typing import NamedTuple

import numpy as np

from marl.turns.memory import Memory
from sim.arrays import FloatArray
from sim.jit import kernel
from sim.kernel.layout import BLOCKED, FINISHED, PENDING, RUNNING, WITHDRAWN, State


class Gathered(NamedTuple):
    """What M partitions gathered since the last turn."""

    delay_s: FloatArray  # (M,) seconds of delay
    progress: FloatArray  # (M,) jobs' worth of work done


@kernel
def gather(state: State, memory: Memory) -> None:
    """Add the delay and the progress since the last call to what has been gathered.

    Delay of a job is time in the system minus work done: it grows by 1 a second while the job
    waits, by 1 - rate while it runs (so it shrinks on a GPU faster than the reference), by what a
    failure loses, and ends at JCT - duration, or where the job is withdrawn. Summed over jobs it
    differs from total JCT by a constant, with far less noise. Time blocked by parents is nobody's:
    a job's delay begins when it is ready. Progress is the share of its whole work that a job has
    done: a finished one has given 1 in all, whatever it lost to failures on its way, one that is
    withdrawn what it had done. Both count for the partition that has the job at the end of the
    interval. Call this after every advance: somebody decides at the very instant at which a job is
    ready, so the first time it is seen waiting is that instant.
    """
    for job in range(len(state.job)):
        row = state.job[job]
        if row.status == PENDING:
            return  # jobs arrive in order of rows
        if row.status == BLOCKED or np.isnan(memory.delay_s[job]):
            continue
        gone = row.status in (FINISHED, WITHDRAWN)
        done_s = row.progress_s
        if row.status == RUNNING and row.rate > 0.0:
            done_s += row.rate * max(0.0, state.world[0].now_s - row.rated_s)
        _delay(state, memory, job, done_s, gone)
        _progress(state, memory, job, done_s, gone)


@kernel
def _delay(state: State, memory: Memory, job: int, done_s: float, gone: bool) -> None:
    row = state.job[job]
    until_s = row.finish_s if gone else state.world[0].now_s
    if np.isnan(memory.since_s[job]):
        memory.since_s[job] = until_s  # no time at all for one that left unseen
    if row.status == FINISHED:
        done_s = row.work_s
    delay_s = until_s - memory.since_s[job] - done_s
    memory.gathered_delay_s[row.partition] += delay_s - memory.delay_s[job]
    memory.delay_s[job] = np.nan if gone else delay_s


@kernel
def _progress(state: State, memory: Memory, job: int, done_s: float, gone: bool) -> None:
    row = state.job[job]
    share = 1.0
    if row.status != FINISHED:
        share = min(done_s / row.work_s, 1.0) if row.work_s > 0.0 else 0.0
    memory.gathered_progress[row.partition] += share - memory.share[job]
    memory.share[job] = np.nan if gone else share


def take(memory: Memory) -> Gathered:
    """What was gathered since the last call."""
    taken = Gathered(memory.gathered_delay_s.copy(), memory.gathered_progress.copy())
    memory.gathered_delay_s[:] = 0.0
    memory.gathered_progress[:] = 0.0
    return taken
