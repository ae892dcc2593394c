"""The placers: which free GPUs a gang gets, written to `memory.gpus`."""

import numpy as np

from sim.arrays import IntArray
from sim.codes import (
    BEST_FIT,
    CLOSEST,
    COMPACT_WAIT,
    CONSOLIDATED,
    DELAY,
    FIRST_FIT,
    HEAVY_EDGE,
    LEAST_INTERFERENCE,
    LEAST_LOADED,
    LWF,
    PACKED,
    SKEW,
)
from sim.engine.layout import JUDGE, NAME, Memory
from sim.handle import ask, tell
from sim.jit import array_kernel, kernel
from sim.kernel.free_gpus import NONE, FreeGpus, next_server, usable_in
from sim.kernel.layout import State
from sim.physics.heavy_edge import edges_at, map_workers
from sim.placers.filling import (
    fill_server,
    fills_largest,
    fits_compactly,
    largest_of,
    last_level,
    nearest_first,
    spread_out,
)
from sim.placers.tiers import NETWORK, first_servers, narrowest, servers_to_fill

RARE = (LEAST_LOADED, LEAST_INTERFERENCE, COMPACT_WAIT, DELAY, CLOSEST, SKEW, LWF, HEAVY_EDGE)
LOOK_AT_GPUS = (LEAST_LOADED, LEAST_INTERFERENCE, COMPACT_WAIT, LWF)  # of servers, at once


@kernel
def looked_at(state: State, memory: Memory, free: int) -> FreeGpus:
    """The GPUs without a tenant; with `free` 0 those that are offered."""
    return state.free_gpus if free != 0 else memory.offer


@kernel
def _fill(
    state: State, memory: Memory, free_gpus: FreeGpus, server: int, wanted: int, at: int
) -> int:
    """Write `wanted` usable GPUs of a server; where to write next."""
    if memory.scalars[0].priced != 0:
        tell(memory.routine[NAME], state, memory, server)
    usable, where = (
        state.free_gpus.gpu if memory.scalars[0].whole != 0 else free_gpus.gpu,
        state.server[server],
    )
    first, last, tenants = where.first_gpu, where.last_gpu, state.gpu["tenants"]
    return int(fill_server(usable, tenants, first, last, wanted, memory.gpus, at))


@kernel
def fill_by_id(
    state: State, memory: Memory, free_gpus: FreeGpus, server: int, wanted: int, at: int
) -> int:  # fmt: skip
    """Write up to `wanted` usable GPUs of a server, lowest ids first; where to write next."""
    if memory.scalars[0].priced != 0:
        tell(memory.routine[NAME], state, memory, server)
    usable, last = (
        state.free_gpus.gpu if memory.scalars[0].whole != 0 else free_gpus.gpu,
        at + min(wanted, free_gpus.usable[server]),
    )
    # To the end also when the gang is whole: a server has few GPUs.
    for gpu in range(state.server[server].first_gpu, state.server[server].last_gpu):
        if at < last and usable[gpu]:
            memory.gpus[at] = gpu
            at += 1
    return int(at)


@kernel
def _fill_in_order(
    state: State, memory: Memory, free_gpus: FreeGpus, servers: IntArray, gang: int
) -> bool:
    """Write the usable GPUs of `servers` in this order until the gang is whole; False: too few."""
    at = 0
    for server in servers:
        at = _fill(state, memory, free_gpus, server, min(gang - at, free_gpus.usable[server]), at)
    return at == gang


@kernel
def lowest_ids(state: State, memory: Memory, free_gpus: FreeGpus, part: int, gang: int) -> None:
    """The usable GPUs with the lowest ids; there are enough."""
    at, server = 0, NONE
    while at < gang:
        server = next_server(free_gpus, part, 0, server + 1)
        at = fill_by_id(state, memory, free_gpus, server, gang - at, at)


@kernel
def most_usable_first(
    state: State, memory: Memory, free_gpus: FreeGpus, part: int, gang: int
) -> None:
    """On the servers with most usable GPUs, lowest index on ties; there are enough."""
    usable, server, at = free_gpus.tally.shape[1] - 2, NONE, 0
    while at < gang:
        server = next_server(free_gpus, part, usable, server + 1)
        if server == NONE:
            usable -= 1
        else:
            at = _fill(state, memory, free_gpus, server, min(gang - at, usable), at)


@kernel
def _best_fit(state: State, memory: Memory, free_gpus: FreeGpus, part: int, gang: int) -> None:
    """On the tightest server with room for all, else on those with fewest usable GPUs first."""
    most = free_gpus.tally.shape[1] - 2
    for usable in range(gang, most + 1):  # by the tally, without a look at servers; tightest first
        if free_gpus.tally[part, usable] > 0:
            _fill(state, memory, free_gpus, next_server(free_gpus, part, usable, 0), gang, 0)
            return
    usable, server, at = 1, NONE, 0
    while at < gang:  # fewest usable first, so that empty servers stay empty
        server = next_server(free_gpus, part, usable, server + 1)
        if server == NONE:
            usable += 1
        else:
            at = _fill(state, memory, free_gpus, server, min(gang - at, usable), at)


@kernel
def _compact(state: State, memory: Memory, free_gpus: FreeGpus, part: int, gang: int) -> None:
    """On the servers of `last_level`, which is there; lowest index on ties."""
    tally, sizes, at, server = free_gpus.tally[part], free_gpus.sizes[part], 0, NONE
    largest = largest_of(sizes)
    if not fills_largest(sizes, largest, gang):
        most_usable_first(state, memory, free_gpus, part, gang)
        return
    level = last_level(tally, largest, gang)
    for _ in range(gang // largest if gang > largest else 0):  # none where one server holds all
        server = next_server(free_gpus, part, largest, server + 1)
        at = _fill(state, memory, free_gpus, server, largest, at)
    if at < gang:
        server = next_server(free_gpus, part, level, server + 1 if level == largest else 0)
        _fill(state, memory, free_gpus, server, gang - at, at)


@array_kernel
def own_servers(state: State, m: int) -> IntArray:
    """(s,) servers of a partition, ascending."""
    return state.own[state.partition[m].first_own : state.partition[m].last_own]


# The rules of rare placers are called by address, so each is compiled only where it is used. `free`
# is 1 for the GPUs without a tenant, 0 for what is offered; False: the job has to wait.


@array_kernel
def place_by_cost(state: State, memory: Memory, free: int, m: int, job: int) -> bool:
    """The usable GPUs with least cost, lowest ids on ties; in order of ids."""
    free_gpus, gang = looked_at(state, memory, free), state.job[job].num_gpus
    usable = np.zeros(len(free_gpus.gpu), dtype=np.bool_)
    for server in own_servers(state, m):  # marks of servers that offer nothing may be old ones
        if free_gpus.usable[server] > 0:
            # Into an array by id: on ties of cost the stable sort leaves the lowest first.
            for gpu in range(state.server[server].first_gpu, state.server[server].last_gpu):
                usable[gpu] = free_gpus.gpu[gpu]
    gpus = np.flatnonzero(usable)
    memory.gpus[:gang] = np.sort(gpus[np.argsort(free_gpus.cost[gpus], kind="mergesort")[:gang]])
    return bool(len(gpus) >= gang)


@array_kernel
def place_by_timers(state: State, memory: Memory, free: int, m: int, job: int) -> bool:
    """Rule of `sim.placers.by_room.Delay`."""
    free_gpus = looked_at(state, memory, free)
    row, rule, now_s = state.job[job], memory.rule[0], state.world[0].now_s
    since_s = row.submit_s + row.attained_gpu_s / row.num_gpus
    servers = servers_to_fill(
        row.num_gpus, own_servers(state, m), free_gpus.usable, free_gpus.most, memory.server_rack,
        len(state.rack), now_s >= since_s + rule.rack_wait_s,
        now_s >= since_s + rule.anywhere_wait_s,
    )  # fmt: skip
    return len(servers) > 0 and _fill_in_order(state, memory, free_gpus, servers, row.num_gpus)


@array_kernel
def place_by_skew(state: State, memory: Memory, free: int, m: int, job: int) -> bool:
    """Rule of `sim.placers.by_room.Skew`."""
    free_gpus, number = looked_at(state, memory, free), memory.waiter[job].job_class
    class_ = memory.job_class[number]
    servers, racks = own_servers(state, m), len(state.rack)
    gang, rack, widest = class_.gang, memory.server_rack, NETWORK
    if class_.skewed != 0:
        widest = narrowest(servers, free_gpus.most, rack, racks, gang)
    tier = narrowest(servers, free_gpus.usable, rack, racks, gang)
    if tier > min(widest, NETWORK):
        return False
    order = first_servers(servers, free_gpus.usable, rack, racks, gang, tier)
    return _fill_in_order(state, memory, free_gpus, order, gang)


@array_kernel
def place_closely(state: State, memory: Memory, free: int, m: int, job: int) -> bool:
    """Rule of `sim.placers.by_room.Closest`; on a server the lowest ids first."""
    free_gpus, gang, at = looked_at(state, memory, free), state.job[job].num_gpus, 0
    for server in nearest_first(
        own_servers(state, m), free_gpus.usable, memory.server_rack, len(state.rack), gang
    ):
        at = fill_by_id(state, memory, free_gpus, server, gang - at, at)
    return bool(at == gang)


@array_kernel
def place_apart(state: State, memory: Memory, free: int, m: int, job: int) -> bool:
    """Rule of `sim.placers.by_room.LeastLoaded`."""
    free_gpus, gang = looked_at(state, memory, free), state.job[job].num_gpus
    servers, tenants = own_servers(state, m), state.gpu["tenants"]
    memory.gpus[:gang] = spread_out(
        servers, memory.first_gpu,
        state.free_gpus.gpu if memory.scalars[0].whole != 0 else free_gpus.gpu, free_gpus.usable,
        tenants, gang,
    )  # fmt: skip
    return bool(gang > 0)  # `choose` has seen that there are as many


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
    """Rule of `sim.placers.by_job.HeavyEdge`."""
    free_gpus, part = looked_at(state, memory, free), (m if free != 0 else 0)
    row = state.job[job]
    if usable_in(free_gpus, part) < row.num_gpus:
        return False
    most_usable_first(state, memory, free_gpus, part, row.num_gpus)
    taken = _taken(state, memory, row.num_gpus)
    if len(taken) > 1:
        _name_by_worker(memory, taken, memory.graphs.number[row.profile, row.num_gpus])
    return True


@kernel
def _name_all(state: State, memory: Memory, m: int) -> None:
    """Write which GPUs are offered to share, of all servers of a partition that could give any."""
    part = state.partition[m]
    for i in range(part.first_own, part.last_own):
        if memory.offer.usable[state.own[i]] > 0:
            tell(memory.routine[NAME], state, memory, state.own[i])


@kernel
def choose(state: State, memory: Memory, free: int, m: int, job: int) -> bool:
    """Write the placer's GPUs for a job of partition `m`, in its order; False: it has to wait.

    `free`: 1 for the GPUs without a tenant, 0 for what is offered.
    """
    placer, number = memory.rule[0].placer, memory.waiter[job].job_class
    free_gpus, part = looked_at(state, memory, free), (m if free != 0 else 0)
    gang, priced = memory.job_class[number].gang, memory.scalars[0].priced != 0
    if usable_in(free_gpus, part) < gang:
        return False
    if placer == FIRST_FIT or (placer == LEAST_INTERFERENCE and not priced):
        lowest_ids(state, memory, free_gpus, part, gang)
    elif placer in RARE:
        if priced and placer in LOOK_AT_GPUS:
            _name_all(state, memory, m)
        return bool(ask(memory.routine[JUDGE], state, memory, free, m, job))
    elif placer in (CONSOLIDATED, PACKED) and fits_compactly(
        free_gpus.tally[part], free_gpus.sizes[part], gang
    ):
        _compact(state, memory, free_gpus, part, gang)
    elif placer == CONSOLIDATED:
        return False
    elif placer == BEST_FIT:
        _best_fit(state, memory, free_gpus, part, gang)
    else:
        most_usable_first(state, memory, free_gpus, part, gang)
    return True
