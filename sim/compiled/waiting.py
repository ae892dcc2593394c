"""The waiting jobs by kind, and walking through them in order of priority."""

from sim.compiled.heaps import heap_drop_first, heap_push
from sim.compiled.layout import NONE, Memory
from sim.compiled.priority import waiting_key
from sim.jit import kernel
from sim.kernel.layout import QUEUED, RowArray


@kernel
def join(jobs: RowArray, memory: Memory, job: int) -> None:
    """Let `job` wait."""
    game, waiter = memory.game[0], memory.waiter[job]
    kind = memory.kind[waiter.kind]
    key = waiting_key(jobs, job, memory.game, waiter.estimate_s)
    heap_push(memory.heap, kind.first, kind.size, key, job)
    kind.size += 1
    if kind.size == 1:
        memory.live[game.num_kinds] = waiter.kind
        kind.live_at = game.num_kinds
        kind.refused = NONE  # the refusals of kinds that nobody waits for are not kept true
        game.num_kinds += 1


@kernel
def drop_first(memory: Memory, number: int) -> None:
    """Take the first job of kind `number` out."""
    game, kind = memory.game[0], memory.kind[number]
    heap_drop_first(memory.heap, kind.first, kind.size)
    kind.size -= 1
    if kind.size == 0:
        game.num_kinds -= 1
        moved = memory.live[game.num_kinds]
        memory.live[kind.live_at] = moved
        memory.kind[moved].live_at = kind.live_at


@kernel
def refuse(memory: Memory, number: int) -> None:
    """A job of kind `number` has no room: neither have larger gangs of its group in this walk.

    GPUs that a job may use only become fewer during a walk, and a placer that cannot place a
    gang cannot place a larger one (see `sim.compiled.fitting`).
    """
    walk, kind = memory.game[0].walk, memory.kind[number]
    limit = memory.limit[kind.group]
    if limit.walk != walk or limit.gang > kind.gang:
        limit.walk = walk
        limit.gang = kind.gang


@kernel
def is_refused(memory: Memory, number: int) -> bool:
    """Whether jobs of kind `number` cannot be placed any more in this walk."""
    kind = memory.kind[number]
    limit = memory.limit[kind.group]
    return bool(limit.walk == memory.game[0].walk and kind.gang >= limit.gang)


@kernel
def first_kind(jobs: RowArray, memory: Memory) -> int:
    """The kind whose first job comes first of all that may have room; NONE if none is left.

    Jobs that their users have withdrawn are dropped on the way.
    """
    best, best_key, best_job, at = NONE, 0.0, 0, 0
    while at < memory.game[0].num_kinds:
        number = memory.live[at]
        entry = memory.heap[memory.kind[number].first]
        if jobs[entry.job].status != QUEUED:
            drop_first(memory, number)  # moves another kind to this place, or the next job up
            continue
        at += 1
        if is_refused(memory, number):
            continue
        if best == NONE or entry.key < best_key or (entry.key == best_key and entry.job < best_job):
            best, best_key, best_job = number, entry.key, entry.job
    return best
