"""Learning from the kernel's log what happened since the last look."""

from sim.compiled.layout import Memory
from sim.compiled.seats import change_server, release
from sim.compiled.waiting import join
from sim.jit import kernel
from sim.kernel.layout import QUEUED, State
from sim.kernel.log import FINISH, SERVER_DOWN, SERVER_UP


@kernel
def follow(state: State, memory: Memory) -> None:
    """Book who waits, who gave GPUs back, and which servers went or came."""
    game, world, jobs = memory.game[0], state.world[0], state.job
    for at in range(game.log_at, world.num_logged):
        event = state.log[at]
        kind, job, gpus = event.kind, event.job, event.gpus
        if kind in (SERVER_DOWN, SERVER_UP):
            server = memory.seat[state.log_gpus[game.log_gpus_at]].server
            change_server(memory, server, kind == SERVER_DOWN)
        else:
            if gpus > 0:
                release(memory, job, state.placed, jobs[job].first, jobs[job].first + gpus)
                game.releases += 1
            if kind != FINISH and jobs[job].status == QUEUED:
                join(jobs, memory, job)
        game.log_gpus_at += gpus
    game.log_at = world.num_logged


@kernel
def know_own_orders(state: State, memory: Memory) -> None:
    """What was logged since `follow` is this side's own doing."""
    memory.game[0].log_at = state.world[0].num_logged
    memory.game[0].log_gpus_at = state.world[0].num_logged_gpus
