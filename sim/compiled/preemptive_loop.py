"""The loop of schedulers that preempt: `sim.preempting.PreemptiveScheduler`."""

import numpy as np

from sim.compiled.following import follow, know_own_orders
from sim.compiled.las_ranks import forget_rank, wake_s
from sim.compiled.layout import Memory, Present
from sim.compiled.plan import LAS
from sim.compiled.preemptive_plan import make_plan
from sim.compiled.starting import start
from sim.compiled.waiting import join
from sim.jit import kernel
from sim.kernel.advance import DECIDE, FULL, PAUSE, advance_instant
from sim.kernel.apply import preempt
from sim.kernel.layout import QUEUED, State
from sim.kernel.log import log_half_full
from sim.kernel.rates import rerate


@kernel
def _carry_out(state: State, memory: Memory) -> None:
    game, order = memory.game[0], memory.order
    first = game.preempts_at
    game.releases += game.num_preempts
    for at in range(first, first + game.num_preempts):
        preempt(state, order[at].job)
    for at in range(game.num_starts):
        start(state, memory, order[at].job, order[at].at)
        forget_rank(memory, order[at].job)
    for at in range(first, first + game.num_preempts):
        if state.job[order[at].job].status == QUEUED:
            join(state.job, memory, order[at].job)
    rerate(state)


@kernel
def _decide(state: State, memory: Memory) -> None:
    """Serve waiting jobs by priority, preempting where that lets one in."""
    world, game = state.world[0], memory.game[0]
    now = Present(state.world, state.job, state.running, state.placed)
    make_plan(now, memory)
    next_wake_s = np.inf
    if game.order == LAS and world.num_queued + game.num_preempts > game.num_starts:
        next_wake_s = wake_s(now, memory)
    _carry_out(state, memory)
    world.wake_s = next_wake_s


@kernel
def play_preemptive(state: State, memory: Memory, until_decision: int) -> int:
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
        if game.num_kinds > 0:
            _decide(state, memory)
            know_own_orders(state, memory)
        if game.decisions >= until_decision:
            return PAUSE
