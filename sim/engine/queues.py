"""The waiting jobs, a heap for each class in each partition, and the keys that order them.

Least attained service: how many quanta each running job has attained, kept from look to look. Going
through all running jobs is the price of waiting under this rule, so what is looked at stands close
together and is worked out anew only for jobs that may have crossed a quantum.
"""

import numpy as np

from sim.arrays import FloatArray, IntArray, RowArray
from sim.codes import ASKED, FIXED, LEFT, QUANTA, SERVICE, SMALLEST_GANG, TRUE_LEFT, WORKED_OUT
from sim.engine.layout import KEY, NOBODY, Memory
from sim.handle import weigh
from sim.jit import array_kernel, kernel
from sim.kernel.layout import QUEUED, Row, State

QUANTUM_ROUNDING = 1e-9  # of a quantum: a job woken at its boundary counts as past it


@kernel
def _comes_before(waiter: RowArray, a: int, b: int, sign: int) -> bool:
    """By key, then by row; the other way round with `sign` -1."""
    mine, theirs = sign * waiter[a].key, sign * waiter[b].key
    return bool(mine < theirs or (mine == theirs and sign * a < sign * b))


@kernel
def meld(waiter: RowArray, a: int, b: int, sign: int) -> int:
    """Root of the heap of all jobs in two heaps: a skew heap, linked through the jobs' rows."""
    if a == NOBODY:
        return b
    if b == NOBODY:
        return a
    if _comes_before(waiter, b, a, sign):
        a, b = b, a
    root = a
    while True:  # down the right side, which becomes the left one: so it stays short on average
        below = waiter[a].right
        waiter[a].right = waiter[a].left
        if below == NOBODY:
            waiter[a].left = b
            return root
        if _comes_before(waiter, b, below, sign):
            below, b = b, below
        waiter[a].left = below
        a = below


@kernel
def heap_push(waiter: RowArray, root: int, job: int, sign: int) -> int:
    """Root of the heap with `job`, whose key is written."""
    waiter[job].left = NOBODY
    waiter[job].right = NOBODY
    return meld(waiter, root, job, sign)


@kernel
def heap_pop(waiter: RowArray, root: int, sign: int) -> int:
    """Root of the heap without its first."""
    return meld(waiter, waiter[root].left, waiter[root].right, sign)


@kernel
def steps_of(attained_gpu_s: float, quantum_gpu_s: float) -> float:
    """Whole quanta attained."""
    return float(np.floor(attained_gpu_s / quantum_gpu_s + QUANTUM_ROUNDING))


@kernel
def attained_gpu_s(state: State, job: int) -> float:
    """Service of a running job up to now, as the kernel's `observe` writes it."""
    row = state.job[job]
    return float(row.served_gpu_s + max(0.0, state.world[0].now_s - row.resume_s) * row.held)


@kernel
def progress_s(state: State, job: int) -> float:
    """Work that a running job has done up to now, likewise."""
    row = state.job[job]
    return float(row.progress_s + row.rate * max(0.0, state.world[0].now_s - row.rated_s))


@kernel
def key_after(memory: Memory, row: Row, job: int, progress_s: float) -> float:
    """Key of a job that has done so much; FIXED and ASKED keys are given."""
    order, waiter = memory.rule[0].order, memory.waiter[job]
    if order == TRUE_LEFT:
        return float(row.work_s - progress_s)
    if order in (LEFT, SERVICE):
        left_s = max(waiter.estimate_s - progress_s, 0.0)
        return float(left_s * row.num_gpus if order == SERVICE else left_s)
    if order == SMALLEST_GANG:
        return float(row.num_gpus)
    return float(waiter.key) if order in (FIXED, ASKED) else 0.0


@kernel
def waiting_key(state: State, memory: Memory, job: int) -> float:
    """Key of a waiting job; it does not change while the job waits, but where the rule `ages`."""
    row = state.job[job]
    if memory.rule[0].order == WORKED_OUT:
        return float(weigh(memory.routine[KEY], state, memory, job, 0))
    if memory.rule[0].order == QUANTA:
        return steps_of(row.attained_gpu_s, memory.rule[0].quantum_gpu_s)
    return key_after(memory, row, job, row.seen_progress_s)


@kernel
def running_key(state: State, memory: Memory, job: int) -> float:
    """Key of a running job now, QUANTA apart (`refresh_ranks`)."""
    if memory.rule[0].order == WORKED_OUT:
        return float(weigh(memory.routine[KEY], state, memory, job, 1))
    return key_after(memory, state.job[job], job, progress_s(state, job))


@kernel
def queue_number(state: State, memory: Memory, job: int) -> int:
    """Queue of its partition in which a job waits."""
    classes = len(memory.job_class)
    stays = state.job[job].forwards >= state.world[0].max_forwards
    return int(memory.waiter[job].job_class + (classes if stays else 0))


@kernel
def join(state: State, memory: Memory, job: int) -> None:
    """Let `job` wait in its partition, by its key."""
    m, number = state.job[job].partition, queue_number(state, memory, job)
    queue = memory.queue[m, number]
    memory.waiter[job].key = waiting_key(state, memory, job)
    if queue.size == 0:
        queue.root = NOBODY
        queue.live_at = memory.num_live[m]
        memory.live[m, memory.num_live[m]] = number
        memory.num_live[m] += 1
    queue.root = heap_push(memory.waiter, queue.root, job, 1)
    queue.size += 1


@kernel
def put_in_order(state: State, memory: Memory) -> None:
    """Let all who wait do so by their keys of now, where keys change as jobs wait."""
    world, rule = state.world[0], memory.rule[0]
    for m in range(len(state.partition)):  # all heaps are void: their order is that of old keys
        memory.num_live[m] = 0
        for number in range(memory.queue.shape[1]):  # size alone: `join` roots an empty queue anew
            memory.queue[m, number].size = 0
    # From the kernel's queue: heaps may hold jobs, too, that users have withdrawn.
    for at in range(world.queue_first, world.queue_first + world.num_queued):
        job = state.queue[at]
        if rule.listed != 0:
            memory.waiter[job].key = waiting_key(state, memory, job)
        else:
            join(state, memory, job)


@kernel
def _shrink(memory: Memory, m: int, number: int) -> None:
    """A job has left a queue; one without jobs is not live."""
    queue = memory.queue[m, number]
    queue.size -= 1
    if queue.size == 0:
        memory.num_live[m] -= 1
        moved = memory.live[m, memory.num_live[m]]
        memory.live[m, queue.live_at] = moved
        memory.queue[m, moved].live_at = queue.live_at


@kernel
def drop_first(memory: Memory, m: int, number: int) -> None:
    """Take the first job of a queue out."""
    queue = memory.queue[m, number]
    queue.root = heap_pop(memory.waiter, queue.root, 1)
    _shrink(memory, m, number)


@kernel
def take_out(state: State, memory: Memory, job: int) -> None:
    """Take `job` out of the queue in which it waits, wherever it stands there (rare, so plain)."""
    m, number = state.job[job].partition, queue_number(state, memory, job)
    queue, kept = memory.queue[m, number], NOBODY
    for _ in range(queue.size):  # all of them once: a skew heap finds its first job only
        first = queue.root
        queue.root = heap_pop(memory.waiter, first, 1)
        if first != job:
            kept = heap_push(memory.waiter, kept, first, 1)
    queue.root = kept
    _shrink(memory, m, number)


@kernel
def follow(state: State, memory: Memory) -> bool:
    """Let those wait who began to since the last look; False: keys of some are to be written first.

    A FIXED key may be another once a job has run, unless it is preempted by such keys.
    """
    world, scalars, rule = state.world[0], memory.scalars[0], memory.rule[0]
    if rule.order == FIXED and rule.preempts == 0 and scalars.keyed == 0:
        for at in range(world.num_joined):  # one that has run is enough: all keys are written anew
            if state.job[state.joined[at]].restarts > 0:
                return False
    scalars.keyed = 0
    for at in range(world.num_joined):  # some may have been withdrawn since: their status says so
        job = state.joined[at]
        if state.job[job].status == QUEUED and memory.rule[0].listed != 0:
            memory.waiter[job].key = waiting_key(state, memory, job)
        elif state.job[job].status == QUEUED:
            join(state, memory, job)
    world.num_joined = 0
    return True


@kernel
def first_of(state: State, memory: Memory, m: int, number: int) -> int:
    """First job of a live queue; NOBODY if none of those in it waits any more: it is gone then.

    Jobs that their users have withdrawn are dropped on the way.
    """
    queue = memory.queue[m, number]
    while queue.size > 0 and state.job[queue.root].status != QUEUED:
        drop_first(memory, m, number)
    return int(queue.root if queue.size > 0 else NOBODY)


# How far times that are worked out in two ways may lie apart: the rounding of `steps_of` and that
# of the numbers. Too large costs time, not truth.
SLACK_QUANTA = 1e-8
SLACK_FRAC = 1e-12
SLACK_S = 1e-6


@kernel
def _recall_refusals(memory: Memory, m: int, before: float, steps: float) -> None:
    """A running job may be preempted now by jobs with keys from `before` to below `steps`."""
    for number in range(len(memory.job_class)):
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
    scalars, now_s = memory.scalars[0], state.world[0].now_s
    if scalars.ranked_in == scalars.decisions:
        return
    scalars.ranked_in = scalars.decisions
    for at in range(state.world[0].num_running):  # many are passed by `early_s` without arithmetic
        rank, job = memory.rank[at], state.running[at]
        if rank.job == job and rank.early_s > now_s:
            continue
        if memory.waiter[job].started_in != scalars.decisions:
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
    if memory.waiter[job].started_in == memory.scalars[0].decisions:
        return NOBODY
    return int(memory.waiter[job].ranked_at)


@kernel
def note_quantum(state: State, memory: Memory, m: int) -> None:
    """Ask again when the next job of partition `m` crosses a quantum.

    Of those that ran as the decision began, and those that it starts.
    """
    scalars, now_s, running = memory.scalars[0], state.world[0].now_s, state.running
    least_s, soon_s, several = scalars.lost_wake_s, np.inf, len(state.partition) > 1
    refresh_ranks(state, memory)
    for at in range(state.world[0].num_running):  # first roughly, by times that stand at hand
        rank = rank_of(state, memory, at)
        if rank != NOBODY and not (several and state.job[running[at]].partition != m):
            soon_s = min(soon_s, memory.rank[rank].next_s)
    soon_s += 2.0 * (SLACK_S + SLACK_FRAC * abs(now_s))
    for at in range(state.world[0].num_running):  # then exactly, who may be first within rounding
        job, rank = running[at], rank_of(state, memory, at)
        if several and state.job[job].partition != m:
            continue
        if rank == NOBODY:
            if memory.waiter[job].stopped_in != scalars.decisions:
                attained = state.job[job].attained_gpu_s
                least_s = min(least_s, _wait_s(state, memory, job, attained, 0.0))
        elif memory.rank[rank].early_s <= soon_s:
            least_s = min(least_s, running_wait_s(state, memory, job))
    if least_s < np.inf:
        scalars.wake_s = min(scalars.wake_s, max(now_s + least_s, np.nextafter(now_s, np.inf)))


@array_kernel
def tetris_score(gang: IntArray, left_s: FloatArray, largest: float) -> FloatArray:
    """Alignment plus shortness, the highest first.

    Args:
        gang: (q,) GPUs of each job, q at least 1.
        left_s: (q,) predicted work left.
        largest: GPUs of the largest server.

    Returns:
        (q,) scores.
    """
    alignment = np.minimum(gang.astype(np.float64), largest) / largest
    work_gpu_s = left_s * gang
    mean = work_gpu_s.mean()
    short = work_gpu_s / mean if mean > 0 else np.zeros_like(work_gpu_s)
    score: FloatArray = alignment - alignment.mean() * short
    return score


@array_kernel
def tetris_order(state: State, memory: Memory, m: int, jobs: IntArray) -> IntArray:
    """`jobs` by falling score, which depends on who they are."""
    if len(jobs) == 0:
        return jobs
    largest = 0
    # The largest server is that of the partition, whether it is away or not.
    for i in range(state.partition[m].first_own, state.partition[m].last_own):
        where = state.server[state.own[i]]
        largest = max(largest, where.last_gpu - where.first_gpu)
    left_s = np.empty(len(jobs))
    for i, job in enumerate(jobs):  # who has outrun the prediction has nothing left, not less
        done_s = state.job[job].seen_progress_s
        left_s[i] = max(memory.waiter[job].estimate_s - done_s, 0.0)
    gang = np.array([state.job[job].num_gpus for job in jobs])
    score = tetris_score(gang, left_s, float(largest))
    order: IntArray = jobs[np.argsort(-score, kind="mergesort")]
    return order
