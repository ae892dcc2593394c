"""Which GPUs a job may be offered, and orders as they are carried out: on the state, at once.

Offered are empty GPUs, parts of ones, ones to share, as far as cores, memory and types of servers
allow. The log tells a decision as preemptions, forwards, starts; what was done in another order is
sorted when the decision is made (`close_decision`).
"""

import numpy as np

from sim.arrays import IntArray
from sim.codes import ALIKE, COMPACT_WAIT, LEAST_INTERFERENCE, NEVER
from sim.compiling import call_python
from sim.engine.layout import NOBODY, NOTE, PYTHON_PLACE, RAISED, Memory
from sim.engine.placing import choose
from sim.engine.queues import forget_rank
from sim.handle import tell
from sim.jit import array_kernel, kernel
from sim.jobs import WHOLE_GPU_MILLI
from sim.kernel.allocation import leave_tightest, parts_on, sharing_cost, workers_on
from sim.kernel.free_gpus import leave_cheapest, set_most, set_usable
from sim.kernel.layout import State
from sim.kernel.rates import rerate
from sim.kernel.records import sort_orders
from sim.kernel.step import LEGAL, check_gpus, hand_over, preempt, start_on
from sim.physics.laws import NO_COST

# What is offered to a job.
TIGHT = 0  # GPUs on which the part that it asks for fits beside other parts
ALONE = 1  # these and empty GPUs
SHARED = 2  # GPUs that have room for one more tenant, beside whom it is fast enough

# Who is on a GPU, behind the profiles that one tenant may have that holds it whole.
EMPTY, FULL, OTHERS = range(3)
LOOK_AT_COSTS = (LEAST_INTERFERENCE, COMPACT_WAIT)  # placers
UNKNOWN = 2  # in `Memory.joins`


def joins_unknown(types: int, profiles: int) -> IntArray:
    """`Memory.joins` before anybody has asked."""
    joins = np.full((types, profiles, profiles + 3), UNKNOWN, dtype=np.int64)
    joins[:, :, profiles + EMPTY], joins[:, :, profiles + FULL] = 1, 0
    return joins


@kernel
def _sharing_cost(state: State, memory: Memory, number: int, gpu: int) -> float:
    """What a GPU that may have tenants costs one of a class; NO_COST: it has no room for it."""
    class_, tenants = memory.job_class[number], memory.tenants
    limit_milli = state.world[0].gpu_limit_milli
    belief, least_speed = memory.belief, memory.rule[0].least_speed
    slowing, feasible = belief.slowing, belief.feasible
    return sharing_cost(state, class_, gpu, slowing, feasible, tenants, limit_milli, least_speed)


@kernel
def _known_sharing_cost(state: State, memory: Memory, number: int, gpu: int) -> float:
    """The same, remembered for classes that ask for whole GPUs until the tenants are others."""
    class_, version = memory.job_class[number], state.gpu[gpu].version
    if class_.gpu_milli != WHOLE_GPU_MILLI:
        return _sharing_cost(state, memory, number, gpu)
    if memory.joined_at[class_.profile, gpu] != version:
        memory.joined_at[class_.profile, gpu] = version
        memory.joining[class_.profile, gpu] = _sharing_cost(state, memory, number, gpu)
    return float(memory.joining[class_.profile, gpu])


@kernel
def _see_tenants(state: State, memory: Memory, server: int) -> None:
    """Write who is on the GPUs of a server, if that has changed since the last look."""
    where, profiles = state.server[server], memory.joins.shape[1]
    if memory.seen_at[server] == where.version:
        return
    memory.seen_at[server] = where.version
    for gpu in range(where.first_gpu, where.last_gpu):  # all: a version tells of the whole server
        row, who = state.gpu[gpu], profiles + OTHERS
        if row.tenants == 0:
            who = profiles + EMPTY
        elif row.tenants >= state.tenant.shape[1]:
            who = profiles + FULL
        elif row.tenants == 1 and row.milli == WHOLE_GPU_MILLI:
            limited = state.world[0].gpu_limit_milli < 2 * WHOLE_GPU_MILLI
            number = memory.waiter[state.tenant[gpu, 0]].job_class
            who = profiles + FULL if limited else memory.job_class[number].profile
        memory.who[gpu] = who


@kernel
def _ask_joining(state: State, memory: Memory, number: int, gpu: int) -> int:
    """1 if a class may join the tenants of a GPU; remembered where it is one and both are whole."""
    joins, who = memory.joins, memory.who[gpu]
    may = int(_known_sharing_cost(state, memory, number, gpu) < NO_COST)
    if who < joins.shape[1]:
        type_ = memory.server_type[state.gpu[gpu].server]
        joins[type_, memory.job_class[number].profile, who] = may
    return may


@kernel
def _count_anew(state: State, memory: Memory, number: int, server: int) -> int:
    """GPUs of a server that one of a class may take or join."""
    class_, where, count = memory.job_class[number], state.server[server], 0
    if class_.gpu_milli != WHOLE_GPU_MILLI:
        for gpu in range(where.first_gpu, where.last_gpu):  # of parts nothing is remembered
            count += _sharing_cost(state, memory, number, gpu) < NO_COST
        return count
    _see_tenants(state, memory, server)
    joins, who = memory.joins, memory.who
    type_, profile = memory.server_type[server], class_.profile
    for gpu in range(where.first_gpu, where.last_gpu):  # mostly looked up: pairs come up again
        may = joins[type_, profile, who[gpu]]
        if may == UNKNOWN:
            may = _ask_joining(state, memory, number, gpu)
        count += may
    memory.counted_at[class_.like, server] = where.version
    memory.joinable[class_.like, server] = count
    return count


@kernel
def _offer_sharing(state: State, memory: Memory, m: int, number: int) -> None:
    """How many GPUs each server has to share, for a class that needs nothing but whole GPUs."""
    part, offer, like = state.partition[m], memory.offer, memory.job_class[number].like
    counted_at, joinable = memory.counted_at[like], memory.joinable[like]
    for i in range(part.first_own, part.last_own):  # all: the last offer may be another class's
        server = state.own[i]
        most, count = state.free_gpus.most[server], joinable[server]
        if counted_at[server] != state.server[server].version:
            count = _count_anew(state, memory, number, server)
        if most == 0:
            count = 0
        if offer.usable[server] != count:
            set_usable(offer, 0, server, count)
        if offer.most[server] != most:
            set_most(offer, 0, server, most)


@kernel
def _clear(state: State, memory: Memory, m: int) -> None:
    """Begin an offer of partition `m`: servers of another are no part of it."""
    before, offer = memory.scalars[0].room_of, memory.offer
    if before not in (m, NOBODY):
        # Only there can anything be other than 0: the other servers need no visit.
        for i in range(state.partition[before].first_own, state.partition[before].last_own):
            server = state.own[i]
            # None stays marked on a server that offers nothing.
            for gpu in range(state.server[server].first_gpu, state.server[server].last_gpu):
                offer.gpu[gpu] = False
            set_usable(offer, 0, server, 0)
            set_most(offer, 0, server, 0)
    memory.scalars[0].room_of = m


@kernel
def _offer_shared(state: State, memory: Memory, server: int, most: int, number: int) -> int:
    """Offer GPUs of a server to share, at most so many; how many."""
    offer, where, count = memory.offer, state.server[server], 0
    for gpu in range(where.first_gpu, where.last_gpu):
        cost = _known_sharing_cost(state, memory, number, gpu) if most > 0 else NO_COST
        offer.gpu[gpu] = cost < NO_COST
        offer.cost[gpu] = cost
        count += cost < NO_COST
    return leave_cheapest(offer.gpu, offer.cost, where.first_gpu, where.last_gpu, count, most)


@kernel
def make_offer(state: State, memory: Memory, m: int, number: int, mode: int) -> None:
    """Fill `memory.offer` with what partition `m` offers a job of a class in this mode.

    Of empty GPUs as far as a server has cores and memory the number alone is written: which they
    are the state knows (`scalars.whole`). So it is of GPUs to share (`scalars.priced`): who looks
    at those of a server has to `name_shared` them first.
    """
    _clear(state, memory, m)
    offer, part, scalars = memory.offer, state.partition[m], memory.scalars[0]
    whole = mode == ALONE and memory.job_class[number].gpu_milli == WHOLE_GPU_MILLI
    scalars.priced, scalars.whole, scalars.offered = int(mode == SHARED), int(whole), number
    if mode == SHARED and memory.job_class[number].picky == 0:
        _offer_sharing(state, memory, m, number)
        return
    for i in range(part.first_own, part.last_own):  # cores and memory bound each server's workers
        server = state.own[i]
        most = workers_on(state, memory.job_class[number], server, False)
        if whole:
            count = min(state.free_gpus.usable[server], most)
        elif mode == SHARED:
            count = min(_count_anew(state, memory, number, server), most) if most > 0 else 0
        else:
            class_, tight = memory.job_class[number], mode == TIGHT
            count = parts_on(state, class_, server, tight, offer.gpu, offer.cost)
        set_usable(offer, 0, server, count)
        set_most(offer, 0, server, workers_on(state, memory.job_class[number], server, True))
    if mode == TIGHT and memory.job_class[number].gang == 1:
        _leave_tightest(state, memory, m)
    if mode == ALONE and not whole:
        for i in range(part.first_own, part.last_own):  # what would be left over slows nobody
            where = state.server[state.own[i]]
            for gpu in range(where.first_gpu, where.last_gpu):  # all: costs of others are not read
                offer.cost[gpu] = 1.0


@kernel
def name_shared(state: State, memory: Memory, server: int) -> None:
    """Write which GPUs of a server are offered to share, and what each costs.

    A class that needs nothing but whole GPUs joins where it was counted (`_offer_sharing`); what
    that costs is worked out where the placer looks at it.
    """
    number, placer = memory.scalars[0].offered, memory.rule[0].placer
    class_, where, joins = memory.job_class[number], state.server[server], memory.joins
    if class_.picky == 0 and placer not in LOOK_AT_COSTS:
        for gpu in range(where.first_gpu, where.last_gpu):  # another of its like may have counted
            may = joins[memory.server_type[server], class_.profile, memory.who[gpu]]
            if may == UNKNOWN:
                may = _ask_joining(state, memory, number, gpu)
            memory.offer.gpu[gpu] = may == 1
        return
    _offer_shared(state, memory, server, workers_on(state, class_, server, False), number)


@kernel
def _leave_tightest(state: State, memory: Memory, m: int) -> None:
    """Leave the GPUs with least left over."""
    part, offer = state.partition[m], memory.offer
    servers = state.own[part.first_own : part.last_own]
    leave_tightest(state, servers, offer.gpu, offer.cost)
    for server in servers:  # counted anew: who stays was known only after the last server
        where, count = state.server[server], 0
        for gpu in range(where.first_gpu, where.last_gpu):  # `leave_at` marks, it does not count
            count += offer.gpu[gpu]
        set_usable(offer, 0, server, count)


@kernel
def place_on_empty(state: State, memory: Memory, m: int, job: int) -> bool:
    """GPUs for a job that any empty ones are good for."""
    memory.scalars[0].priced, memory.scalars[0].whole = 0, 1
    return choose(state, memory, 1, m, job)


@array_kernel
def _place_alone(state: State, memory: Memory, m: int, job: int) -> bool:
    """GPUs that the job has to itself, or the part of one that it asks for.

    A part goes where least is left over, and opens an empty GPU only where no other has room.
    """
    number = memory.waiter[job].job_class
    if memory.job_class[number].picky == 0:
        return place_on_empty(state, memory, m, job)
    if memory.job_class[number].gpu_milli < WHOLE_GPU_MILLI:
        make_offer(state, memory, m, number, TIGHT)
        if choose(state, memory, 0, m, job):
            return True
    make_offer(state, memory, m, number, ALONE)
    return choose(state, memory, 0, m, job)


@array_kernel
def place(state: State, memory: Memory, m: int, job: int) -> bool:
    """Write GPUs of partition `m` for a job under placer and sharing rule; False: it waits."""
    sharing = memory.rule[0].sharing
    if sharing != ALIKE and _place_alone(state, memory, m, job):
        return True
    if sharing == NEVER:
        return False
    make_offer(state, memory, m, memory.waiter[job].job_class, SHARED)
    return choose(state, memory, 0, m, job)


@array_kernel
def place_by_python(state: State, memory: Memory, m: int, job: int) -> bool:  # noqa: ARG001
    """The same, where placer or sharing rule is a Python object."""
    if memory.scalars[0].verdict != LEGAL:
        return False
    found = call_python(memory.routine[PYTHON_PLACE], m, job)
    if found == RAISED:
        memory.scalars[0].verdict = RAISED
    return found == 1


@kernel
def _is_legal(state: State, memory: Memory, job: int) -> bool:
    """Whether the chosen GPUs take the job; else why not is written down."""
    verdict, gpu = check_gpus(state, job, memory.gpus, state.job[job].num_gpus)
    if verdict != LEGAL:
        memory.scalars[0].verdict = verdict
        memory.scalars[0].job = job
        memory.scalars[0].what = gpu
    return bool(verdict == LEGAL)


@kernel
def start(state: State, memory: Memory, job: int) -> None:
    """Start a waiting job of this partition on the chosen GPUs."""
    if memory.rule[0].checks != 0 and not _is_legal(state, memory, job):
        return
    gang = state.job[job].num_gpus
    if memory.routine[NOTE] != 0:
        for i in range(gang):  # before the start: NOTE looks at the tenants until now
            tell(memory.routine[NOTE], state, memory, memory.gpus[i])
    start_on(state, job, memory.gpus, gang, np.inf)
    memory.waiter[job].started_in = memory.scalars[0].decisions
    forget_rank(memory, job)


@kernel
def forward(state: State, memory: Memory, job: int, partition: int) -> None:
    """Hand a waiting job to another partition."""
    hand_over(state, job, partition)
    memory.scalars[0].mixed = 1


@kernel
def note_leaving(state: State, memory: Memory, job: int) -> None:
    """Tell who wants to know that a running job is about to leave its GPUs."""
    if memory.routine[NOTE] != 0:
        row = state.job[job]
        for at in range(row.first, row.first + row.held):
            tell(memory.routine[NOTE], state, memory, state.placed[at])


@kernel
def stop(state: State, memory: Memory, job: int) -> None:
    """Push a running job off its GPUs; it is left to the caller where it waits."""
    note_leaving(state, memory, job)
    preempt(state, job)
    memory.waiter[job].stopped_in = memory.scalars[0].decisions
    state.world[0].num_joined -= 1
    memory.scalars[0].mixed = 1


@kernel
def open_decision(state: State, memory: Memory) -> None:
    """Remember where the decision begins, and what rules want to know of that moment."""
    scalars, world, rule = memory.scalars[0], state.world[0], memory.rule[0]
    scalars.decisions += 1
    scalars.decision_row, scalars.decision_gpu = world.num_logged, world.num_logged_gpus
    scalars.mixed, scalars.wake_s, scalars.stopped = 0, np.inf, NOBODY
    if rule.placer == COMPACT_WAIT:
        _look_at_links(state, memory)


@kernel
def _look_at_links(state: State, memory: Memory) -> None:
    """Remember who is on links; where it is others, who was refused may have a place."""
    changed = False
    for server in range(len(state.server)):  # no stop at the first change: all are remembered
        changed |= memory.nic_jobs[server] != state.server[server].nic_jobs
        memory.nic_jobs[server] = state.server[server].nic_jobs
    for rack in range(len(state.rack)):  # compared, for a change that was undone is none
        changed |= memory.uplink_jobs[rack] != state.rack[rack].uplink_jobs
        memory.uplink_jobs[rack] = state.rack[rack].uplink_jobs
    memory.scalars[0].link_changes += changed


@array_kernel
def close_decision(state: State, memory: Memory) -> None:
    """New speeds, the log in its order, and when to be asked again."""
    if memory.scalars[0].mixed != 0:
        sort_orders(state, memory.scalars[0].decision_row, memory.scalars[0].decision_gpu)
    rerate(state)
    state.world[0].wake_s = memory.scalars[0].wake_s
