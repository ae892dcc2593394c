"""Makes the memory of a compiled run at time 0."""

import numpy as np

from sim.arrays import IntArray
from sim.compiled.layout import (
    ENTRY,
    GAME,
    KIND,
    LIMIT,
    NONE,
    ORDER,
    PLOT,
    RANK,
    SEAT,
    WAITER,
    Memory,
)
from sim.compiled.plan import NEVER, Plan
from sim.compiled.room import WORD
from sim.jobs import JobTable
from sim.kernel.layout import NO_JOB, RowArray, State
from sim.physics.physics import Physics


def make_memory(*, plan: Plan, state: State, jobs: JobTable, belief: Physics) -> Memory:
    """Memory for a run that begins; no server has been opened yet."""
    servers, count, running = len(state.server), len(jobs), len(state.running)
    largest = int((state.server["last_gpu"] - state.server["first_gpu"]).max())
    words = -(-servers // WORD)
    waiter, kind = _kinds(plan, jobs)
    rooms = np.zeros((2, largest + 2), dtype=np.int64)
    rooms[:, 0] = servers
    return Memory(
        game=_game(plan, count, running),
        seat=_seats(state),
        who=np.full(state.tenant.shape, NO_JOB, dtype=np.int64),
        plot=_plots(state),
        usable=np.zeros((2, servers), dtype=np.int64),
        tally=rooms,
        words=np.zeros((2, largest + 1, words), dtype=np.uint64),
        summary=np.zeros((2, largest + 1, -(-words // WORD)), dtype=np.uint64),
        kind=kind,
        live=np.zeros(len(kind), dtype=np.int64),
        limit=np.zeros(int(kind["group"].max()) + 1, dtype=LIMIT),
        waiter=waiter,
        heap=np.zeros(count + 2 * running, dtype=ENTRY),
        rank=_ranks(running),
        order=np.zeros(count + running, dtype=ORDER),
        gpus=np.zeros(state.tenant.size, dtype=np.int64),
        slowdown=np.ascontiguousarray(belief.pairs.slowdown, np.float64),
        feasible=np.ascontiguousarray(belief.pairs.feasible, np.bool_),
    )


def _game(plan: Plan, jobs: int, running: int) -> RowArray:
    game = np.zeros(1, dtype=GAME)
    for key, value in vars(plan).items():
        game[key] = value
    game["preempts_at"], game["losers_at"], game["victims_at"] = jobs, jobs, jobs + running
    return game


def _seats(state: State) -> RowArray:
    seat = np.zeros(len(state.gpu), dtype=SEAT)
    seat["server"] = state.gpu["server"]
    return seat


def _plots(state: State) -> RowArray:
    plot = np.zeros(len(state.server), dtype=PLOT)
    for key in ("first_gpu", "last_gpu", "type"):
        plot[key] = state.server[key]
    plot["closed"] = 1
    return plot


def _ranks(running: int) -> RowArray:
    rank = np.zeros(running, dtype=RANK)
    rank["job"] = NONE
    return rank


def _kinds(plan: Plan, jobs: JobTable) -> tuple[RowArray, RowArray]:
    """WAITER of every job and KIND of every kind."""
    group: IntArray = np.zeros_like(jobs.profile) if plan.sharing == NEVER else jobs.profile
    groups = int(group.max()) + 1
    names, kind_of = np.unique(jobs.num_gpus * groups + group, return_inverse=True)
    kind = np.zeros(len(names), dtype=KIND)
    kind["gang"], kind["group"] = names // groups, names % groups
    kind["first"] = np.concatenate([[0], np.cumsum(np.bincount(kind_of))[:-1]])
    kind["refused"] = NONE
    waiter = np.zeros(len(jobs), dtype=WAITER)
    waiter["kind"], waiter["profile"] = kind_of, jobs.profile
    waiter["estimate_s"] = jobs.estimate_s
    return waiter, kind
