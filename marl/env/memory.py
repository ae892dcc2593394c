"""What the driver of turns remembers and gathers, in arrays: a copy of it is a fork."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sim.arrays import FloatArray, IntArray, RowArray
from sim.handle import Handle
from sim.jit import kernel
from sim.kernel.layout import BLOCKED, FINISHED, PENDING, RUNNING, WITHDRAWN, State

NOBODY = -1
INT, FLOAT = np.int64, np.float64

TURN = np.dtype(
    [
        ("epoch", INT),  # decision epochs so far
        ("is_open", INT),  # whether agents may still act at this instant
        ("agent", INT),  # whose turn it is, or NOBODY
        ("last", INT),  # whose turn it was last; 0 at the beginning of an epoch
        ("in_window", INT),  # jobs that this agent sees
        ("decisions", INT),  # times that somebody was asked, or nobody had a choice, or was put off
        ("halt", INT),  # after so many of them the run halts, between epochs, too
        ("stop_s", FLOAT),  # at this time it halts whoever has a choice; inf: never
        # The clock (`marl.env.playing.pause_s`).
        ("due_s", FLOAT),  # when agents act next; NaN: nothing waits for it
        ("acting_s", FLOAT),  # the instant at which they act; NaN: none so far
        # A gang that has been begun, where agents place worker by worker.
        ("begun", INT),  # workers that have a place
        ("begun_row", INT),  # of the job in the window
        ("begun_mode", INT),
        # What the last action orders: how many of each.
        ("preempts", INT),
        ("forwards", INT),
        ("starts", INT),
        # If that was refused: verdict of `sim.kernel.step`, job, and GPU or partition.
        ("verdict", INT),
        ("refused_job", INT),
        ("refused_what", INT),
    ],
    align=True,
)


@dataclass(frozen=True, eq=False)
class Memory(Handle):
    """J jobs, M partitions, A actions, W jobs in a window, gangs of N GPUs, R running at most."""

    turn: RowArray  # (1,) TURN
    waited: IntArray  # (M,) 1: has waited since it last got a job
    pressed: IntArray  # (M,) 1: has waited though nothing runs, and has to start a job
    busy: IntArray  # (M,) scratch: 1: a job waits there
    sent: IntArray  # (J,) epoch in which a job was last forwarded
    window: IntArray  # (W,) jobs that the agent of this turn sees
    mask: npt.NDArray[np.int8]  # (A,) what it may do
    begun_gpus: IntArray  # (N,) of the gang that has been begun
    # Orders of the last action, as `sim.kernel.step` reads them.
    preempt: IntArray  # (R,) jobs
    forward: IntArray  # (1, 2) job, partition
    start_job: IntArray  # (1,)
    start_first: IntArray  # (2,)
    start_gpus: IntArray  # (N,)
    no_lease: FloatArray  # (1,) NaN
    # What was gathered (`gather`).
    since_s: FloatArray  # (J,) when a job could first run: no parent in its way; NaN before
    delay_s: FloatArray  # (J,) its delay as of the last advance; NaN once it has left
    share: FloatArray  # (J,) of its work that it had done then; NaN once it has left
    gathered_delay_s: FloatArray  # (M,) since last taken
    gathered_progress: FloatArray  # (M,)


@kernel
def is_sent(memory: Memory, job: int) -> bool:
    """Whether a job was forwarded in this epoch: it stays for the rest of it."""
    return bool(memory.sent[job] == memory.turn[0].epoch)


def make_memory(
    *, jobs: int, partitions: int, actions: int, window: int, largest_gang: int, running: int
) -> Memory:
    """That of a run at its beginning."""

    def ints(*shape: int) -> IntArray:
        return np.zeros(shape, dtype=np.int64)

    turn = np.zeros(1, dtype=TURN)
    turn["agent"], turn["due_s"], turn["acting_s"] = NOBODY, np.nan, np.nan
    turn["halt"], turn["stop_s"] = np.iinfo(INT).max, np.inf
    return Memory(
        turn=turn,
        waited=ints(partitions),
        pressed=ints(partitions),
        busy=ints(partitions),
        sent=ints(jobs) - 1,
        window=ints(window),
        mask=np.zeros(actions, dtype=np.int8),
        begun_gpus=ints(largest_gang),
        preempt=ints(running),
        forward=ints(1, 2),
        start_job=ints(1),
        start_first=ints(2),
        start_gpus=ints(largest_gang),
        no_lease=np.full(1, np.nan),
        since_s=np.full(jobs, np.nan),
        delay_s=np.zeros(jobs),
        share=np.zeros(jobs),
        gathered_delay_s=np.zeros(partitions),
        gathered_progress=np.zeros(partitions),
    )


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
    for job in range(len(state.job)):  # also those that have left: their last interval is seen once
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
