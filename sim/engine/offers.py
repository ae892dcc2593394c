"""Which GPUs a job may be offered: empty ones, parts of ones, ones to share.

As far as cores, memory and types of servers allow.
"""

from sim.engine.layout import NOBODY, Memory
from sim.jit import kernel
from sim.kernel.layout import Row, State
from sim.kernel.rooms import set_most, set_usable
from sim.physics.slowing import NO_COST, joining_cost
from sim.physics.slowing_tables import seat
from sim.traits import WHOLE_GPU_MILLI

# What is offered to a job.
TIGHT = 0  # GPUs on which the part that it asks for fits beside other parts
ALONE = 1  # these and empty GPUs
SHARED = 2  # GPUs that have room for one more tenant, beside whom it is fast enough


@kernel
def _allowed(kind: Row, where: Row, cpu_milli: int, memory_mib: int) -> int:
    """Workers of a kind for which a server's GPUs and type, these cores and memory are enough."""
    most = where.last_gpu - where.first_gpu
    if where.closed > 0 or (kind.type_mask >> where.gpu_type) & 1 == 0:
        return 0
    if most * kind.cpu_milli > cpu_milli:  # multiplied first: divisions are slow, and few bind
        most = cpu_milli // kind.cpu_milli
    if most * kind.memory_mib > memory_mib:
        most = memory_mib // kind.memory_mib
    return int(most)


@kernel
def workers_now(state: State, memory: Memory, number: int, server: int) -> int:
    """Workers of a kind that a server could take now, were its GPUs empty; 0 while it is away."""
    where = state.server[server]
    return _allowed(memory.kind[number], where, where.cpu_free_milli, where.memory_free_mib)


@kernel
def most_workers(state: State, memory: Memory, number: int, server: int) -> int:
    """Workers of a kind that a server could take if it were empty; 0 while it is away."""
    where = state.server[server]
    return _allowed(memory.kind[number], where, where.cpu_milli, where.memory_mib)


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
    kind, row = memory.kind[number], state.gpu[gpu]
    if mode == SHARED:
        if row.tenants == 0 and kind.gpu_milli <= WHOLE_GPU_MILLI:
            return 1.0
        full = row.tenants >= state.tenant.shape[1]
        if full or row.milli + kind.gpu_milli > state.world[0].gpu_limit_milli:
            return NO_COST
        return _known_joining_cost(state, memory, number, gpu)
    left = WHOLE_GPU_MILLI - row.milli - kind.gpu_milli
    if row.tenants == 0:
        return float(left) if left >= 0 and mode == ALONE else NO_COST
    joins = kind.gpu_milli < WHOLE_GPU_MILLI and row.tenants < state.tenant.shape[1]
    return float(left) if left >= 0 and joins else NO_COST


@kernel
def _leave_cheapest(memory: Memory, first: int, last: int, count: int, most: int) -> int:
    """Leave `most` of a server's usable GPUs, the cheapest, the lowest ids on ties; how many."""
    usable, cost = memory.offer.gpu, memory.offer.cost
    while count > most:
        worst = NOBODY
        for gpu in range(first, last):
            if usable[gpu] and (worst == NOBODY or cost[gpu] >= cost[worst]):
                worst = gpu
        usable[worst] = False
        count -= 1
    return count


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
    return _leave_cheapest(memory, where.first_gpu, where.last_gpu, count, most)


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
        for gpu in range(where.first_gpu, where.last_gpu):
            if offer.gpu[gpu]:
                least = min(least, offer.cost[gpu])
    for i in range(part.first_own, part.last_own):
        where, count = state.server[state.own[i]], 0
        for gpu in range(where.first_gpu, where.last_gpu):
            offer.gpu[gpu] = offer.gpu[gpu] and offer.cost[gpu] == least
            count += offer.gpu[gpu]
        set_usable(offer, 0, state.own[i], count)
