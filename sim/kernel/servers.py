"""Servers that go away and come back."""

from sim.jit import kernel
from sim.kernel.layout import CLOSES, OPENS, State
from sim.kernel.leaving import requeue
from sim.kernel.log import EVICT, SERVER_DOWN, SERVER_UP, log_server
from sim.kernel.rooms import set_most, set_usable
from sim.kernel.seats import note_release


@kernel
def change_server(state: State, server: int, kind: int) -> None:
    """Fail, close or open one server; those on a failing one lose work since their checkpoint."""
    row, gpus = state.server[server], state.gpu
    if kind == OPENS:
        row.closed -= 1
        if row.closed == 0:
            open_server(state, server)
            log_server(state, SERVER_UP, server)
        return
    row.closed += 1
    if row.closed > 1:
        return
    log_server(state, SERVER_DOWN, server)
    _close_server(state, server)
    for gpu in range(row.first_gpu, row.last_gpu):
        while gpus[gpu].tenants > 0:
            requeue(state, state.tenant[gpu, 0], EVICT, kind == CLOSES)


@kernel
def open_server(state: State, server: int) -> None:
    """An empty server is there: all its GPUs are usable."""
    row, rooms = state.server[server], state.rooms
    for gpu in range(row.first_gpu, row.last_gpu):
        rooms.gpu[gpu] = True
    set_most(rooms, row.partition, server, row.last_gpu - row.first_gpu)
    set_usable(rooms, row.partition, server, row.last_gpu - row.first_gpu)
    note_release(state, row.partition)


@kernel
def cordon(state: State, server: int) -> None:
    """Close a server to newcomers: those on it stay. For who sets up a state (`sim.simulator`)."""
    state.server[server].closed += 1
    _close_server(state, server)


@kernel
def _close_server(state: State, server: int) -> None:
    """None of its GPUs is usable; what had no room may have some: the largest server is another."""
    row, rooms = state.server[server], state.rooms
    for gpu in range(row.first_gpu, row.last_gpu):
        rooms.gpu[gpu] = False
    set_most(rooms, row.partition, server, 0)
    set_usable(rooms, row.partition, server, 0)
    note_release(state, row.partition)
