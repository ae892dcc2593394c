"""Booking gangs on GPUs and off them, with the servers' room kept true."""

from sim.arrays import IntArray
from sim.compiled.layout import FREE, Memory
from sim.compiled.plan import NEVER
from sim.compiled.room import set_usable
from sim.jit import kernel
from sim.kernel.layout import NO_JOB


@kernel
def _change_free(memory: Memory, server: int, change: int) -> None:
    if change != 0 and memory.plot[server].closed == 0:
        set_usable(memory, FREE, server, memory.usable[FREE, server] + change)


@kernel
def take(memory: Memory, job: int, gpus: IntArray, first: int, last: int) -> None:
    """Book `job` on gpus[first:last]."""
    seat, shares = memory.seat, memory.game[0].sharing != NEVER
    server, change = seat[gpus[first]].server, 0
    for at in range(first, last):
        gpu = gpus[at]
        if seat[gpu].server != server:
            _change_free(memory, server, change)
            server, change = seat[gpu].server, 0
        load = seat[gpu].load
        if shares:
            memory.who[gpu, load] = job
        change -= 1 if load == 0 else 0
        seat[gpu].load = load + 1
        memory.plot[server].workers += 1
    _change_free(memory, server, change)


@kernel
def _forget(who: IntArray, job: int, gpu: int, last: int) -> None:
    """Take `job` off the list of a GPU's `last + 1` tenants."""
    for k in range(last):
        if who[gpu, k] == job:
            who[gpu, k] = who[gpu, last]
    who[gpu, last] = NO_JOB


@kernel
def release(memory: Memory, job: int, gpus: IntArray, first: int, last: int) -> None:
    """Take `job` off gpus[first:last]."""
    seat, shares = memory.seat, memory.game[0].sharing != NEVER
    server, change = seat[gpus[first]].server, 0
    for at in range(first, last):
        gpu = gpus[at]
        if seat[gpu].server != server:
            _change_free(memory, server, change)
            server, change = seat[gpu].server, 0
        load = seat[gpu].load - 1
        if shares:
            _forget(memory.who, job, gpu, load)
        change += 1 if load == 0 else 0
        seat[gpu].load = load
        memory.plot[server].workers -= 1
    _change_free(memory, server, change)


@kernel
def measure_largest(memory: Memory) -> None:
    """Note how large the largest server is that is there."""
    memory.game[0].largest = 0
    for server in range(len(memory.plot)):
        plot = memory.plot[server]
        if plot.closed == 0:
            memory.game[0].largest = max(memory.game[0].largest, plot.last_gpu - plot.first_gpu)


@kernel
def close(memory: Memory, server: int) -> None:
    """The server went away; nobody is offered its GPUs."""
    memory.plot[server].closed = 1
    set_usable(memory, FREE, server, 0)


@kernel
def open_again(memory: Memory, server: int) -> None:
    """The server is there (again): its GPUs without a tenant are usable."""
    memory.plot[server].closed = 0
    free = 0
    for gpu in range(memory.plot[server].first_gpu, memory.plot[server].last_gpu):
        free += 1 if memory.seat[gpu].load == 0 else 0
    set_usable(memory, FREE, server, free)


@kernel
def change_server(memory: Memory, server: int, closes: bool) -> None:
    """A server goes away or comes back during a run; what had no room may have some now.

    Even where one goes: whole gangs are cut by the size of the largest server that is left.
    """
    if closes:
        close(memory, server)
    else:
        open_again(memory, server)
    measure_largest(memory)
    memory.game[0].releases += 1


@kernel
def open_all(memory: Memory) -> None:
    """Every server is there: how a run begins."""
    for server in range(len(memory.plot)):
        open_again(memory, server)
    measure_largest(memory)
