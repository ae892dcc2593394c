"""Check and apply a decision."""

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.jit import kernel
from sim.kernel.layout import QUEUED, RUNNING, State
from sim.kernel.leaving import requeue
from sim.kernel.placing import begin_run
from sim.kernel.rates import rerate
from sim.kernel.records import FORWARD, PREEMPT, START, log_event, queue_remove
from sim.physics.slowing import fits_beside
from sim.room_rules import may_join

# Verdicts; the Python side words them.
LEGAL, NO_SUCH_JOB, NOT_RUNNING, NOT_QUEUED, NO_SUCH_PARTITION, TOO_MANY_FORWARDS = range(6)
WRONG_GANG, NO_SUCH_GPU, FOREIGN_GPU, GPU_TWICE, GPU_FULL, DOES_NOT_FIT, PAST_WAKE = range(6, 13)
FORWARDED_TWICE, SERVER_AWAY, WRONG_TYPE, NO_CORES, NO_MEMORY, PAST_LEASE = range(13, 19)


@kernel
def _check_tenants(state: State, job: int, gpu: int, kind: int) -> int:
    jobs, tenants = state.job, state.gpu[gpu].tenants
    milli, limit_milli = jobs[job].gpu_milli, state.world[0].gpu_limit_milli
    if not may_join(tenants, state.tenant.shape[1], state.gpu[gpu].milli, milli, limit_milli):
        return GPU_FULL
    for k in range(tenants):
        other = jobs[state.tenant[gpu, k]]
        if not fits_beside(
            state.physics.feasible, kind, jobs[job].profile, milli, other.profile, other.gpu_milli
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
    for i in range(gang):
        verdict = check_gpu(state, job, gpus[i])
        if verdict != LEGAL:
            return verdict, gpus[i]
        for earlier in range(i):
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
    for job in preempts:
        verdict = _preempt(state, job)
        if verdict != LEGAL:
            return verdict, job, -1
    for i in range(len(forwards)):
        for earlier in range(i):
            if forwards[earlier, 0] == forwards[i, 0]:  # the log has room for one a job
                return FORWARDED_TWICE, forwards[i, 0], forwards[i, 1]
        verdict = _forward(state, forwards[i, 0], forwards[i, 1])
        if verdict != LEGAL:
            return verdict, forwards[i, 0], forwards[i, 1]
    for i in range(len(start_jobs)):
        gpus = start_gpus[start_first[i] : start_first[i + 1]]
        verdict, gpu = _start(state, start_jobs[i], gpus, lease_s[i])
        if verdict != LEGAL:
            return verdict, start_jobs[i], gpu
    rerate(state)
    if wake_s <= state.world[0].now_s:
        return PAST_WAKE, -1, -1
    state.world[0].wake_s = np.inf if np.isnan(wake_s) else wake_s
    return LEGAL, -1, -1
