"""Compiled placers that search: `compact_wait` and least workload first, called by address.

`compact_wait`: the cheapest of several placements, if not spread too far. What is looked at is
`sim.placers.placement_search`'s. Where one server has part the answer is mostly plain: nothing is
faster than that server, whatever is spread communicates more.

`lwf`: GPUs, or servers, by the predicted work left on them (`sim.placers.by_job`). A placer looks
at work left as the decision began, and at tenants as they are by now. So what a GPU had is noted
before its tenants change (`note_workload`); of all others it is what they have.
"""

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.engine.layout import NOBODY, Memory
from sim.engine.placing import fill_by_id, looked_at, lowest_ids, own_servers
from sim.jit import array_kernel, kernel
from sim.kernel.free_gpus import NONE, FreeGpus, next_server, usable_in
from sim.kernel.layout import State
from sim.placers.filling import workload_s
from sim.placers.placement_search import (
    Law,
    Offer,
    Site,
    cheapest_placement,
    comm_on_one_s,
    least_comm_s,
    least_spread_s,
)
from sim.summing import block_sum, mean


@array_kernel
def _usable_by_cost(state: State, memory: Memory, free_gpus: FreeGpus, servers: IntArray) -> Offer:
    """Usable GPUs by server, on each the cheapest first, then by id."""
    first = np.zeros(len(free_gpus.usable) + 1, dtype=np.int64)
    for server in servers:  # others' servers keep 0, so that their ranges are empty
        first[server + 1] = free_gpus.usable[server]
    for server in range(len(free_gpus.usable)):  # sums, in place: where each server's GPUs begin
        first[server + 1] += first[server]
    count = first[len(first) - 1]
    gpus, cost = np.empty(count, dtype=np.int64), np.empty(count)
    usable, priced = (
        state.free_gpus.gpu if memory.scalars[0].whole != 0 else free_gpus.gpu,
        memory.scalars[0].priced != 0,
    )
    for server in servers:  # each fills its own range, so no GPUs of two servers are compared
        end = first[server]
        # Ids ascend, so of GPUs that cost the same the lowest stands first.
        for gpu in range(state.server[server].first_gpu, state.server[server].last_gpu):
            if not usable[gpu] or end == first[server + 1]:
                continue
            at, mine = end, free_gpus.cost[gpu] if priced else 1.0
            while at > first[server] and cost[at - 1] > mine:  # insertion: a server has few GPUs
                gpus[at], cost[at] = gpus[at - 1], cost[at - 1]
                at -= 1
            gpus[at], cost[at] = gpu, mine
            end += 1
    return Offer(servers, free_gpus.usable, first, gpus, cost)


@kernel
def _all_free(free_gpus: FreeGpus, part: int) -> bool:
    """Whether every server could give no more if it were empty."""
    most = 0
    for size in range(1, free_gpus.sizes.shape[1]):
        most += size * free_gpus.sizes[part, size]
    return usable_in(free_gpus, part) == most


@array_kernel
def _floor_s(state: State, memory: Memory, m: int, profile: int, gang: int, law: Law) -> float:
    """No placement over several servers takes less, on GPUs that nobody else uses."""
    known = memory.compact
    if np.isnan(known.fastest_s[m, profile]):
        own = own_servers(state, m)
        known.fastest_s[m, profile] = np.inf
        for server in own:  # servers that are away, too: a floor may be too low, never too high
            own_s = memory.belief.compute_s[profile, server]
            known.fastest_s[m, profile] = min(known.fastest_s[m, profile], own_s)
    if np.isnan(known.spread_s[profile, gang]):
        known.spread_s[profile, gang] = least_spread_s(gang, law)
    return float(known.fastest_s[m, profile] + known.spread_s[profile, gang])


@kernel
def _fastest_with_room(
    free_gpus: FreeGpus, part: int, gang: int, compute_s: FloatArray, fastest_s: float
) -> int:  # fmt: skip
    """The fastest server with room for all, the tightest on ties; NONE if there is none."""
    best = NONE
    for usable in range(gang, free_gpus.tally.shape[1] - 1):  # tightest first: on ties it stays
        server = next_server(free_gpus, part, usable, 0)
        while server != NONE:  # lowest index first; left where no server can be faster
            if best == NONE or compute_s[server] < compute_s[best]:
                best = server
            if compute_s[best] <= fastest_s:
                return best
            server = next_server(free_gpus, part, usable, server + 1)
    return best


@kernel
def _law(memory: Memory, profile: int) -> Law:
    return Law(memory.belief.network, profile)


@array_kernel
def _site(memory: Memory, profile: int) -> Site:
    compute_s = memory.belief.compute_s[profile]
    return Site(compute_s, memory.server_rack, memory.nic_jobs, memory.uplink_jobs)


@array_kernel
def _least_comm_s(state: State, memory: Memory, free_gpus: FreeGpus, m: int, number: int) -> float:
    """Communication of the most compact place there could be; remembered while servers stay."""
    class_, known = memory.job_class[number], memory.compact.least_s
    least_s = known[m, class_.profile, class_.gang]
    if class_.picky == 0 and not np.isnan(least_s):
        return float(least_s)
    site, law = _site(memory, class_.profile), _law(memory, class_.profile)
    least_s = least_comm_s(class_.gang, own_servers(state, m).copy(), free_gpus.most, site, law)
    # What servers could ever give differs from class to class, and where they come and go.
    if class_.picky == 0 and len(state.outages) == 0:
        known[m, class_.profile, class_.gang] = least_s
    return float(least_s)


@array_kernel
def place_compactly(state: State, memory: Memory, free: int, m: int, job: int) -> bool:
    """Rule of `sim.placers.by_job`; called by address where that is the placer.

    `free`: 1 for the GPUs without a tenant, 0 for what is offered.
    """
    number = memory.waiter[job].job_class
    free_gpus, part = looked_at(state, memory, free), (m if free != 0 else 0)
    gang, profile = memory.job_class[number].gang, memory.job_class[number].profile
    site, law = _site(memory, profile), _law(memory, profile)
    least_s = _least_comm_s(state, memory, free_gpus, m, number)
    limit = np.inf if _all_free(free_gpus, part) else memory.rule[0].most_slowdown
    floor_s = -np.inf
    if memory.scalars[0].priced == 0:
        floor_s = _floor_s(state, memory, m, profile, gang, law)
        fastest_s = memory.compact.fastest_s[m, profile]
        server = _fastest_with_room(free_gpus, part, gang, site.compute_s, fastest_s)
        if server != NONE:
            own_s, comm_s = site.compute_s[server], comm_on_one_s(gang, law)
            within = own_s + comm_s <= limit * (own_s + least_s)
            if within and own_s + comm_s <= floor_s:
                return bool(fill_by_id(state, memory, free_gpus, server, gang, 0) == gang)
    offer = _usable_by_cost(state, memory, free_gpus, own_servers(state, m).copy())
    gpus = cheapest_placement(gang, offer, free_gpus.most, site, law, least_s, limit, floor_s)
    for count in range(len(gpus)):  # by id
        at = count
        while at > 0 and memory.gpus[at - 1] > gpus[count]:  # NumPy's sort takes long to compile
            memory.gpus[at] = memory.gpus[at - 1]
            at -= 1
        memory.gpus[at] = gpus[count]
    return bool(len(gpus) == gang)


@kernel
def _left_s(state: State, memory: Memory, job: int) -> float:
    """Predicted work left of a job that has run since the decision began."""
    row, now_s = state.job[job], state.world[0].now_s
    done_s = row.progress_s + row.rate * max(0.0, now_s - row.rated_s)
    return float(max(memory.waiter[job].estimate_s - done_s, 0.0))


@kernel
def _tenants_left_s(state: State, memory: Memory, gpu: int) -> float:
    """Work left of a GPU's tenants, added up as Python does: over a row with empty entries."""
    tenants, left_s = state.gpu[gpu].tenants, memory.workload.left_s
    if tenants == 0:
        return 0.0
    if tenants == 1:
        return _left_s(state, memory, state.tenant[gpu, 0])
    left_s[:] = 0.0
    for k in range(tenants):  # in order of start; places behind the last tenant stay 0
        left_s[k] = _left_s(state, memory, state.tenant[gpu, k])
    return block_sum(left_s, 0, len(left_s))


@kernel
def note_workload(state: State, memory: Memory, gpu: int) -> None:
    """What a GPU has whose tenants are about to change, if they are still the decision's first."""
    known, decision = memory.workload, memory.scalars[0].decisions
    if known.noted_in[gpu] != decision:
        known.noted_in[gpu] = decision
        known.tenants[gpu] = state.gpu[gpu].tenants
        known.before_s[gpu] = _tenants_left_s(state, memory, gpu)


@kernel
def _workload_s(state: State, memory: Memory, gpu: int) -> float:
    known = memory.workload
    if known.noted_in[gpu] != memory.scalars[0].decisions:
        return _tenants_left_s(state, memory, gpu)
    before, now = known.tenants[gpu], state.gpu[gpu].tenants
    return workload_s(known.before_s[gpu], before, now, memory.scalars[0].waiting_s)


@array_kernel
def _note_waiting(state: State, memory: Memory, m: int, job: int) -> None:
    """Mean work left of those who wait, as this walk through a queue begins."""
    scalars, world = memory.scalars[0], state.world[0]
    if scalars.waiting_in == scalars.pass_:
        return
    scalars.waiting_in = scalars.pass_
    takes = state.job[job].partition != m
    left_s, count = np.empty(world.num_queued), 0
    # In order of rows: it decides how the mean is rounded.
    for at in range(world.queue_first, world.queue_first + world.num_queued):
        row, waiter = state.job[state.queue[at]], memory.waiter[state.queue[at]]
        if (row.partition == m) == takes or (takes and row.forwards >= world.max_forwards):
            continue
        if waiter.stopped_in != scalars.decisions:
            left_s[count] = max(waiter.estimate_s - row.seen_progress_s, 0.0)
            count += 1
    scalars.waiting_s = mean(left_s[:count])


@kernel
def _keep_least(state: State, memory: Memory, gpu: int, first: int, count: int, most: int) -> int:
    """Insert a GPU into `memory.gpus[first : first + count]` by workload, the last falls out.

    Of equal ones who came first stands first. How many there are then, at most `most`.
    """
    gpus, load_s = memory.gpus, memory.workload.load_s
    mine = _workload_s(state, memory, gpu)
    load_s[gpu] = mine
    if count == most and load_s[gpus[first + count - 1]] <= mine:
        return count
    at = first + min(count, most - 1)
    while at > first and load_s[gpus[at - 1]] > mine:  # from the end: the dearest may fall out
        gpus[at] = gpus[at - 1]
        at -= 1
    gpus[at] = gpu
    return min(count + 1, most)


@kernel
def _take_least(
    state: State, memory: Memory, server: int, first: int, count: int, most: int
) -> int:  # fmt: skip
    """Of a server's offered GPUs and `count` before, the `most` with least workload; how many."""
    for gpu in range(state.server[server].first_gpu, state.server[server].last_gpu):
        if memory.offer.gpu[gpu]:
            count = _keep_least(state, memory, gpu, first, count, most)
    return count


@kernel
def _fill_least(
    state: State, memory: Memory, free: int, server: int, wanted: int, at: int
) -> int:  # fmt: skip
    """Write up to `wanted` usable GPUs of a server, least workload first; where to write next."""
    if free != 0 or memory.scalars[0].whole != 0:  # they are empty, and have none
        free_gpus = looked_at(state, memory, free)
        return fill_by_id(state, memory, free_gpus, server, wanted, at)
    most = min(wanted, memory.offer.usable[server])
    return at + _take_least(state, memory, server, at, 0, most)


@kernel
def _total_s(state: State, memory: Memory, server: int, most_s: float) -> float:
    """Workload of a server; some number above `most_s` where it is more than that."""
    total_s = 0.0
    for gpu in range(state.server[server].first_gpu, state.server[server].last_gpu):
        if state.gpu[gpu].tenants > 0:
            total_s += _workload_s(state, memory, gpu)
            if total_s > most_s:
                break
    return total_s


@kernel
def _least_with_room(
    state: State, memory: Memory, free_gpus: FreeGpus, part: int, gang: int
) -> int:
    """The server with room for all that has least work; NONE if there is none."""
    best, best_s = NONE, np.inf
    for usable in range(
        free_gpus.tally.shape[1] - 2, gang - 1, -1
    ):  # empty ones early: they have 0
        server = next_server(free_gpus, part, usable, 0)
        while server != NONE:  # all of them: the level does not tell how much work there is
            total_s = _total_s(state, memory, server, best_s)
            if total_s < best_s or (total_s == best_s and server < best) or best == NONE:
                best, best_s = server, total_s
            server = next_server(free_gpus, part, usable, server + 1)
    return best


@array_kernel
def _fill_servers(
    state: State, memory: Memory, free_gpus: FreeGpus, part: int, free: int, gang: int
) -> None:  # fmt: skip
    """Servers by workload, least first, until the gang is whole."""
    total_s, servers, count = np.empty(len(free_gpus.usable)), memory.workload.server, 0
    server = next_server(free_gpus, part, 0, 0)
    while server != NONE:  # ascending: on ties of workload the lowest index is found first
        total_s[count], servers[count] = _total_s(state, memory, server, np.inf), server
        count += 1
        server = next_server(free_gpus, part, 0, server + 1)
    at = 0
    while at < gang:  # no sort: only as many servers are searched for as the gang needs
        best = NOBODY
        for i in range(count):  # strictly less, so that the lowest server goes first on ties
            if servers[i] != NOBODY and (best == NOBODY or total_s[i] < total_s[best]):
                best = i
        at = _fill_least(state, memory, free, servers[best], gang - at, at)
        servers[best] = NOBODY


@array_kernel
def place_by_workload(state: State, memory: Memory, free: int, m: int, job: int) -> bool:
    """Rule of `sim.placers.by_job`; called by address where that is the placer.

    `free`: 1 for the GPUs without a tenant, 0 for what is offered.
    """
    free_gpus, part = looked_at(state, memory, free), (m if free != 0 else 0)
    gang, whole = state.job[job].num_gpus, free != 0 or memory.scalars[0].whole != 0
    if usable_in(free_gpus, part) < gang:
        return False
    _note_waiting(state, memory, m, job)
    if gang > memory.rule[0].kappa:
        server = _least_with_room(state, memory, free_gpus, part, gang)
        if server != NONE:
            _fill_least(state, memory, free, server, gang, 0)
        else:
            _fill_servers(state, memory, free_gpus, part, free, gang)
    elif whole:
        lowest_ids(state, memory, free_gpus, part, gang)
    else:
        count, server = 0, next_server(free_gpus, part, 0, 0)
        while server != NONE:  # all servers: a small gang need not stay together
            count = _take_least(state, memory, server, 0, count, gang)
            server = next_server(free_gpus, part, 0, server + 1)
    return True
