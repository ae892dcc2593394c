"""The waiting jobs, a heap for each kind in each partition, and the keys that order them."""

import numpy as np

from sim.codes import ASKED, FIXED, LEFT, QUANTA, SERVICE, SMALLEST_GANG, TRUE_LEFT
from sim.engine.layout import NOBODY, Memory
from sim.jit import kernel
from sim.kernel.layout import QUEUED, Row, RowArray, State

QUANTUM_ROUNDING = 1e-9  # of a quantum: a job woken at its boundary counts as past it


@kernel
def _comes_before(waiter: RowArray, a: int, b: int, sign: int) -> bool:
    """By key, then by row; the other way round with `sign` -1."""
    mine, theirs = sign * waiter[a].key, sign * waiter[b].key
    return bool(mine < theirs or (mine == theirs and sign * a < sign * b))


@kernel
def meld(waiter: RowArray, a: int, b: int, sign: int) -> int:
    """Root of the heap of all jobs in two heaps: a skew heap, linked through the jobs' rows."""
    if a == NOBODY:
        return b
    if b == NOBODY:
        return a
    if _comes_before(waiter, b, a, sign):
        a, b = b, a
    root = a
    while True:  # down the right side, which becomes the left one: so it stays short on average
        below = waiter[a].right
        waiter[a].right = waiter[a].left
        if below == NOBODY:
            waiter[a].left = b
            return root
        if _comes_before(waiter, b, below, sign):
            below, b = b, below
        waiter[a].left = below
        a = below


@kernel
def heap_push(waiter: RowArray, root: int, job: int, sign: int) -> int:
    """Root of the heap with `job`, whose key is written."""
    waiter[job].left = NOBODY
    waiter[job].right = NOBODY
    return meld(waiter, root, job, sign)


@kernel
def heap_pop(waiter: RowArray, root: int, sign: int) -> int:
    """Root of the heap without its first."""
    return meld(waiter, waiter[root].left, waiter[root].right, sign)


@kernel
def steps_of(attained_gpu_s: float, quantum_gpu_s: float) -> float:
    """Whole quanta attained."""
    return float(np.floor(attained_gpu_s / quantum_gpu_s + QUANTUM_ROUNDING))


@kernel
def attained_gpu_s(state: State, job: int) -> float:
    """Service of a running job up to now, as the kernel's `observe` writes it."""
    row = state.job[job]
    return float(row.served_gpu_s + max(0.0, state.world[0].now_s - row.resume_s) * row.held)


@kernel
def key_after(memory: Memory, row: Row, job: int, progress_s: float) -> float:
    """Key of a job that has done so much; FIXED and ASKED keys are given."""
    order, waiter = memory.rule[0].order, memory.waiter[job]
    if order == TRUE_LEFT:
        return float(row.work_s - progress_s)
    if order in (LEFT, SERVICE):
        left_s = max(waiter.estimate_s - progress_s, 0.0)
        return float(left_s * row.num_gpus if order == SERVICE else left_s)
    if order == SMALLEST_GANG:
        return float(row.num_gpus)
    return float(waiter.key) if order in (FIXED, ASKED) else 0.0


@kernel
def waiting_key(state: State, memory: Memory, job: int) -> float:
    """Key of a waiting job; it does not change while the job waits."""
    row = state.job[job]
    if memory.rule[0].order == QUANTA:
        return steps_of(row.attained_gpu_s, memory.rule[0].quantum_gpu_s)
    return key_after(memory, row, job, row.seen_progress_s)


@kernel
def running_key(state: State, memory: Memory, job: int) -> float:
    """Key of a running job now, QUANTA apart (`sim.engine.quanta`)."""
    row, now_s = state.job[job], state.world[0].now_s
    return key_after(memory, row, job, row.progress_s + row.rate * max(0.0, now_s - row.rated_s))


@kernel
def queue_number(state: State, memory: Memory, job: int) -> int:
    """Queue of its partition in which a job waits."""
    kinds = len(memory.kind)
    stays = state.job[job].forwards >= state.world[0].max_forwards
    return int(memory.waiter[job].kind + (kinds if stays else 0))


@kernel
def join(state: State, memory: Memory, job: int) -> None:
    """Let `job` wait in its partition, by its key."""
    m, number = state.job[job].partition, queue_number(state, memory, job)
    queue = memory.queue[m, number]
    memory.waiter[job].key = waiting_key(state, memory, job)
    if queue.size == 0:
        queue.root = NOBODY
        queue.live_at = memory.num_live[m]
        memory.live[m, memory.num_live[m]] = number
        memory.num_live[m] += 1
    queue.root = heap_push(memory.waiter, queue.root, job, 1)
    queue.size += 1


@kernel
def _shrink(memory: Memory, m: int, number: int) -> None:
    """A job has left a queue; one without jobs is not live."""
    queue = memory.queue[m, number]
    queue.size -= 1
    if queue.size == 0:
        memory.num_live[m] -= 1
        moved = memory.live[m, memory.num_live[m]]
        memory.live[m, queue.live_at] = moved
        memory.queue[m, moved].live_at = queue.live_at


@kernel
def drop_first(memory: Memory, m: int, number: int) -> None:
    """Take the first job of a queue out."""
    queue = memory.queue[m, number]
    queue.root = heap_pop(memory.waiter, queue.root, 1)
    _shrink(memory, m, number)


@kernel
def take_out(state: State, memory: Memory, job: int) -> None:
    """Take `job` out of the queue in which it waits, wherever it stands there (rare, so plain)."""
    m, number = state.job[job].partition, queue_number(state, memory, job)
    queue, kept = memory.queue[m, number], NOBODY
    for _ in range(queue.size):
        first = queue.root
        queue.root = heap_pop(memory.waiter, first, 1)
        if first != job:
            kept = heap_push(memory.waiter, kept, first, 1)
    queue.root = kept
    _shrink(memory, m, number)


@kernel
def follow(state: State, memory: Memory) -> bool:
    """Let those wait who began to since the last look; False: keys of some are to be told first.

    A FIXED key may be another once a job has run.
    """
    world, game = state.world[0], memory.game[0]
    if memory.rule[0].order == FIXED and game.told == 0:
        for at in range(world.num_joined):
            if state.job[state.joined[at]].restarts > 0:
                return False
    game.told = 0
    for at in range(world.num_joined):
        job = state.joined[at]
        if state.job[job].status == QUEUED and memory.rule[0].listed != 0:
            memory.waiter[job].key = waiting_key(state, memory, job)
        elif state.job[job].status == QUEUED:
            join(state, memory, job)
    world.num_joined = 0
    return True


@kernel
def first_of(state: State, memory: Memory, m: int, number: int) -> int:
    """First job of a live queue; NOBODY if none of those in it waits any more: it is gone then.

    Jobs that their users have withdrawn are dropped on the way.
    """
    queue = memory.queue[m, number]
    while queue.size > 0 and state.job[queue.root].status != QUEUED:
        drop_first(memory, m, number)
    return int(queue.root if queue.size > 0 else NOBODY)
