"""What the compiled loop remembers between instants, beside the kernel's state.

Few arrays of rows, as in `sim.kernel.layout` and for the same reason: handing many arrays to a
compiled function costs more than what most of these functions do.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sim.arrays import BoolArray, FloatArray, IntArray
from sim.handle import Handle
from sim.kernel.layout import RowArray

INT, FLOAT = np.int64, np.float64
FREE, OFFER = 0, 1  # rooms: GPUs without a tenant; those that the job at hand may share or have
NONE = -1

GAME = np.dtype(
    [
        # Fixed: the plan, in codes of `sim.compiled.plan`.
        ("order", INT),
        ("preempts", INT),
        ("placer", INT),
        ("sharing", INT),
        ("least_speed", FLOAT),
        ("skip_blocked", INT),
        ("quantum_gpu_s", FLOAT),
        ("losers_at", INT),  # where in `heap` the heap of losers begins
        ("victims_at", INT),
        ("preempts_at", INT),  # where in `order` preemptions begin; starts begin at 0
        # Changing.
        ("largest", INT),  # GPUs of the largest server that is there
        ("log_at", INT),  # rows of the log up to here are known
        ("log_gpus_at", INT),  # and GPUs
        ("decisions", INT),
        ("releases", INT),  # times that GPUs became usable again
        ("walk", INT),  # number of the walk through the queue
        ("stamp", INT),  # number of the last use of SEAT.stamp
        ("num_kinds", INT),  # kinds of jobs that wait
        ("num_starts", INT),  # of the decision being made
        ("num_preempts", INT),
        ("num_gpus", INT),
        ("num_losers", INT),  # preempted in this decision and not started again so far
        ("num_victims", INT),
        ("num_sorted", INT),  # of the victims
        ("ranked_in", INT),  # walk in which the ranks were made true
    ],
    align=True,
)

SEAT = np.dtype(
    [
        ("server", INT),
        ("load", INT),  # tenants once the decision being made is carried out
        ("offered", INT),  # as of the last `offer_shared`
        ("stamp", INT),
    ],
    align=True,
)

PLOT = np.dtype(
    [
        ("first_gpu", INT),
        ("last_gpu", INT),
        ("type", INT),
        ("workers", INT),  # tenants of all its GPUs
        ("closed", INT),  # 1: it is away
        ("left", INT),  # scratch of `least_loaded`
        ("loaded", INT),
    ],
    align=True,
)

# Jobs of one kind can be placed alike: same gang and, where GPUs are shared, same profile (its
# group; else all are of group 0).
KIND = np.dtype(
    [
        ("gang", INT),
        ("group", INT),
        ("first", INT),  # start of its heap
        ("size", INT),
        ("live_at", INT),  # its place among the kinds with waiting jobs
        ("refused", INT),  # value of `releases` when it could not be placed; -1: it could
        ("refused_key", FLOAT),  # of the job that could not
    ],
    align=True,
)

LIMIT = np.dtype([("gang", INT), ("walk", INT)], align=True)

WAITER = np.dtype(
    [("kind", INT), ("profile", INT), ("estimate_s", FLOAT), ("ranked_at", INT)], align=True
)

# A running job under LAS.
RANK = np.dtype(
    [
        ("job", INT),
        ("steps", FLOAT),  # whole quanta attained
        ("next_s", FLOAT),  # when it will have attained one more
        ("early_s", FLOAT),  # before this it has certainly not
    ],
    align=True,
)

ENTRY = np.dtype([("key", FLOAT), ("job", INT)], align=True)

ORDER = np.dtype([("job", INT), ("at", INT)], align=True)


class Present(NamedTuple):
    """What a plan needs of the kernel's state."""

    world: RowArray
    job: RowArray
    running: IntArray
    placed: IntArray


@dataclass(frozen=True, eq=False)
class Memory(Handle):
    """J jobs of K kinds, G GPUs, S servers of at most L GPUs, C tenants a GPU, R running jobs."""

    game: RowArray  # (1,) GAME
    seat: RowArray  # (G,) SEAT
    who: IntArray  # (G, C) tenants in no particular order; only where GPUs are shared
    plot: RowArray  # (S,) PLOT
    # Rooms: see `sim.compiled.room`.
    usable: IntArray  # (2, S) GPUs that each server could give
    tally: IntArray  # (2, L + 2) servers with exactly so many; last: usable GPUs of all
    words: npt.NDArray[np.uint64]  # (2, L + 1, W)
    summary: npt.NDArray[np.uint64]  # (2, L + 1, V)
    kind: RowArray  # (K,) KIND
    live: IntArray  # (K,) kinds with waiting jobs, any order, first num_kinds entries
    limit: RowArray  # (groups,) gangs from this size on have no room in that walk
    waiter: RowArray  # (J,) WAITER
    heap: RowArray  # (J + 2 R,) ENTRY: heaps of waiting jobs, of losers, of victims
    rank: RowArray  # (R,) RANK of running jobs in the kernel's order; LAS alone
    order: RowArray  # (J + R,) ORDER: starts, with their first GPU in `gpus`; preemptions
    gpus: IntArray  # (G * C,) of the starts of the decision being made
    slowdown: FloatArray  # (T, P, P) predicted
    feasible: BoolArray  # (T, P, P)
