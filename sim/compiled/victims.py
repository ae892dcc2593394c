"""Running jobs that may be preempted, those that come last first."""

from sim.compiled.heaps import heap_drop_first, heap_sift
from sim.compiled.las_ranks import refresh_ranks
from sim.compiled.layout import NONE, Memory, Present
from sim.compiled.plan import LAS
from sim.compiled.priority import left_s
from sim.jit import kernel


@kernel
def gather_victims(now: Present, memory: Memory, key: float) -> None:
    """Heap up the running jobs that come after `key`; keys and jobs are negated there."""
    heap, first, count = memory.heap, memory.game[0].victims_at, 0
    now_s, by_service = now.world[0].now_s, memory.game[0].order == LAS
    if by_service:
        refresh_ranks(now, memory)
    for at in range(now.world[0].num_running):
        job = now.running[at]
        other = memory.rank[at].steps if by_service else left_s(now.job, job, now_s)
        if other > key:
            heap[first + count].key = -other
            heap[first + count].job = -job
            count += 1
    memory.game[0].num_victims = count
    memory.game[0].num_sorted = 0
    for at in range(count // 2 - 1, -1, -1):
        heap_sift(heap, first, count, at, heap[first + at].key, heap[first + at].job)


@kernel
def victim_at(memory: Memory, rank: int) -> int:
    """Where in `heap` victim number `rank` (0: it comes last of all) stands; NONE: there are fewer.

    Sorted victims fill their part of it from the end, where the shrinking heap makes room.
    """
    game, heap = memory.game[0], memory.heap
    first = game.victims_at
    while game.num_sorted <= rank:
        size = game.num_victims - game.num_sorted
        if size == 0:
            return NONE
        key, job = heap[first].key, heap[first].job
        heap_drop_first(heap, first, size)
        heap[first + size - 1].key = key
        heap[first + size - 1].job = job
        game.num_sorted += 1
    return int(first + game.num_victims - 1 - rank)
