"""What a preemptive scheduler orders: `sim.preempting.PreemptiveScheduler.decide`."""

from sim.compiled.heaps import heap_drop_first
from sim.compiled.las_ranks import refresh_ranks
from sim.compiled.layout import NONE, Memory, Present
from sim.compiled.placing import place
from sim.compiled.plan import LAS
from sim.compiled.pushing import push_aside
from sim.compiled.seats import take
from sim.compiled.victims import gather_victims
from sim.compiled.waiting import drop_first, first_kind, is_refused, refuse
from sim.jit import kernel


@kernel
def _loser_is_next(memory: Memory, number: int) -> bool:
    """Whether a job preempted in this decision comes before the first waiting one."""
    game = memory.game[0]
    if game.num_losers == 0 or number == NONE:
        return bool(game.num_losers > 0)
    entry, loser = memory.heap[memory.kind[number].first], memory.heap[game.losers_at]
    return bool(loser.key < entry.key or (loser.key == entry.key and loser.job < entry.job))


@kernel
def _remember(memory: Memory, job: int, key: float) -> None:
    """A job of this kind had no room: under LAS it has none before something changes.

    That is a release, or a running job that crosses a quantum and may be preempted from then on.
    """
    if memory.game[0].order == LAS:
        kind = memory.kind[memory.waiter[job].kind]
        kind.refused = memory.game[0].releases
        kind.refused_key = key


@kernel
def _plan_one(now: Present, memory: Memory, job: int, key: float) -> bool:
    """Plan the start of `job`, preempting if need be; False if it has no room even so."""
    game, kind = memory.game[0], memory.kind[memory.waiter[job].kind]
    if kind.refused == game.releases and key >= kind.refused_key and game.num_preempts == 0:
        refresh_ranks(now, memory)  # may recall the refusal
        if kind.refused == game.releases:
            return False
    if not place(memory, job, game.num_gpus):
        if game.num_victims == NONE:
            gather_victims(now, memory, key)
        if not push_aside(now.job, now.placed, memory, job, key):
            _remember(memory, job, key)
            return False
    last = game.num_gpus + kind.gang
    take(memory, job, memory.gpus, game.num_gpus, last)
    memory.order[game.num_starts].job = job
    memory.order[game.num_starts].at = game.num_gpus
    game.num_starts += 1
    game.num_gpus = last
    return True


@kernel
def make_plan(now: Present, memory: Memory) -> None:
    """Fill `memory.order` in order of priority; what is left of the losers waits on."""
    game = memory.game[0]
    game.num_starts, game.num_preempts, game.num_gpus, game.num_losers = 0, 0, 0, 0
    game.num_victims = NONE
    game.walk += 1
    while True:
        number = first_kind(now.job, memory)
        lost = _loser_is_next(memory, number)
        if not lost and number == NONE:
            return
        at = game.losers_at if lost else memory.kind[number].first
        key, job = memory.heap[at].key, memory.heap[at].job
        if lost:
            heap_drop_first(memory.heap, at, game.num_losers)
            game.num_losers -= 1
            number = memory.waiter[job].kind
            if is_refused(memory, number):
                continue
        if not _plan_one(now, memory, job, key):
            refuse(memory, number)
        elif not lost:
            drop_first(memory, number)
