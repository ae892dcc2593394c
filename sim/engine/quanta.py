"""Least attained service: how many quanta each running job has attained, kept from look to look.

Going through all running jobs is the price of waiting under this rule, so what is looked at stands
close together and is worked out anew only for jobs that may have crossed a quantum.
"""

import numpy as np

from sim.engine.layout import NOBODY, Memory
from sim.engine.queues import attained_gpu_s, steps_of
from sim.jit import kernel
from sim.kernel.layout import State

# How far times that are worked out in two ways may lie apart: the rounding of `steps_of` and that
# of the numbers. Too large costs time, not truth.
SLACK_QUANTA = 1e-8
SLACK_FRAC = 1e-12
SLACK_S = 1e-6


@kernel
def _recall_refusals(memory: Memory, m: int, before: float, steps: float) -> None:
    """A running job may be preempted now by jobs with keys from `before` to below `steps`."""
    for number in range(len(memory.kind)):
        tried = memory.tried[m, number]
        if before <= tried.refused_key < steps:
            tried.refused = NOBODY


@kernel
def forget_rank(memory: Memory, job: int) -> None:
    """What is known of `job` is void: it stands elsewhere, or starts anew."""
    rank = memory.rank[memory.waiter[job].ranked_at]
    if rank.job == job:
        rank.job = NOBODY


@kernel
def _rank(state: State, memory: Memory, job: int, at: int) -> None:
    """Write rank number `at`, of a job that now stands there or may have crossed a quantum."""
    rank, row, quantum_gpu_s = memory.rank[at], state.job[job], memory.rule[0].quantum_gpu_s
    attained = attained_gpu_s(state, job)
    steps = steps_of(attained, quantum_gpu_s)
    before = rank.steps if rank.job == job else steps_of(row.served_gpu_s, quantum_gpu_s)
    if steps > before:
        _recall_refusals(memory, row.partition, before, steps)
    next_s = row.resume_s + ((steps + 1.0) * quantum_gpu_s - row.served_gpu_s) / row.held
    slack_s = SLACK_QUANTA * quantum_gpu_s / row.held + SLACK_S
    slack_s += SLACK_FRAC * (abs(next_s) + attained / row.held)
    forget_rank(memory, job)
    rank.job = job
    rank.steps = steps
    rank.next_s = next_s
    rank.early_s = next_s - slack_s
    memory.waiter[job].ranked_at = at


@kernel
def refresh_ranks(state: State, memory: Memory) -> None:
    """Make the ranks of those true who ran as the decision began; once a decision."""
    game, now_s = memory.game[0], state.world[0].now_s
    if game.ranked_in == game.decisions:
        return
    game.ranked_in = game.decisions
    for at in range(state.world[0].num_running):
        rank, job = memory.rank[at], state.running[at]
        if rank.job == job and rank.early_s > now_s:
            continue
        if memory.waiter[job].started_in != game.decisions:
            _rank(state, memory, job, at)


@kernel
def _wait_s(state: State, memory: Memory, job: int, attained: float, restart_s: float) -> float:
    """Seconds until `job` has attained a whole quantum more, as `sim.schedulers.orders` says it."""
    quantum_gpu_s = memory.rule[0].quantum_gpu_s
    next_gpu_s = (steps_of(attained, quantum_gpu_s) + 1.0) * quantum_gpu_s
    return float((next_gpu_s - attained) / state.job[job].num_gpus + restart_s)


@kernel
def running_wait_s(state: State, memory: Memory, job: int) -> float:
    """The same for one who runs."""
    restart_s = max(state.job[job].resume_s - state.world[0].now_s, 0.0)
    return _wait_s(state, memory, job, attained_gpu_s(state, job), restart_s)


@kernel
def rank_of(state: State, memory: Memory, at: int) -> int:
    """Where the rank of number `at` of the running jobs stands; NOBODY: this decision started it.

    Who was moved in the kernel's order since the ranks were made true is found by its own row.
    """
    job = state.running[at]
    if memory.rank[at].job == job:
        return at
    if memory.waiter[job].started_in == memory.game[0].decisions:
        return NOBODY
    return int(memory.waiter[job].ranked_at)


@kernel
def note_quantum(state: State, memory: Memory, m: int) -> None:
    """Ask again when the next job of partition `m` crosses a quantum.

    Of those that ran as the decision began, and those that it starts.
    """
    game, now_s, running = memory.game[0], state.world[0].now_s, state.running
    least_s, soon_s, several = game.lost_wake_s, np.inf, len(state.partition) > 1
    refresh_ranks(state, memory)
    for at in range(state.world[0].num_running):
        rank = rank_of(state, memory, at)
        if rank != NOBODY and not (several and state.job[running[at]].partition != m):
            soon_s = min(soon_s, memory.rank[rank].next_s)
    soon_s += 2.0 * (SLACK_S + SLACK_FRAC * abs(now_s))
    for at in range(state.world[0].num_running):
        job, rank = running[at], rank_of(state, memory, at)
        if several and state.job[job].partition != m:
            continue
        if rank == NOBODY:
            if memory.waiter[job].stopped_in != game.decisions:
                attained = state.job[job].attained_gpu_s
                least_s = min(least_s, _wait_s(state, memory, job, attained, 0.0))
        elif memory.rank[rank].early_s <= soon_s:
            least_s = min(least_s, running_wait_s(state, memory, job))
    if least_s < np.inf:
        game.wake_s = min(game.wake_s, max(now_s + least_s, np.nextafter(now_s, np.inf)))
