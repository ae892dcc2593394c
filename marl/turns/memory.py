"""What the driver of turns remembers between turns, in arrays: a copy of it is a fork."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sim.arrays import FloatArray, IntArray
from sim.handle import Handle
from sim.kernel.layout import RowArray

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
        # The clock (`marl.turns.playing.pause_s`).
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
        # If that was refused: verdict of `sim.kernel.apply`, job, and GPU or partition.
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
    sent: IntArray  # (J,) epoch in which a job was last forwarded: it stays for the rest of it
    window: IntArray  # (W,) jobs that the agent of this turn sees
    mask: npt.NDArray[np.int8]  # (A,) what it may do
    begun_gpus: IntArray  # (N,) of the gang that has been begun
    # Orders of the last action, as `sim.kernel.apply` reads them.
    preempt: IntArray  # (R,) jobs
    forward: IntArray  # (1, 2) job, partition
    start_job: IntArray  # (1,)
    start_first: IntArray  # (2,)
    start_gpus: IntArray  # (N,)
    no_lease: FloatArray  # (1,) NaN
    # What was gathered (`marl.turns.gathering`).
    since_s: FloatArray  # (J,) when a job could first run: no parent in its way; NaN before
    delay_s: FloatArray  # (J,) its delay as of the last advance; NaN once it has left
    share: FloatArray  # (J,) of its work that it had done then; NaN once it has left
    gathered_delay_s: FloatArray  # (M,) since last taken
    gathered_progress: FloatArray  # (M,)


def make_memory(
    *, jobs: int, partitions: int, actions: int, window: int, largest_gang: int, running: int
) -> Memory:
    """That of a run at its beginning."""

    def ints(*shape: int) -> IntArray:
        return np.zeros(shape, dtype=np.int64)

    turn = np.zeros(1, dtype=TURN)
    turn["agent"], turn["due_s"], turn["acting_s"] = NOBODY, np.nan, np.nan
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
