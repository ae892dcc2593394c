"""Servers that go away and come back."""

from sim.jit import kernel
from sim.kernel.layout import CLOSES, OPENS, State
from sim.kernel.leaving import requeue
from sim.kernel.log import EVICT, SERVER_DOWN, SERVER_UP, log_server


@kernel
def change_server(state: State, server: int, kind: int) -> None:
    """Fail, close or open one server; those on a failing one lose work since their checkpoint."""
    row, gpus = state.server[server], state.gpu
    if kind == OPENS:
        row.closed -= 1
        if row.closed == 0:
            state.server_free[server] = row.last_gpu - row.first_gpu
            log_server(state, SERVER_UP, server)
        return
    row.closed += 1
    if row.closed > 1:
        return
    log_server(state, SERVER_DOWN, server)
    for gpu in range(row.first_gpu, row.last_gpu):
        while gpus[gpu].tenants > 0:
            requeue(state, state.tenant[gpu, 0], EVICT, kind == CLOSES)
    state.server_free[server] = 0
