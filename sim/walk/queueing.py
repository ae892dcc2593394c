"""The waiting jobs at one decision, and whose turn it is."""

from typing import NamedTuple

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray
from sim.compiled.plan import SJF, SMALLEST_GANG, SRTF, TETRIS
from sim.jit import array_kernel, kernel
from sim.kernel.layout import State
from sim.ranking.tetris_score import tetris_score
from sim.walk.desk import Desk
from sim.walk.offering import own_servers
from sim.walk.plan import Rule


class Queue(NamedTuple):
    """The waiting jobs in order of submission."""

    job: IntArray  # (q,)
    gang: IntArray
    at: IntArray  # partition in whose queue it is
    left_s: FloatArray  # predicted work left; true work left under SRTF
    may_go: BoolArray  # another partition may take it
    started: BoolArray
    turn: IntArray  # (q,) rows, first to start first; of no use under TETRIS


@array_kernel
def queue_up(desk: Desk, state: State, rule: Rule) -> Queue:
    """The queue before anything started."""
    world = state.world[0]
    job = state.queue[world.queue_first : world.queue_first + world.num_queued].copy()
    gang, at, left_s = np.empty_like(job), np.empty_like(job), np.empty(len(job))
    may_go = np.empty(len(job), dtype=np.bool_)
    for i in range(len(job)):
        row = state.job[job[i]]
        gang[i], at[i] = row.num_gpus, row.partition
        left_s[i] = max(desk.estimate_s[job[i]] - row.seen_progress_s, 0.0)
        if rule.order == SRTF:
            left_s[i] = row.work_s - row.seen_progress_s
        may_go[i] = row.forwards < world.max_forwards
    if rule.order in (SJF, SRTF):
        turn = np.argsort(left_s, kind="mergesort")
    elif rule.order == SMALLEST_GANG:
        turn = np.argsort(gang, kind="mergesort")
    else:
        turn = np.arange(len(job))
    return Queue(job, gang, at, left_s, may_go, np.zeros(len(job), dtype=np.bool_), turn)


@kernel
def is_eligible(queue: Queue, i: int, partition: int, takes: bool) -> bool:
    """Whether a row waits in the partition's queue, or, where it takes, may leave another's."""
    if queue.started[i] or (queue.at[i] == partition) == takes:
        return False
    return bool(not takes or queue.may_go[i])


@array_kernel
def _tetris_turn(desk: Desk, queue: Queue, partition: int, takes: bool) -> IntArray:
    """Eligible rows by falling score, which depends on who else is eligible and what is free."""
    eligible = np.zeros(len(queue.job), dtype=np.bool_)
    for i in range(len(eligible)):
        eligible[i] = is_eligible(queue, i, partition, takes)
    rows = np.flatnonzero(eligible)
    if len(rows) == 0:
        return rows
    largest, free_share = 0, 0.0
    for server in own_servers(desk, partition):
        largest = max(largest, desk.yard.size[server])
        free_share = max(free_share, desk.server_free[server] / desk.yard.size[server])
    score = tetris_score(queue.gang[rows], queue.left_s[rows], free_share, float(largest))
    turn: IntArray = rows[np.argsort(-score, kind="mergesort")]
    return turn


@array_kernel
def turn_of(desk: Desk, rule: Rule, queue: Queue, partition: int, takes: bool) -> IntArray:
    """Rows of the queue in the order in which the partition looks at them, all eligible ones."""
    if rule.order == TETRIS:
        return _tetris_turn(desk, queue, partition, takes)
    return queue.turn
