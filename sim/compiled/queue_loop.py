"""The loop of schedulers that never preempt: `sim.queueing.QueueScheduler`."""

from sim.compiled.following import follow, know_own_orders
from sim.compiled.layout import NONE, Memory
from sim.compiled.placing import place
from sim.compiled.seats import take
from sim.compiled.starting import start
from sim.compiled.waiting import drop_first, first_kind, refuse
from sim.jit import kernel
from sim.kernel.advance import DECIDE, FULL, PAUSE, advance_instant
from sim.kernel.layout import State
from sim.kernel.log import log_half_full
from sim.kernel.rates import rerate


@kernel
def _has_room(memory: Memory, number: int) -> bool:
    """Book GPUs for the first job of kind `number` and take it out, if it has room.

    A kind that had no room is not tried again before GPUs become usable again.
    """
    kind, releases = memory.kind[number], memory.game[0].releases
    if kind.refused == releases:
        return False
    job = memory.heap[kind.first].job
    if not place(memory, job, 0):
        kind.refused = releases
        return False
    take(memory, job, memory.gpus, 0, kind.gang)
    drop_first(memory, number)
    return True


@kernel
def _decide(state: State, memory: Memory) -> None:
    """Fill the cluster in order of priority."""
    memory.game[0].walk += 1
    while memory.game[0].num_kinds > 0:
        number = first_kind(state.job, memory)
        if number == NONE:
            break
        job = memory.heap[memory.kind[number].first].job
        if _has_room(memory, number):
            start(state, memory, job, 0)
        elif memory.game[0].skip_blocked == 0:
            break
        else:
            refuse(memory, number)
    rerate(state)


@kernel
def play_queue(state: State, memory: Memory, until_decision: int) -> int:
    """Run on; OVER, STUCK, FULL (flush the log) or PAUSE (so many decisions have been made)."""
    game = memory.game[0]
    while True:
        if log_half_full(state):
            game.log_at = 0
            game.log_gpus_at = 0
            return FULL
        verdict = advance_instant(state)
        follow(state, memory)
        if verdict < 0:
            continue
        if verdict != DECIDE:
            return verdict
        game.decisions += 1
        _decide(state, memory)
        know_own_orders(state, memory)
        if game.decisions >= until_decision:
            return PAUSE
