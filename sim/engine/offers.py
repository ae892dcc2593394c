"""Which GPUs a job may be offered: empty ones, parts of ones, ones to share.

As far as cores, memory and types of servers allow.
"""

from sim.engine.layout import NOBODY, Memory
from sim.jit import kernel
from sim.kernel.layout import State
from sim.kernel.rooms import set_most, set_usable
from sim.physics.slowing import NO_COST, joining_cost
from sim.physics.slowing_tables import seat
from sim.room_rules import has_seat, least_cost, leave_at, leave_cheapest, left_over, workers_for
from sim.traits import WHOLE_GPU_MILLI

# What is offered to a job.
TIGHT = 0  # GPUs on which the part that it asks for fits beside other parts
ALONE = 1  # these and empty GPUs
SHARED = 2  # GPUs that have room for one more tenant, beside whom it is fast enough


@kernel
def workers_now(state: State, memory: Memory, number: int, server: int) -> int:
    """Workers of a kind that a server could take now, were its GPUs empty; 0 while it is away."""
    kind, where = memory.kind[number], state.server[server]
    if where.closed > 0:
        return 0
    size = where.last_gpu - where.first_gpu
    return workers_for(kind, size, where.gpu_type, where.cpu_free_milli, where.memory_free_mib)


@kernel
def most_workers(state: State, memory: Memory, number: int, server: int) -> int:
    """Workers of a kind that a server could take if it were empty; 0 while it is away."""
    kind, where = memory.kind[number], state.server[server]
    if where.closed > 0:
        return 0
    size = where.last_gpu - where.first_gpu
    return workers_for(kind, size, where.gpu_type, where.cpu_milli, where.memory_mib)


@kernel
def _joining_cost(state: State, memory: Memory, number: int, gpu: int) -> float:
    """`joining_cost` of one more tenant of a kind."""
    kind, belief, crowd = memory.kind[number], memory.belief, memory.crowd
    last = state.gpu[gpu].tenants
    for k in range(last):
        other = state.tenant[gpu, k]
        profile = memory.kind[memory.waiter[other].kind].profile
        seat(crowd, k, profile, state.job[other].gpu_milli)
    seat(crowd, last, kind.profile, kind.gpu_milli)
    type_, least_speed = memory.server_type[state.gpu[gpu].server], memory.rule[0].least_speed
    return float(joining_cost(belief.slowing, belief.feasible, type_, crowd, last, least_speed))


@kernel
def _known_joining_cost(state: State, memory: Memory, number: int, gpu: int) -> float:
    """The same, remembered for kinds that ask for whole GPUs until the tenants are others."""
    kind, version = memory.kind[number], state.gpu[gpu].version
    if kind.gpu_milli != WHOLE_GPU_MILLI:
        return _joining_cost(state, memory, number, gpu)
    if memory.joined_at[kind.profile, gpu] != version:
        memory.joined_at[kind.profile, gpu] = version
        memory.joining[kind.profile, gpu] = _joining_cost(state, memory, number, gpu)
    return float(memory.joining[kind.profile, gpu])


@kernel
def _cost_of(state: State, memory: Memory, number: int, gpu: int, mode: int) -> float:
    """What a GPU costs in this mode: where parts are offered, thousandths left over; or NO_COST."""
    row, asked, most = state.gpu[gpu], memory.kind[number].gpu_milli, state.tenant.shape[1]
    if mode != SHARED:
        return left_over(row.tenants, most, row.milli, asked, mode == TIGHT)
    if row.tenants == 0 and asked <= WHOLE_GPU_MILLI:
        return 1.0
    if not has_seat(row.tenants, most, row.milli, asked, state.world[0].gpu_limit_milli):
        return NO_COST
    return _known_joining_cost(state, memory, number, gpu)


@kernel
def _clear(state: State, memory: Memory, m: int) -> None:
    """Begin an offer of partition `m`: servers of another are no part of it."""
    before, offer = memory.game[0].room_of, memory.offer
    if before not in (m, NOBODY):
        for i in range(state.partition[before].first_own, state.partition[before].last_own):
            server = state.own[i]
            for gpu in range(state.server[server].first_gpu, state.server[server].last_gpu):
                offer.gpu[gpu] = False
            set_usable(offer, 0, server, 0)
            set_most(offer, 0, server, 0)
    memory.game[0].room_of = m


@kernel
def _offer_any(state: State, memory: Memory, server: int, most: int, number: int, mode: int) -> int:
    """Offer GPUs of a server by what they cost in this mode; how many."""
    offer, where, count = memory.offer, state.server[server], 0
    for gpu in range(where.first_gpu, where.last_gpu):
        cost = _cost_of(state, memory, number, gpu, mode) if most > 0 else NO_COST
        offer.gpu[gpu] = cost < NO_COST
        offer.cost[gpu] = cost
        count += cost < NO_COST
    return leave_cheapest(offer.gpu, offer.cost, where.first_gpu, where.last_gpu, count, most)


@kernel
def make_offer(state: State, memory: Memory, m: int, number: int, mode: int) -> None:
    """Fill `memory.offer` with what partition `m` offers a job of a kind in this mode.

    Where it is empty GPUs as far as a server has cores and memory, their number alone is written:
    which they are the state knows (`game.whole`).
    """
    _clear(state, memory, m)
    offer, part, game = memory.offer, state.partition[m], memory.game[0]
    whole = mode == ALONE and memory.kind[number].gpu_milli == WHOLE_GPU_MILLI
    game.priced, game.whole = int(mode == SHARED), int(whole)
    for i in range(part.first_own, part.last_own):
        server = state.own[i]
        most = workers_now(state, memory, number, server)
        if whole:
            count = min(state.rooms.usable[server], most)
        else:
            count = _offer_any(state, memory, server, most, number, mode)
        set_usable(offer, 0, server, count)
        set_most(offer, 0, server, most_workers(state, memory, number, server))
    if mode == TIGHT and memory.kind[number].gang == 1:
        _leave_tightest(state, memory, m)
    if mode == ALONE and not whole:
        for i in range(part.first_own, part.last_own):
            where = state.server[state.own[i]]
            for gpu in range(where.first_gpu, where.last_gpu):
                offer.cost[gpu] = 1.0


@kernel
def _leave_tightest(state: State, memory: Memory, m: int) -> None:
    """Leave the GPUs with least left over."""
    offer, part, least = memory.offer, state.partition[m], NO_COST
    for i in range(part.first_own, part.last_own):
        where = state.server[state.own[i]]
        least = min(least, least_cost(offer.gpu, offer.cost, where.first_gpu, where.last_gpu))
    for i in range(part.first_own, part.last_own):
        where = state.server[state.own[i]]
        count = leave_at(offer.gpu, offer.cost, where.first_gpu, where.last_gpu, least)
        set_usable(offer, 0, state.own[i], count)
