"""Check and apply a decision."""

import numpy as np
from numba import njit

from sim.arrays import IntArray
from sim.kernel.log import FORWARD, PREEMPT, START, log_event
from sim.kernel.placing import occupy, queue_insert, queue_remove, vacate
from sim.kernel.rates import rerate
from sim.kernel.state import NOW_S, QUEUED, RUNNING, WAKE_S, State

# Verdicts; the Python side words them.
LEGAL, NO_SUCH_JOB, NOT_RUNNING, NOT_QUEUED, NO_SUCH_PARTITION, TOO_MANY_FORWARDS = range(6)
WRONG_GANG, NO_SUCH_GPU, FOREIGN_GPU, GPU_TWICE, GPU_FULL, DOES_NOT_FIT, PAST_WAKE = range(6, 13)
FORWARDED_TWICE = 13


@njit(cache=True)
def _check_gpu(state: State, job: int, gpu: int) -> int:
    if not 0 <= gpu < len(state.gpu_server):
        return NO_SUCH_GPU
    server = state.gpu_server[gpu]
    if state.server_partition[server] != state.partition[job]:
        return FOREIGN_GPU
    if state.tenants[gpu] >= state.tenant.shape[1]:
        return GPU_FULL
    kind = state.server_type[server]
    for k in range(state.tenants[gpu]):
        other = state.tenant[gpu, k]
        if not state.feasible[kind, state.profile[job], state.profile[other]]:
            return DOES_NOT_FIT
    return LEGAL


@njit(cache=True)
def _start(state: State, job: int, gpus: IntArray) -> tuple[int, int]:
    """Verdict and the GPU it is about."""
    if not 0 <= job < len(state.status):
        return NO_SUCH_JOB, -1
    if state.status[job] != QUEUED:
        return NOT_QUEUED, -1
    if len(gpus) != state.num_gpus[job]:
        return WRONG_GANG, len(gpus)
    first = state.slot[job]
    for i in range(len(gpus)):
        verdict = _check_gpu(state, job, gpus[i])
        if verdict != LEGAL:
            return verdict, gpus[i]
        for earlier in range(i):
            if state.placed[first + earlier] == gpus[i]:
                return GPU_TWICE, gpus[i]
        state.placed[first + i] = gpus[i]
    queue_remove(state, job)
    occupy(state, job)
    log_event(state, START, job)
    return LEGAL, -1


@njit(cache=True)
def _preempt(state: State, job: int) -> int:
    if not 0 <= job < len(state.status):
        return NO_SUCH_JOB
    if state.status[job] != RUNNING:
        return NOT_RUNNING
    vacate(state, job, QUEUED)
    state.preemptions[job] += 1
    state.seen_progress_s[job] = state.progress_s[job]
    state.attained_gpu_s[job] = state.served_s[job] * state.num_gpus[job]
    queue_insert(state, job)
    log_event(state, PREEMPT, job)
    return LEGAL


@njit(cache=True)
def _forward(state: State, job: int, partition: int) -> int:
    if not 0 <= job < len(state.status):
        return NO_SUCH_JOB
    if state.status[job] != QUEUED:
        return NOT_QUEUED
    if not 0 <= partition <= state.server_partition.max() or partition == state.partition[job]:
        return NO_SUCH_PARTITION
    if state.forwards[job] >= state.rules[1]:
        return TOO_MANY_FORWARDS
    state.partition[job] = partition
    state.forwards[job] += 1
    log_event(state, FORWARD, job)
    return LEGAL


@njit(cache=True)
def apply_decision(
    state: State,
    preempts: IntArray,  # (p,)
    forwards: IntArray,  # (f, 2) job, partition
    start_jobs: IntArray,  # (n,)
    start_first: IntArray,  # (n + 1,) GPUs of start i: start_gpus[first[i]:first[i + 1]]
    start_gpus: IntArray,
    wake_s: float,  # NaN: none
) -> tuple[int, int, int]:
    """Apply preempts, forwards, starts; verdict, job and GPU or partition of an illegal one."""
    for job in preempts:
        verdict = _preempt(state, job)
        if verdict != LEGAL:
            return verdict, job, -1
    for i in range(len(forwards)):
        if np.any(forwards[:i, 0] == forwards[i, 0]):  # the log has room for one a job
            return FORWARDED_TWICE, forwards[i, 0], forwards[i, 1]
        verdict = _forward(state, forwards[i, 0], forwards[i, 1])
        if verdict != LEGAL:
            return verdict, forwards[i, 0], forwards[i, 1]
    for i in range(len(start_jobs)):
        gpus = start_gpus[start_first[i] : start_first[i + 1]]
        verdict, gpu = _start(state, start_jobs[i], gpus)
        if verdict != LEGAL:
            return verdict, start_jobs[i], gpu
    rerate(state)
    if wake_s <= state.clock[NOW_S]:
        return PAST_WAKE, -1, -1
    state.clock[WAKE_S] = np.inf if np.isnan(wake_s) else wake_s
    return LEGAL, -1, -1
