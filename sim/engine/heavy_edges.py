"""`heavy_edge`: few servers, workers that talk most on the same one (`sim.placers.heavy_edge`)."""

import numpy as np

from sim.arrays import IntArray
from sim.engine.layout import Memory
from sim.engine.placing import most_usable_first
from sim.jit import array_kernel
from sim.kernel.layout import State
from sim.kernel.rooms import usable_in
from sim.placing.heavy_edge import map_workers
from sim.placing.known_graphs import edges_at


@array_kernel
def _taken(state: State, memory: Memory, gang: int) -> IntArray:
    """(s,) GPUs of each server of the placement at hand, in its order."""
    taken, count, server = np.zeros(gang, dtype=np.int64), 0, -1
    for at in range(gang):
        here = state.gpu[memory.gpus[at]].server
        count += here != server
        server = here
        taken[count - 1] += 1
    return taken[:count]


@array_kernel
def _name_by_worker(memory: Memory, taken: IntArray, number: int) -> None:
    """Put the placement, which stands server by server, in order of workers."""
    servers = np.arange(len(taken))
    host = map_workers(servers, taken, edges_at(memory.graphs, number))
    gpus = memory.gpus[: len(host)].copy()
    next_ = np.cumsum(taken) - taken  # of each server's GPUs, the first without a worker
    for worker, server in enumerate(host):
        memory.gpus[worker] = gpus[next_[server]]
        next_[server] += 1


@array_kernel
def place_by_edges(state: State, memory: Memory, free: int, m: int, job: int) -> bool:
    """Rule of `sim.placers.heavy_edge`; called by address where that is the placer.

    `free`: 1 for the GPUs without a tenant, 0 for what is offered.
    """
    rooms, room = (state.rooms if free != 0 else memory.offer), (m if free != 0 else 0)
    row = state.job[job]
    if usable_in(rooms, room) < row.num_gpus:
        return False
    most_usable_first(state, memory, rooms, room, row.num_gpus)
    taken = _taken(state, memory, row.num_gpus)
    if len(taken) > 1:
        _name_by_worker(memory, taken, memory.graphs.number[row.profile, row.num_gpus])
    return True
