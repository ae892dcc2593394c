"""One decision without preemption: who of those that wait starts, and where."""

import numpy as np

from sim.arrays import IntArray
from sim.codes import DELAY, DRAWN, IN_PYTHON, NEVER, OWN_THEN_LEAST_LOADED
from sim.compiling import call_python
from sim.engine.acting import forward
from sim.engine.layout import NOBODY, PLACE, PYTHON_ROUTE, RAISED, START, Memory
from sim.engine.queues import drop_first, first_of, join, queue_number, take_out, tetris_order
from sim.handle import ask, tell
from sim.jit import array_kernel, kernel
from sim.kernel.free_gpus import usable_in
from sim.kernel.layout import QUEUED, RUNNING, State
from sim.kernel.step import FOREIGN_GPU, LEGAL, NO_SUCH_JOB, NOT_QUEUED, STARTED_TWICE, capacity_for

MANY = 1 << 62  # more GPUs than there are


@kernel
def stamp_of(state: State, memory: Memory, m: int) -> int:
    """Another number whenever who was refused in partition `m` may find room."""
    part = state.partition[m]
    if memory.rule[0].shrinks != 0:
        return int(part.releases)
    return int(part.version + state.world[0].uplink_changes + memory.scalars[0].link_changes)


@kernel
def refuse(state: State, memory: Memory, m: int, number: int) -> None:
    """A class has no room: nor has it before something changes, nor larger gangs in this pass."""
    scalars, class_ = memory.scalars[0], memory.job_class[number]
    memory.tried[m, number].refused = stamp_of(state, memory, m)
    memory.tried[m, number].refused_key = np.inf  # nobody was to give way
    limit = memory.limit[class_.group]
    if memory.rule[0].by_size != 0 and (limit.pass_ != scalars.pass_ or limit.gang > class_.gang):
        limit.pass_ = scalars.pass_
        limit.gang = class_.gang


@kernel
def is_refused(state: State, memory: Memory, m: int, number: int) -> bool:
    """Whether a class is known to have no room."""
    limit, class_ = memory.limit[memory.job_class[number].group], memory.job_class[number]
    if limit.pass_ == memory.scalars[0].pass_ and class_.gang >= limit.gang:
        return True
    return bool(memory.tried[m, number].refused == stamp_of(state, memory, m))


@kernel
def comes_before(memory: Memory, job: int, best: int) -> bool:
    """Whether `job` comes first; it does before NOBODY."""
    if best == NOBODY:
        return True
    mine, theirs = memory.waiter[job].key, memory.waiter[best].key
    return bool(mine < theirs or (mine == theirs and job < best))


@kernel
def _first_in(state: State, memory: Memory, m: int, home: int, best: int, all_: bool) -> int:
    """The first job that waits in `home` and may have room in `m`, if it comes before `best`.

    With `all_` also one that is known to have none.
    """
    classes, at = len(memory.job_class), 0
    while at < memory.num_live[home]:  # no range: a queue of withdrawn jobs is dropped on the way
        queue = memory.live[home, at]
        job = first_of(state, memory, home, queue)
        if job == NOBODY:
            continue  # another queue stands here now
        at += 1
        if m != home and queue >= classes:
            continue
        number = queue if queue < classes else queue - classes
        if (all_ or not is_refused(state, memory, m, number)) and comes_before(memory, job, best):
            best = job
    return best


@kernel
def first_waiting(state: State, memory: Memory, m: int, takes: bool) -> int:
    """Whose turn it is in partition `m`, of its own queue or, where it takes, of the others'."""
    best = NOBODY
    if not takes:
        strict = memory.rule[0].skip_blocked == 0
        return _first_in(state, memory, m, m, best, strict)
    for home in range(len(state.partition)):
        if home != m:
            best = _first_in(state, memory, m, home, best, False)
    return best


@array_kernel
def _try(state: State, memory: Memory, m: int, job: int) -> bool:
    """Start a job in partition `m`, handed on to it if it waits elsewhere, if there is room."""
    if not ask(memory.routine[PLACE], state, memory, m, job):
        return False
    if memory.rule[0].listed == 0:
        take_out(state, memory, job)
    if state.job[job].partition != m:
        forward(state, memory, job, m)
    tell(memory.routine[START], state, memory, job)
    return True


@array_kernel
def fill(state: State, memory: Memory, m: int, stealing: int) -> int:
    """Start who has room in partition `m`, in order of keys; how many.

    With `stealing` 1 of those who wait elsewhere.
    """
    memory.scalars[0].pass_ += 1
    takes = stealing != 0
    started, strict = 0, memory.rule[0].skip_blocked == 0 and not takes
    while memory.scalars[0].verdict == LEGAL:  # a job a turn; a start that is refused ends it
        job = first_waiting(state, memory, m, takes)
        if job == NOBODY:
            break
        number, home = memory.waiter[job].job_class, state.job[job].partition
        if strict and is_refused(state, memory, m, number):
            break
        if ask(memory.routine[PLACE], state, memory, m, job):
            drop_first(memory, home, queue_number(state, memory, job))
            if home != m:
                forward(state, memory, job, m)
            tell(memory.routine[START], state, memory, job)
            started += 1
        else:
            refuse(state, memory, m, number)
            if strict:
                break
    return started


@kernel
def _may_be_served(
    state: State, memory: Memory, m: int, jobs: IntArray, at: int, takes: bool
) -> bool:
    """Whether job `at` of an own order waits for partition `m`; else why not is written down."""
    job, verdict, what = jobs[at], LEGAL, NOBODY
    if not 0 <= job < len(state.job):
        verdict = NO_SUCH_JOB
    elif state.job[job].status != QUEUED:
        verdict = STARTED_TWICE if job in jobs[:at] else NOT_QUEUED
    elif state.job[job].partition != m and not takes:
        verdict, what = FOREIGN_GPU, state.server[state.own[state.partition[m].first_own]].first_gpu
    if verdict != LEGAL:
        scalars = memory.scalars[0]
        scalars.verdict, scalars.job, scalars.what = verdict, job, what
    return verdict == LEGAL


@array_kernel
def fill_listed(state: State, memory: Memory, m: int, jobs: IntArray, takes: bool) -> int:
    """Start who of `jobs`, in this order, has room in partition `m`; how many."""
    memory.scalars[0].pass_ += 1
    started, judges = 0, memory.rule[0].judges_job != 0
    for at, job in enumerate(jobs):  # once: a start may make room, but who was passed waits on
        if memory.scalars[0].verdict != LEGAL:
            break
        if not _may_be_served(state, memory, m, jobs, at, takes):
            break
        number = memory.waiter[job].job_class
        known = not judges and is_refused(state, memory, m, number)
        if not known and _try(state, memory, m, job):
            started += 1
        if memory.scalars[0].verdict != LEGAL:
            break
        if state.job[job].status == RUNNING:
            continue
        refuse(state, memory, m, number)
        if memory.rule[0].skip_blocked == 0 and not takes:
            break
    return started


@kernel
def _waits_for(state: State, memory: Memory, m: int, job: int, takes: bool) -> bool:
    """Whether a waiting job is one of partition `m`, or one that `m` may take from another.

    Nobody takes a job in the decision that preempted it.
    """
    row = state.job[job]
    if not takes:
        return bool(row.partition == m)
    stopped = memory.waiter[job].stopped_in == memory.scalars[0].decisions
    return bool(row.partition != m and row.forwards < state.world[0].max_forwards and not stopped)


@array_kernel
def eligible(state: State, memory: Memory, m: int, takes: bool) -> IntArray:
    """Waiting jobs of partition `m`, or those that it may take from others, by row."""
    world = state.world[0]
    jobs, count = np.empty(world.num_queued, dtype=np.int64), 0
    for at in range(world.queue_first, world.queue_first + world.num_queued):
        if _waits_for(state, memory, m, state.queue[at], takes):
            jobs[count] = state.queue[at]
            count += 1
    return jobs[:count]


@kernel
def least_gang(state: State) -> int:
    """GPUs of the smallest gang that waits."""
    world, least = state.world[0], MANY
    for at in range(world.queue_first, world.queue_first + world.num_queued):
        least = min(least, state.job[state.queue[at]].num_gpus)
    return least


@kernel
def _is_full(state: State, memory: Memory, m: int, least: int) -> bool:
    """Whether partition `m` has no `least` empty GPUs, and none may be shared."""
    alone = memory.rule[0].sharing == NEVER and state.world[0].demands_matter == 0
    return bool(alone and usable_in(state.free_gpus, m) < least)


@array_kernel
def order_counts(state: State, memory: Memory, m: int, takes: bool, least: int) -> bool:
    """Whether it counts in which order those who wait for partition `m` are served.

    Where what is offered only shrinks it does not if none has room, or one alone and the others
    let it pass. Where jobs may be preempted it does not for one job with room. `least`: GPUs of
    the smallest gang that waits anywhere.
    """
    rule, world = memory.rule[0], state.world[0]
    shrinks, preempts = rule.shrinks != 0, rule.preempts != 0 and not takes
    if shrinks and not preempts and _is_full(state, memory, m, least):
        return False
    memory.scalars[0].pass_ += 1
    waiting, room, strict = 0, 0, rule.skip_blocked == 0 and not takes
    # Left where the answer is sure: each trial of a place costs time.
    for at in range(world.queue_first, world.queue_first + world.num_queued):
        job = state.queue[at]
        if not _waits_for(state, memory, m, job, takes):
            continue
        waiting += 1
        if waiting > 1 and (preempts or not shrinks):
            return True
        if not preempts and not shrinks:
            continue
        number = memory.waiter[job].job_class
        if not preempts and is_refused(state, memory, m, number):
            continue
        if ask(memory.routine[PLACE], state, memory, m, job):
            room += 1
        elif not preempts:
            refuse(state, memory, m, number)
        if waiting > 1 and (room > 1 or (strict and room > 0)):
            return True
    return bool(waiting == 1 and room == 0 if preempts else strict and waiting > 1 and room > 0)


@array_kernel
def first_to_ask(state: State, memory: Memory, m: int, takes: bool) -> int:
    """The first partition, from `m` on, in which the order of who waits for it counts.

    Those before it are served. The number of partitions if there is none, or nothing goes on.
    """
    least = least_gang(state)
    while m < len(state.partition):  # in order, for who is taken by one waits for no other
        if memory.scalars[0].verdict != LEGAL:
            return len(state.partition)
        if order_counts(state, memory, m, takes, least):
            return m
        fill_listed(state, memory, m, eligible(state, memory, m, takes), takes)
        m += 1
    return m


@array_kernel
def fill_by_score(state: State, memory: Memory, m: int, stealing: int) -> int:
    """As `fill`, with everybody put in the order of `tetris_score` first."""
    jobs = tetris_order(state, memory, m, eligible(state, memory, m, stealing != 0))
    return fill_listed(state, memory, m, jobs, stealing != 0)


@array_kernel
def fill_by_list(state: State, memory: Memory, m: int, stealing: int) -> int:
    """As `fill`, with everybody put in order first; for rules under which a start may make room."""
    rule = memory.rule[0]
    plain = rule.shrinks != 0 and rule.judges_job == 0 and rule.placer != IN_PYTHON
    if plain and _is_full(state, memory, m, least_gang(state)):
        return 0
    jobs = eligible(state, memory, m, stealing != 0)
    keys = np.array([memory.waiter[job].key for job in jobs])
    order = np.argsort(keys, kind="mergesort")
    return fill_listed(state, memory, m, jobs[order], stealing != 0)


@kernel
def note_timers(state: State, memory: Memory) -> None:
    """Ask again when the next timer of a waiting job runs out (`delay`)."""
    if memory.rule[0].placer != DELAY:
        return
    world, rule, scalars = state.world[0], memory.rule[0], memory.scalars[0]
    # All: who queues last may have the timer that runs out first.
    for at in range(world.queue_first, world.queue_first + world.num_queued):
        row = state.job[state.queue[at]]
        since_s = row.submit_s + row.attained_gpu_s / row.num_gpus
        rack_s, anywhere_s = since_s + rule.rack_wait_s, since_s + rule.anywhere_wait_s
        if world.now_s < rack_s < np.inf:
            scalars.wake_s = min(scalars.wake_s, rack_s)
        elif world.now_s < anywhere_s < np.inf:
            scalars.wake_s = min(scalars.wake_s, anywhere_s)


@array_kernel
def wanted_gpus(state: State) -> IntArray:
    """(M,) GPUs that waiting and running jobs want."""
    world = state.world[0]
    wanted = np.zeros(len(state.partition), dtype=np.int64)
    # Counted where a job is routed, not kept at every event.
    for at in range(world.queue_first, world.queue_first + world.num_queued):
        wanted[state.job[state.queue[at]].partition] += state.job[state.queue[at]].num_gpus
    for job in state.running[: world.num_running]:  # who runs is a load as much as who waits
        wanted[state.job[job].partition] += state.job[job].num_gpus
    return wanted


@array_kernel
def _least_loaded(state: State, job: int, home: int, wanted: IntArray) -> int:
    """Rule of `sim.forwarding`."""
    best, least = home, np.inf
    if capacity_for(state, home, job) > 0:
        least = (wanted[home] - state.job[job].num_gpus) / state.partition[home].gpus
    for m in range(len(wanted)):  # only less wins: on ties home, then the lowest number
        if m != home and capacity_for(state, m, job) > 0:
            share = wanted[m] / state.partition[m].gpus
            if share < least:
                best, least = m, share
    return best


@kernel
def _arrives(state: State, memory: Memory, job: int) -> bool:
    """Whether a waiting job queues for the first time now, and has not been routed yet."""
    row = state.job[job]
    routed = row.forwards > 0 or memory.waiter[job].routed != 0
    return bool(row.ready_s == state.world[0].now_s and not routed)


@array_kernel
def route_arrivals(state: State, memory: Memory) -> None:
    """Send jobs that queue for the first time where the rule wants them."""
    world = state.world[0]
    last = world.queue_first + world.num_queued
    if world.max_forwards < 1:
        return
    # Those who arrive stand last; children that become ready stand where they were submitted.
    first = world.queue_first if world.ready_s == world.now_s else last
    # Rows are in order of submission: this instant's stand together, last.
    while first > world.queue_first and state.job[state.queue[first - 1]].submit_s == world.now_s:
        first -= 1
    while first < last and not _arrives(state, memory, state.queue[first]):  # none new: no counting
        first += 1
    wanted = wanted_gpus(state) if first < last else np.zeros(0, dtype=np.int64)
    for at in range(first, last):  # by row: each is counted where it goes before the next is asked
        job = state.queue[at]
        home, gang = state.job[job].partition, state.job[job].num_gpus
        if not _arrives(state, memory, job):
            continue
        memory.waiter[job].routed = 1
        target = _target(state, memory, job, wanted)
        if target != home:
            wanted[home] -= gang
            wanted[target] += gang
            _send(state, memory, job, target)


@array_kernel
def _target(state: State, memory: Memory, job: int, wanted: IntArray) -> int:
    """Where the rule wants a job that has arrived."""
    rule, home = memory.rule[0].forwarding, state.job[job].partition
    if rule == IN_PYTHON:
        fits = ask(memory.routine[PLACE], state, memory, home, job)
        target = call_python(memory.routine[PYTHON_ROUTE], job, fits)
        if target == RAISED:
            memory.scalars[0].verdict = RAISED
        return home if memory.scalars[0].verdict != LEGAL else int(target)
    if rule == DRAWN:
        return int(memory.waiter[job].drawn)
    if rule == OWN_THEN_LEAST_LOADED and ask(memory.routine[PLACE], state, memory, home, job):
        return int(home)
    return _least_loaded(state, job, home, wanted)


@kernel
def _send(state: State, memory: Memory, job: int, target: int) -> None:
    """Hand a waiting job on; it joins the other queue."""
    if memory.rule[0].listed == 0:
        take_out(state, memory, job)
    forward(state, memory, job, target)
    if memory.rule[0].listed == 0:
        join(state, memory, job)
