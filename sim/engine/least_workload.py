"""`lwf`: GPUs, or servers, by the predicted work left on them (`sim.placers.by_job`).

A placer looks at work left as the decision began, and at tenants as they are by now. So what a GPU
had is noted before its tenants change (`note_workload`); of all others it is what they have.
"""

import numpy as np

from sim.engine.layout import NOBODY, Memory
from sim.engine.placing import fill_by_id, lowest_ids
from sim.jit import array_kernel, kernel
from sim.kernel.layout import State
from sim.kernel.rooms import NONE, Rooms, next_server, usable_in
from sim.placing.filling import workload_s
from sim.summing import block_sum, mean


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
    for k in range(tenants):
        left_s[k] = _left_s(state, memory, state.tenant[gpu, k])
    return block_sum(left_s, 0, len(left_s))


@kernel
def note_workload(state: State, memory: Memory, gpu: int) -> None:
    """What a GPU has whose tenants are about to change, if they are still the decision's first."""
    known, decision = memory.workload, memory.game[0].decisions
    if known.noted_in[gpu] != decision:
        known.noted_in[gpu] = decision
        known.tenants[gpu] = state.gpu[gpu].tenants
        known.before_s[gpu] = _tenants_left_s(state, memory, gpu)


@kernel
def _workload_s(state: State, memory: Memory, gpu: int) -> float:
    known = memory.workload
    if known.noted_in[gpu] != memory.game[0].decisions:
        return _tenants_left_s(state, memory, gpu)
    before, now = known.tenants[gpu], state.gpu[gpu].tenants
    return workload_s(known.before_s[gpu], before, now, memory.game[0].waiting_s)


@array_kernel
def _note_waiting(state: State, memory: Memory, m: int, job: int) -> None:
    """Mean work left of those who wait, as this walk through a queue begins."""
    game, world = memory.game[0], state.world[0]
    if game.waiting_in == game.pass_:
        return
    game.waiting_in = game.pass_
    takes = state.job[job].partition != m
    left_s, count = np.empty(world.num_queued), 0
    for at in range(world.queue_first, world.queue_first + world.num_queued):
        row, waiter = state.job[state.queue[at]], memory.waiter[state.queue[at]]
        if (row.partition == m) == takes or (takes and row.forwards >= world.max_forwards):
            continue
        if waiter.stopped_in != game.decisions:
            left_s[count] = max(waiter.estimate_s - row.seen_progress_s, 0.0)
            count += 1
    game.waiting_s = mean(left_s[:count])


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
    while at > first and load_s[gpus[at - 1]] > mine:
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
    if free != 0 or memory.game[0].whole != 0:  # they are empty, and have none
        rooms = state.rooms if free != 0 else memory.offer
        return fill_by_id(state, memory, rooms, server, wanted, at)
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
def _least_with_room(state: State, memory: Memory, rooms: Rooms, room: int, gang: int) -> int:
    """The server with room for all that has least work; NONE if there is none."""
    best, best_s = NONE, np.inf
    for usable in range(rooms.tally.shape[1] - 2, gang - 1, -1):  # empty ones early: they have 0
        server = next_server(rooms, room, usable, 0)
        while server != NONE:
            total_s = _total_s(state, memory, server, best_s)
            if total_s < best_s or (total_s == best_s and server < best) or best == NONE:
                best, best_s = server, total_s
            server = next_server(rooms, room, usable, server + 1)
    return best


@array_kernel
def _fill_servers(
    state: State, memory: Memory, rooms: Rooms, room: int, free: int, gang: int
) -> None:  # fmt: skip
    """Servers by workload, least first, until the gang is whole."""
    total_s, servers, count = np.empty(len(rooms.usable)), memory.workload.server, 0
    server = next_server(rooms, room, 0, 0)
    while server != NONE:
        total_s[count], servers[count] = _total_s(state, memory, server, np.inf), server
        count += 1
        server = next_server(rooms, room, 0, server + 1)
    at = 0
    while at < gang:
        best = NOBODY
        for i in range(count):
            if servers[i] != NOBODY and (best == NOBODY or total_s[i] < total_s[best]):
                best = i
        at = _fill_least(state, memory, free, servers[best], gang - at, at)
        servers[best] = NOBODY


@array_kernel
def place_by_workload(state: State, memory: Memory, free: int, m: int, job: int) -> bool:
    """Rule of `sim.placers.by_job`; called by address where that is the placer.

    `free`: 1 for the GPUs without a tenant, 0 for what is offered.
    """
    rooms, room = (state.rooms if free != 0 else memory.offer), (m if free != 0 else 0)
    gang, whole = state.job[job].num_gpus, free != 0 or memory.game[0].whole != 0
    if usable_in(rooms, room) < gang:
        return False
    _note_waiting(state, memory, m, job)
    if gang > memory.rule[0].kappa:
        server = _least_with_room(state, memory, rooms, room, gang)
        if server != NONE:
            _fill_least(state, memory, free, server, gang, 0)
        else:
            _fill_servers(state, memory, rooms, room, free, gang)
    elif whole:
        lowest_ids(state, memory, rooms, room, gang)
    else:
        count, server = 0, next_server(rooms, room, 0, 0)
        while server != NONE:
            count = _take_least(state, memory, server, 0, count, gang)
            server = next_server(rooms, room, 0, server + 1)
    return True
