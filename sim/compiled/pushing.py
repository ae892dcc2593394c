"""Room for a job at the cost of running ones: `PreemptiveScheduler._push_aside`."""

from sim.arrays import IntArray
from sim.compiled.heaps import heap_push
from sim.compiled.layout import NONE, Memory
from sim.compiled.placing import place
from sim.compiled.seats import release, take
from sim.compiled.victims import victim_at
from sim.jit import kernel
from sim.kernel.layout import RowArray

GONE = 1  # victims' jobs are negated: 1 is nobody


@kernel
def _uses_stamped(memory: Memory, placed: IntArray, first: int, last: int) -> bool:
    stamp = memory.game[0].stamp
    used = False
    for at in range(first, last):
        used = used or memory.seat[placed[at]].stamp == stamp
    return used


@kernel
def _seat_again(jobs: RowArray, placed: IntArray, memory: Memory, ranks: int) -> None:
    """Undo the release of the first `ranks` victims, but for those that lose a stamped GPU."""
    game = memory.game[0]
    for rank in range(ranks):
        entry = memory.heap[victim_at(memory, rank)]
        if entry.job == GONE:
            continue
        job = -entry.job
        first = jobs[job].first
        last = first + jobs[job].held
        if not _uses_stamped(memory, placed, first, last):
            take(memory, job, placed, first, last)
            continue
        memory.order[game.preempts_at + game.num_preempts].job = job
        game.num_preempts += 1
        heap_push(memory.heap, game.losers_at, game.num_losers, -entry.key, job)
        game.num_losers += 1
        entry.job = GONE


@kernel
def push_aside(jobs: RowArray, placed: IntArray, memory: Memory, job: int, key: float) -> bool:
    """Plan `job` (of `key`) on GPUs of the fewest victims, last ones first; False: no room.

    One victim more never takes room away, so the first number that suffices is the least.
    Victims whose GPUs are not used stay where they are.
    """
    game = memory.game[0]
    rank, found = 0, False
    while not found:
        at = victim_at(memory, rank)
        if at == NONE or -memory.heap[at].key <= key:
            break
        rank += 1
        victim = -memory.heap[at].job
        if victim == -GONE:
            continue
        first = jobs[victim].first
        release(memory, victim, placed, first, first + jobs[victim].held)
        found = place(memory, job, game.num_gpus)
    game.stamp += 1
    if found:
        for at in range(game.num_gpus, game.num_gpus + jobs[job].num_gpus):
            memory.seat[memory.gpus[at]].stamp = game.stamp
    _seat_again(jobs, placed, memory, rank)
    return found
