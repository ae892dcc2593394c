"""What moves a run on: time, until a decision is due; and the decision, checked and applied."""

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.handle import tell
from sim.jit import array_kernel, kernel
from sim.kernel.attempts import begin_run, reach_target, requeue
from sim.kernel.free_gpus import may_join, workers_for
from sim.kernel.layout import (
    BLOCKED,
    CHANGE_SERVER,
    FINISHED,
    QUEUED,
    RUNNING,
    WITHDRAW,
    WITHDRAWN,
    State,
)
from sim.kernel.rates import rerate
from sim.kernel.records import (
    ARRIVAL,
    EXPIRE,
    FORWARD,
    PREEMPT,
    START,
    log_event,
    log_half_full,
    queue_insert,
    queue_remove,
)
from sim.physics.laws import fits_beside

# What `advance_until_decision` returns.
DECIDE, OVER, STUCK = 0, 1, 2
FULL = 3  # nothing to decide yet, but the log wants to be flushed
# What loops that decide themselves return beside OVER, STUCK and FULL.
PAUSE = 4  # as many decisions as wanted have been made
ILLEGAL = 5  # a decision was refused


@kernel
def next_event_s(state: State) -> float:
    """Time of the next instant; inf if nothing will happen any more."""
    world = state.world[0]
    at_s = world.wake_s
    if world.heap_size > 0:
        at_s = min(at_s, state.heap[0].key)
    if world.next_arrival < len(state.job):
        at_s = min(at_s, state.job[world.next_arrival].submit_s)
    if world.num_left > 0 and world.next_outage < len(state.outages):
        at_s = min(at_s, state.outages[world.next_outage].at_s)
    if world.next_withdrawal < len(state.withdrawals):
        at_s = min(at_s, _next_withdrawal_s(state))
    return float(at_s)


@kernel
def _next_withdrawal_s(state: State) -> float:
    """When the next user gives up; users whose job is over are passed by."""
    world = state.world[0]
    while world.next_withdrawal < len(state.withdrawals):
        row = state.job[state.withdrawals[world.next_withdrawal]]
        if row.status not in (FINISHED, WITHDRAWN):
            return float(row.withdraw_at_s)
        world.next_withdrawal += 1
    return float(np.inf)


@kernel
def _stop_due(state: State) -> None:
    """Attempts and leases that end now, in order of rows; where both do, the attempt has."""
    world, heap = state.world[0], state.heap
    while world.heap_size > 0 and heap[0].key <= world.now_s:
        job = heap[0].item
        if state.job[job].due_s <= world.now_s:
            reach_target(state, job)
        else:
            requeue(state, job, EXPIRE, True)


@kernel
def _change_servers(state: State) -> None:
    world = state.world[0]
    while world.next_outage < len(state.outages):  # all due by now, in the order of the outages
        outage = state.outages[world.next_outage]
        if outage.at_s > world.now_s:
            return
        world.next_outage += 1
        tell(state.routine[CHANGE_SERVER], state, outage.server, outage.kind)


@kernel
def _admit_due(state: State) -> None:
    world, jobs = state.world[0], state.job
    while world.next_arrival < len(jobs):  # rows are by submission: the first not due ends it
        job = world.next_arrival
        if jobs[job].submit_s > world.now_s:
            return
        world.next_arrival = job + 1
        log_event(state, ARRIVAL, job, 0)
        if jobs[job].waits_for > 0 or jobs[job].doomed != 0:
            jobs[job].status = BLOCKED
            if jobs[job].doomed != 0:
                jobs[job].doomed = 0
                tell(state.routine[WITHDRAW], state, job)
            continue
        jobs[job].status = QUEUED
        queue_insert(state, job)


@kernel
def _withdraw_due(state: State) -> None:
    world = state.world[0]
    while _next_withdrawal_s(state) <= world.now_s:  # asked anew: one may take others along
        job = state.withdrawals[world.next_withdrawal]
        world.next_withdrawal += 1
        tell(state.routine[WITHDRAW], state, job)


@kernel
def observe(state: State) -> None:
    """Refresh what a view shows of running jobs, leaving what finish times are made from."""
    now_s, jobs = state.world[0].now_s, state.job
    for at in range(state.world[0].num_running):
        row = jobs[state.running[at]]
        ahead_s = max(0.0, now_s - row.rated_s)
        row.seen_progress_s = row.progress_s + row.rate * ahead_s
        row.attained_gpu_s = row.served_gpu_s + max(0.0, now_s - row.resume_s) * row.held


@kernel
def advance_instant(state: State) -> int:
    """Let one instant happen: DECIDE if somebody must decide, OVER, STUCK, or -1."""
    world = state.world[0]
    at_s = next_event_s(state)
    if np.isinf(at_s):
        return STUCK if world.num_left > 0 else OVER
    world.now_s = at_s
    _stop_due(state)
    if world.num_left > 0 and world.next_outage < len(state.outages):
        _change_servers(state)
    _admit_due(state)
    if world.next_withdrawal < len(state.withdrawals):
        _withdraw_due(state)
    rerate(state)
    woken = world.wake_s <= at_s
    if woken:
        world.wake_s = np.inf
    return DECIDE if woken or world.num_queued > 0 else -1


@kernel
def advance_until_decision(state: State) -> int:
    """Pop what is due, instant by instant, until somebody must decide."""
    while True:
        verdict = advance_instant(state)
        if verdict == DECIDE:
            observe(state)
        if verdict >= 0:
            return verdict
        if log_half_full(state):
            return FULL


# Verdicts; the Python side words them.
LEGAL, NO_SUCH_JOB, NOT_RUNNING, NOT_QUEUED, NO_SUCH_PARTITION, TOO_MANY_FORWARDS = range(6)
WRONG_GANG, NO_SUCH_GPU, FOREIGN_GPU, GPU_TWICE, GPU_FULL, DOES_NOT_FIT, PAST_WAKE = range(6, 13)
FORWARDED_TWICE, SERVER_AWAY, WRONG_TYPE, NO_CORES, NO_MEMORY, PAST_LEASE = range(13, 19)
STARTED_TWICE, PREEMPTED_TWICE = 19, 20


@kernel
def _check_tenants(state: State, job: int, gpu: int, gpu_type: int) -> int:
    jobs, tenants, feasible = state.job, state.gpu[gpu].tenants, state.physics.feasible
    milli, limit_milli = jobs[job].gpu_milli, state.world[0].gpu_limit_milli
    if not may_join(tenants, state.tenant.shape[1], state.gpu[gpu].milli, milli, limit_milli):
        return GPU_FULL
    for k in range(tenants):  # pair by pair: mixes say how fast, pairs who fits in memory
        other = jobs[state.tenant[gpu, k]]
        if not fits_beside(
            feasible, gpu_type, jobs[job].profile, milli, other.profile, other.gpu_milli
        ):
            return DOES_NOT_FIT
    return LEGAL


@kernel
def _check_demands(state: State, job: int, server: int) -> int:
    """Type, and cores and memory for one worker more than those counted on the server so far."""
    row, where, token = state.job[job], state.server[server], state.world[0].token
    if (row.type_mask >> where.gpu_type) & 1 == 0:
        return WRONG_TYPE
    if where.stamp != token:
        where.stamp = token
        where.count = 0
    where.count += 1
    if row.cpu_milli * where.count > where.cpu_free_milli:
        return NO_CORES
    if row.memory_mib * where.count > where.memory_free_mib:
        return NO_MEMORY
    return LEGAL


@kernel
def check_gpu(state: State, job: int, gpu: int) -> int:
    """Whether a GPU takes one worker of the job more; those of one start share a token."""
    if not 0 <= gpu < len(state.gpu):
        return NO_SUCH_GPU
    server = state.gpu[gpu].server
    where = state.server[server]
    if where.partition != state.job[job].partition:
        return FOREIGN_GPU
    if where.closed > 0:
        return SERVER_AWAY
    verdict = _check_tenants(state, job, gpu, where.type)
    if verdict == LEGAL and state.world[0].demands_matter != 0:
        verdict = _check_demands(state, job, server)
    return verdict


@kernel
def _check_start(state: State, job: int, gpus: IntArray, lease_s: float) -> int:
    now_s = state.world[0].now_s
    if not 0 <= job < len(state.job):
        return NO_SUCH_JOB
    row = state.job[job]
    if row.status != QUEUED:
        return NOT_QUEUED
    if not row.least_gpus <= len(gpus) <= row.most_gpus:
        return WRONG_GANG
    return PAST_LEASE if now_s + lease_s <= now_s else LEGAL


@kernel
def check_gpus(state: State, job: int, gpus: IntArray, gang: int) -> tuple[int, int]:
    """Whether the first `gang` of `gpus` take the workers of a start: verdict, GPU it is about."""
    state.world[0].token += 1
    for i in range(gang):  # in the order given: of two errors the first is told
        verdict = check_gpu(state, job, gpus[i])
        if verdict != LEGAL:
            return verdict, gpus[i]
        for earlier in range(i):  # by pairs: no array of marks has to be kept
            if gpus[earlier] == gpus[i]:
                return GPU_TWICE, gpus[i]
    return LEGAL, -1


@kernel
def start_on(state: State, job: int, gpus: IntArray, gang: int, lease_end_s: float) -> None:
    """Start a waiting job on the first `gang` of `gpus`; the caller has checked them."""
    row, first = state.job[job], state.job[job].first
    renewal = row.left_s == state.world[0].now_s and row.held == gang
    for i in range(gang):
        renewal = renewal and state.placed[first + i] == gpus[i]
        state.placed[first + i] = gpus[i]
    queue_remove(state, job)
    begin_run(state, job, gang, renewal, lease_end_s)
    log_event(state, START, job, gang)


@kernel
def _start(state: State, job: int, gpus: IntArray, lease_s: float) -> tuple[int, int]:
    """Verdict and the GPU it is about."""
    verdict, gpu = _check_start(state, job, gpus, lease_s), len(gpus)
    if verdict == LEGAL:
        verdict, gpu = check_gpus(state, job, gpus, len(gpus))
    if verdict == LEGAL:
        lease_end_s = np.inf if np.isnan(lease_s) else state.world[0].now_s + lease_s
        start_on(state, job, gpus, len(gpus), lease_end_s)
    return verdict, gpu


@kernel
def _start_each(
    state: State, jobs: IntArray, first: IntArray, gpus: IntArray, lease_s: FloatArray
) -> tuple[int, int, int]:
    """Verdict, job and GPU of the first start that is illegal; those before it are carried out."""
    for i in range(len(jobs)):
        verdict, gpu = _start(state, jobs[i], gpus[first[i] : first[i + 1]], lease_s[i])
        if verdict == NOT_QUEUED and jobs[i] in jobs[:i]:
            verdict = STARTED_TWICE
        if verdict != LEGAL:
            return verdict, jobs[i], gpu
    return LEGAL, -1, -1


@kernel
def preempt(state: State, job: int) -> None:
    """Push a running job off its GPUs by decision."""
    requeue(state, job, PREEMPT, state.world[0].preempt_saves != 0)
    state.job[job].preemptions += 1


@kernel
def _preempt(state: State, job: int) -> int:
    if not 0 <= job < len(state.job):
        return NO_SUCH_JOB
    if state.job[job].status != RUNNING:
        return NOT_RUNNING
    preempt(state, job)
    return LEGAL


@kernel
def hand_over(state: State, job: int, partition: int) -> None:
    """Forward a waiting job; the caller has checked that it may be."""
    state.job[job].partition = partition
    state.job[job].forwards += 1
    log_event(state, FORWARD, job, 0)


@kernel
def _forward(state: State, job: int, partition: int) -> int:
    if not 0 <= job < len(state.job):
        return NO_SUCH_JOB
    row, world = state.job[job], state.world[0]
    if row.status != QUEUED:
        return NOT_QUEUED
    if not 0 <= partition < world.num_partitions or partition == row.partition:
        return NO_SUCH_PARTITION
    if row.forwards >= world.max_forwards:
        return TOO_MANY_FORWARDS
    hand_over(state, job, partition)
    return LEGAL


@kernel
def apply_decision(
    state: State,
    preempts: IntArray,  # (p,)
    forwards: IntArray,  # (f, 2) job, partition
    start_jobs: IntArray,  # (n,)
    start_first: IntArray,  # (n + 1,) GPUs of start i: start_gpus[first[i]:first[i + 1]]
    start_gpus: IntArray,
    lease_s: FloatArray,  # (n,) NaN: no lease
    wake_s: float,  # NaN: none
) -> tuple[int, int, int]:
    """Apply preempts, forwards, starts; verdict, job and GPU or partition of an illegal one."""
    for i in range(len(preempts)):  # as given: the log keeps the order, the first error ends it
        verdict = _preempt(state, preempts[i])
        if verdict == NOT_RUNNING and preempts[i] in preempts[:i]:
            verdict = PREEMPTED_TWICE
        if verdict != LEGAL:
            return verdict, preempts[i], -1
    for i in range(len(forwards)):  # after the preempts: who was stopped may be handed on
        for earlier in range(i):  # against all before, as no row has a mark of this decision
            if forwards[earlier, 0] == forwards[i, 0]:  # the log has room for one a job
                return FORWARDED_TWICE, forwards[i, 0], forwards[i, 1]
        verdict = _forward(state, forwards[i, 0], forwards[i, 1])
        if verdict != LEGAL:
            return verdict, forwards[i, 0], forwards[i, 1]
    verdict, job, gpu = _start_each(state, start_jobs, start_first, start_gpus, lease_s)
    if verdict != LEGAL:
        return verdict, job, gpu
    rerate(state)
    if wake_s <= state.world[0].now_s:
        return PAST_WAKE, -1, -1
    state.world[0].wake_s = np.inf if np.isnan(wake_s) else wake_s
    return LEGAL, -1, -1


@kernel
def capacity_for(state: State, m: int, job: int) -> int:
    """GPUs of partition `m`; 0 where its servers could not hold the job even if all were empty."""
    row, part, workers = state.job[job], state.partition[m], 0
    if part.gpus < row.num_gpus:
        return 0
    if state.world[0].demands_matter == 0:
        return int(part.gpus)
    for at in range(part.first_own, part.last_own):  # server by server: no worker spans two
        server = state.server[state.own[at]]
        size = server.last_gpu - server.first_gpu
        workers += workers_for(row, size, server.gpu_type, server.cpu_milli, server.memory_mib)
    return int(part.gpus) if workers >= row.num_gpus else 0


@array_kernel
def capacities(state: State) -> IntArray:
    """(J, M) `capacity_for` every job."""
    found = np.zeros((len(state.job), len(state.partition)), dtype=np.int64)
    for job in range(len(found)):  # kept by nobody: asked once, where forwarding is random
        for m in range(len(state.partition)):  # partitions differ in servers, so each is asked
            found[job, m] = capacity_for(state, m, job)
    return found
