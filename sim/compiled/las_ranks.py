"""Least attained service: how many quanta each running job has attained, kept from look to look.

Going through all running jobs is the price of waiting under this rule, so what is looked at stands
close together and is worked out anew only for jobs that may have crossed a quantum.
"""

import numpy as np

from sim.compiled.layout import NONE, Memory, Present
from sim.compiled.priority import attained_gpu_s, steps_of
from sim.jit import kernel
from sim.kernel.layout import RUNNING, RowArray

# How far times that are worked out in two ways may lie apart: the rounding of `steps_of` and that
# of the numbers. Too large costs time, not truth.
SLACK_QUANTA = 1e-8
SLACK_FRAC = 1e-12
SLACK_S = 1e-6


@kernel
def _recall_refusals(memory: Memory, before: float, steps: float) -> None:
    """A running job may be preempted now by jobs with keys from `before` to below `steps`."""
    for at in range(memory.game[0].num_kinds):
        kind = memory.kind[memory.live[at]]
        if before <= kind.refused_key < steps:
            kind.refused = NONE


@kernel
def forget_rank(memory: Memory, job: int) -> None:
    """What is known of `job` is void: it stands elsewhere, or starts anew."""
    rank = memory.rank[memory.waiter[job].ranked_at]
    if rank.job == job:
        rank.job = NONE


@kernel
def _rank(jobs: RowArray, job: int, at: int, now_s: float, memory: Memory) -> None:
    """Write rank number `at`, of a job that now stands there or may have crossed a quantum."""
    rank, row, quantum_gpu_s = memory.rank[at], jobs[job], memory.game[0].quantum_gpu_s
    attained = attained_gpu_s(jobs, job, now_s)
    steps = steps_of(attained, quantum_gpu_s)
    before = rank.steps if rank.job == job else steps_of(row.served_gpu_s, quantum_gpu_s)
    if steps > before:
        _recall_refusals(memory, before, steps)
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
def refresh_ranks(now: Present, memory: Memory) -> None:
    """Make the ranks of all running jobs true; does nothing the second time in a decision."""
    game, now_s = memory.game[0], now.world[0].now_s
    if game.ranked_in == game.walk:
        return
    game.ranked_in = game.walk
    for at in range(now.world[0].num_running):
        rank = memory.rank[at]
        if rank.job != now.running[at] or rank.early_s <= now_s:
            _rank(now.job, now.running[at], at, now_s, memory)


@kernel
def _wait_s(jobs: RowArray, job: int, now_s: float, attained: float, quantum_gpu_s: float) -> float:
    """Seconds until `job` has attained a whole quantum more, as `sim.schedulers.las` says it."""
    next_gpu_s = (steps_of(attained, quantum_gpu_s) + 1.0) * quantum_gpu_s
    restart_s = max(jobs[job].resume_s - now_s, 0.0)
    return float((next_gpu_s - attained) / jobs[job].num_gpus + restart_s)


@kernel
def wake_s(now: Present, memory: Memory) -> float:
    """The next time at which a job that runs now or is about to start crosses a quantum."""
    jobs, count, now_s = now.job, now.world[0].num_running, now.world[0].now_s
    quantum_gpu_s, least_s, soon_s = memory.game[0].quantum_gpu_s, np.inf, np.inf
    refresh_ranks(now, memory)
    for at in range(count):
        soon_s = min(soon_s, memory.rank[at].next_s)
    soon_s += 2.0 * (SLACK_S + SLACK_FRAC * abs(now_s))
    for at in range(count):
        if memory.rank[at].early_s <= soon_s:
            job = now.running[at]
            attained = attained_gpu_s(jobs, job, now_s)
            least_s = min(least_s, _wait_s(jobs, job, now_s, attained, quantum_gpu_s))
    for i in range(memory.game[0].num_starts):
        job = memory.order[i].job
        if jobs[job].status != RUNNING:
            attained = jobs[job].attained_gpu_s
            least_s = min(least_s, _wait_s(jobs, job, now_s, attained, quantum_gpu_s))
    return float(max(now_s + least_s, np.nextafter(now_s, np.inf)))
