"""One partition's decision with preemption: who comes first may take the GPUs of who comes later.

A job first tries what is free. If that fails, running jobs are set aside, lowest priority first,
until it has room; those whose GPUs, cores or memory it then does not need go on undisturbed. A job
that has no room even so preempts nobody. One who is preempted waits at its priority in the same
decision.
"""

import numpy as np

from sim.arrays import IntArray
from sim.codes import NEVER, QUANTA
from sim.engine.acting import note_leaving, stop
from sim.engine.filling import comes_before
from sim.engine.layout import NOBODY, PLACE, SEARCH, START, Memory
from sim.engine.queues import (
    drop_first,
    first_of,
    heap_pop,
    heap_push,
    join,
    queue_number,
    rank_of,
    refresh_ranks,
    running_key,
    running_wait_s,
)
from sim.handle import ask, tell
from sim.jit import array_kernel, kernel
from sim.kernel.allocation import occupy, vacate
from sim.kernel.layout import QUEUED, State
from sim.kernel.step import LEGAL


@kernel
def _limited(memory: Memory, number: int) -> bool:
    """Whether a class has no room in this pass, since a gang as large as its had none."""
    limit, class_ = memory.limit[memory.job_class[number].group], memory.job_class[number]
    return bool(limit.pass_ == memory.scalars[0].pass_ and class_.gang >= limit.gang)


@kernel
def _limit(memory: Memory, number: int) -> None:
    scalars, class_ = memory.scalars[0], memory.job_class[number]
    limit = memory.limit[class_.group]
    if limit.pass_ != scalars.pass_ or limit.gang > class_.gang:
        limit.pass_ = scalars.pass_
        limit.gang = class_.gang


@kernel
def _first_waiting(state: State, memory: Memory, m: int) -> int:
    """Who of partition `m` comes first of all that may have room, the preempted included."""
    best, at, classes = memory.scalars[0].preempted, 0, len(memory.job_class)
    while at < memory.num_live[m]:  # no range: a queue of withdrawn jobs is dropped on the way
        queue = memory.live[m, at]
        job = first_of(state, memory, m, queue)
        if job == NOBODY:
            continue
        at += 1
        number = queue if queue < classes else queue - classes
        if _limited(memory, number) or memory.tried[m, number].passed == memory.scalars[0].pass_:
            continue
        if comes_before(memory, job, best):
            best = job
    return int(best)


@kernel
def _gather_victims(state: State, memory: Memory, m: int, key: float) -> None:
    """Heap up the jobs that ran as the decision began and come after `key`, the last first."""
    scalars, waiter, several = memory.scalars[0], memory.waiter, len(state.partition) > 1
    by_service = memory.rule[0].order == QUANTA
    if by_service:
        refresh_ranks(state, memory)
    scalars.num_victims, scalars.victims = 0, NOBODY
    for at in range(state.world[0].num_running):  # heaped, not sorted: `_victim` may ask for few
        job = state.running[at]
        if several and state.job[job].partition != m:
            continue
        if by_service:
            rank = rank_of(state, memory, at)
            theirs = memory.rank[rank].steps if rank != NOBODY else -np.inf
        elif waiter[job].started_in == scalars.decisions:
            theirs = -np.inf
        else:
            theirs = running_key(state, memory, job)
        if theirs > key:
            waiter[job].key = theirs
            scalars.victims = heap_push(waiter, scalars.victims, job, -1)


@kernel
def _victim(memory: Memory, rank: int) -> int:
    """Victim number `rank` (0 gives way first of all); NOBODY: there are fewer."""
    scalars = memory.scalars[0]
    while scalars.num_victims <= rank:
        if scalars.victims == NOBODY:
            return NOBODY
        memory.victim[scalars.num_victims] = scalars.victims
        scalars.num_victims += 1
        scalars.victims = heap_pop(memory.waiter, scalars.victims, -1)
    return int(memory.victim[rank])


@kernel
def _lift(state: State, memory: Memory, job: int) -> None:
    """Take a victim off its GPUs for a trial, remembering its place among their tenants."""
    row = state.job[job]
    for at in range(row.first, row.first + row.held):  # its place differs from GPU to GPU
        gpu, place_ = state.placed[at], 0
        while state.tenant[gpu, place_] != job:  # no bound: it is one of the tenants
            place_ += 1
        memory.lifted[at] = place_
    note_leaving(state, memory, job)
    vacate(state, job, state.placed[row.first : row.first + row.held])


@kernel
def _lower(state: State, memory: Memory, job: int) -> None:
    """Undo `_lift`; the last that was lifted first."""
    row = state.job[job]
    occupy(state, job, state.placed[row.first : row.first + row.held])
    for at in range(row.first, row.first + row.held):  # sums over tenants depend on their order
        gpu, place_ = state.placed[at], memory.lifted[at]
        for k in range(state.gpu[gpu].tenants - 1, place_, -1):  # from behind: none is lost
            state.tenant[gpu, k] = state.tenant[gpu, k - 1]
        state.tenant[gpu, place_] = job


@kernel
def _uses_stamped(state: State, memory: Memory, job: int) -> bool:
    row, used = state.job[job], False
    for at in range(row.first, row.first + row.held):  # one GPU is enough: a gang stops as a whole
        used = used or memory.stamped[state.placed[at]] == memory.scalars[0].stamp
    return used


@kernel
def _push_off(state: State, memory: Memory, rank: int) -> None:
    """Preempt victim number `rank`."""
    scalars, job = memory.scalars[0], memory.victim[rank]
    if memory.rule[0].order == QUANTA:
        scalars.lost_wake_s = min(scalars.lost_wake_s, running_wait_s(state, memory, job))
    stop(state, memory, job)
    scalars.preempted = heap_push(memory.waiter, scalars.preempted, job, 1)
    memory.victim[rank] = NOBODY


@kernel
def _lacks(state: State, memory: Memory, job: int, server: int) -> bool:
    """Whether a server has too few cores or too little memory for the workers chosen for `job`."""
    row, where, workers = state.job[job], state.server[server], 0
    for i in range(row.num_gpus):
        workers += state.gpu[memory.gpus[i]].server == server
    short = workers * row.cpu_milli > where.cpu_free_milli
    return bool(short or workers * row.memory_mib > where.memory_free_mib)


@kernel
def _stands_in_the_way(state: State, memory: Memory, job: int, victim: int) -> bool:
    """Whether a victim has a worker where `job` lacks cores or memory."""
    row, lacks = state.job[victim], False
    for at in range(row.first, row.first + row.held):
        lacks = lacks or _lacks(state, memory, job, state.gpu[state.placed[at]].server)
    return lacks


@array_kernel
def _take_gpus(state: State, memory: Memory, job: int, ranks: int) -> None:
    """Preempt those of the first `ranks` victims that lose a GPU to `job`.

    Then, where its workers still lack cores or memory, others on these servers, in turn.
    """
    for rank in range(ranks):  # they stop anyway, and may leave cores and memory enough
        if memory.victim[rank] != NOBODY and _uses_stamped(state, memory, memory.victim[rank]):
            _push_off(state, memory, rank)
    if state.world[0].demands_matter == 0:
        return
    for rank in range(ranks):  # in order of giving way, each only if something still lacks
        victim = memory.victim[rank]
        if victim != NOBODY and _stands_in_the_way(state, memory, job, victim):
            _push_off(state, memory, rank)


@kernel
def _stamp(state: State, memory: Memory, job: int, found: bool) -> None:
    """Stamp the GPUs chosen for `job`; no GPU is stamped where none were."""
    memory.scalars[0].stamp += 1
    if found:
        for i in range(state.job[job].num_gpus):
            memory.stamped[memory.gpus[i]] = memory.scalars[0].stamp


@kernel
def _lift_to(state: State, memory: Memory, ranks: IntArray, lifted: int, wanted: int) -> int:
    """Have the first `wanted` of these victims lifted; `lifted` of them are. Gives `wanted`."""
    for at in range(lifted, wanted):  # only those that the trial before had not lifted
        _lift(state, memory, memory.victim[ranks[at]])
    for at in range(lifted - 1, wanted - 1, -1):  # last lifted first: each finds its old place
        _lower(state, memory, memory.victim[ranks[at]])
    return wanted


@array_kernel
def _ranks_below(memory: Memory, job: int) -> IntArray:
    """Ranks of the victims that may give way to `job`, first to give way first."""
    rank, count, ranks = 0, 0, np.empty(len(memory.victim), dtype=np.int64)
    while True:  # how many there are is not known: they come off a heap as asked for
        victim = _victim(memory, rank)
        if victim == NOBODY and rank >= memory.scalars[0].num_victims:
            return ranks[:count]
        if victim != NOBODY and memory.waiter[victim].key <= memory.waiter[job].key:
            return ranks[:count]
        if victim != NOBODY:
            ranks[count] = rank
            count += 1
        rank += 1


@array_kernel
def search_aside(state: State, memory: Memory, m: int, job: int) -> bool:
    """As `_push_aside`, where one victim more may take room away: all first, then bisection."""
    part, ranks = state.partition[m], _ranks_below(memory, job)
    releases, most = part.releases, len(ranks)
    low, high, lifted, found = 1, most, 0, False
    if most > 0 and memory.scalars[0].verdict == LEGAL:
        lifted = _lift_to(state, memory, ranks, 0, most)
        found = ask(memory.routine[PLACE], state, memory, m, job)
    while found and low < high:  # few trials: the number found suffices, though a smaller may
        middle = (low + high) // 2
        lifted = _lift_to(state, memory, ranks, lifted, middle)
        if ask(memory.routine[PLACE], state, memory, m, job):
            high = middle
        else:
            low = middle + 1
    if found:
        lifted = _lift_to(state, memory, ranks, lifted, low)
        found = ask(memory.routine[PLACE], state, memory, m, job)
    _stamp(state, memory, job, found)
    _lift_to(state, memory, ranks, lifted, 0)
    part.releases = releases  # trials are none
    if found:
        _take_gpus(state, memory, job, ranks[low - 1] + 1)
    return found


@array_kernel
def _push_aside(state: State, memory: Memory, m: int, job: int) -> bool:
    """Choose GPUs for `job` beside the fewest victims, last ones first; False: no room.

    One victim more never takes room away, so the first number that suffices is the least.
    """
    scalars, waiter, part = memory.scalars[0], memory.waiter, state.partition[m]
    releases = part.releases
    rank, found = 0, False
    while not found:  # each trial goes on from the last: one victim more is lifted
        victim = _victim(memory, rank)
        if victim == NOBODY and rank >= scalars.num_victims:
            break
        if victim != NOBODY and waiter[victim].key <= waiter[job].key:
            break
        rank += 1
        if victim != NOBODY:  # else it has lost its GPUs already
            _lift(state, memory, victim)
            found = ask(memory.routine[PLACE], state, memory, m, job)
    _stamp(state, memory, job, found)
    for lifted in range(rank - 1, -1, -1):  # last lifted first: each finds its old place
        if memory.victim[lifted] != NOBODY:
            _lower(state, memory, memory.victim[lifted])
    part.releases = releases  # trials are none: what was refused stays refused
    if found:
        _take_gpus(state, memory, job, rank)
    return found


@kernel
def _is_known(state: State, memory: Memory, m: int, job: int) -> bool:
    """Whether its class was refused for a key no higher, and nothing has changed since (QUANTA).

    What counts is a release, or a running job that crosses a quantum and may be preempted then.
    """
    tried, part = memory.tried[m, memory.waiter[job].job_class], state.partition[m]
    if memory.rule[0].order != QUANTA or memory.rule[0].monotone == 0:
        return False
    if tried.refused != part.releases:
        return False
    if memory.waiter[job].key < tried.refused_key:
        return False
    refresh_ranks(state, memory)  # may recall the refusal
    return bool(tried.refused == part.releases)


@array_kernel
def _has_room(state: State, memory: Memory, m: int, job: int) -> bool:
    """Choose GPUs for `job`, preempting if need be."""
    if _is_known(state, memory, m, job):
        return False
    if ask(memory.routine[PLACE], state, memory, m, job):
        return True
    if memory.scalars[0].num_victims == NOBODY:
        _gather_victims(state, memory, m, memory.waiter[job].key)
    if memory.rule[0].monotone == 0:
        return bool(ask(memory.routine[SEARCH], state, memory, m, job))
    if _push_aside(state, memory, m, job):
        return True
    tried = memory.tried[m, memory.waiter[job].job_class]
    tried.refused, tried.refused_key = state.partition[m].releases, memory.waiter[job].key
    return False


@kernel
def _pass_over(state: State, memory: Memory, m: int, job: int) -> None:
    """A job has no room: nor have larger gangs; where that is not sure its class, or it alone."""
    scalars, rule, number = memory.scalars[0], memory.rule[0], memory.waiter[job].job_class
    if rule.monotone != 0:
        _limit(memory, number)
    elif rule.sharing == NEVER and rule.judges_job == 0:
        memory.tried[m, number].passed = scalars.pass_
    elif state.job[job].status == QUEUED and memory.waiter[job].stopped_in != scalars.decisions:
        drop_first(memory, m, queue_number(state, memory, job))
        memory.waiter[job].left = scalars.aside
        scalars.aside = job


@array_kernel
def serve(state: State, memory: Memory, m: int) -> None:
    """Start waiting jobs of partition `m` by priority, preempting where that lets one in."""
    scalars = memory.scalars[0]
    scalars.pass_ += 1
    scalars.preempted = scalars.num_victims = scalars.victims = scalars.aside = NOBODY
    scalars.lost_wake_s = float("inf")
    while scalars.verdict == LEGAL:  # anew after each job: who was preempted may come next
        job = _first_waiting(state, memory, m)
        if job == NOBODY:
            break
        number, lost = memory.waiter[job].job_class, job == scalars.preempted
        if lost:
            scalars.preempted = heap_pop(memory.waiter, job, 1)
        if not _limited(memory, number) and _has_room(state, memory, m, job):
            if not lost:
                drop_first(memory, m, queue_number(state, memory, job))
            tell(memory.routine[START], state, memory, job)
            continue
        _pass_over(state, memory, m, job)
        if lost:
            memory.waiter[job].left = scalars.stopped
            scalars.stopped = job
    while scalars.aside != NOBODY:  # only now: in the queue each would have come first again
        job = scalars.aside
        scalars.aside = memory.waiter[job].left
        join(state, memory, job)


@kernel
def rejoin(state: State, memory: Memory) -> None:
    """Let those wait who were preempted; nobody could take them in the same decision."""
    scalars = memory.scalars[0]
    while scalars.stopped != NOBODY:
        job = scalars.stopped
        scalars.stopped = memory.waiter[job].left
        if memory.rule[0].listed == 0:
            join(state, memory, job)
