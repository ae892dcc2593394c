"""What the kernel keeps in order: the log of events, running jobs by what is next, who waits."""

from sim.heap import OUT, add_to_heap, drop_from_heap, move_in_heap
from sim.jit import array_kernel, kernel
from sim.kernel.layout import NO_JOB, State

# sim.run.Kind
FINISH, ARRIVAL, PREEMPT, FORWARD, START, FAIL, EVICT, EXPIRE, WITHDRAW = range(9)
SERVER_DOWN, SERVER_UP, READY = 9, 10, 11


@kernel
def log_event(state: State, kind: int, job: int, gpus: int) -> None:
    """Append one event, with the first `gpus` GPUs of the job's placement."""
    world, rows, jobs = state.world[0], state.log, state.job
    at = world.num_logged
    rows[at].time_s = world.now_s
    rows[at].kind = kind
    rows[at].job = job
    rows[at].partition = jobs[job].partition
    rows[at].gpus = gpus
    world.num_logged = at + 1
    to = world.num_logged_gpus
    first = jobs[job].first
    for i in range(gpus):  # in order of workers: worker i runs on the i-th GPU
        state.log_gpus[to + i] = state.placed[first + i]
    world.num_logged_gpus = to + gpus


@kernel
def log_half_full(state: State) -> bool:
    """Whether the log should be flushed before another instant or decision writes to it."""
    world = state.world[0]
    return bool(
        2 * world.num_logged > len(state.log) or 2 * world.num_logged_gpus > len(state.log_gpus)
    )


@kernel
def log_server(state: State, kind: int, server: int) -> None:
    """Append one event of a server, with its GPUs."""
    world, rows, row = state.world[0], state.log, state.server[server]
    at = world.num_logged
    rows[at].time_s = world.now_s
    rows[at].kind = kind
    rows[at].job = NO_JOB
    rows[at].partition = row.partition
    rows[at].gpus = row.last_gpu - row.first_gpu
    world.num_logged = at + 1
    to = world.num_logged_gpus
    for gpu in range(row.first_gpu, row.last_gpu):  # a replay learns from them what is down
        state.log_gpus[to] = gpu
        to += 1
    world.num_logged_gpus = to


@array_kernel
def sort_orders(state: State, first_row: int, first_gpu: int) -> None:
    """Let the orders of a decision, logged from there on, be preemptions, forwards, starts.

    Each kind stays in the order in which they were carried out.
    """
    world = state.world[0]
    rows = state.log[first_row : world.num_logged].copy()
    gpus = state.log_gpus[first_gpu : world.num_logged_gpus].copy()
    to, to_gpu = first_row, first_gpu
    for kind in (PREEMPT, FORWARD, START):  # few kinds: three passes keep the order in each
        at = 0
        for i in range(len(rows)):  # rows of all kinds, for `at` has to pass the GPUs of each
            count = rows[i].gpus
            if rows[i].kind == kind:
                state.log[to] = rows[i]
                for k in range(count):  # a slice would have numba compile the words of its error
                    state.log_gpus[to_gpu + k] = gpus[at + k]
                to, to_gpu = to + 1, to_gpu + count
            at += count


@kernel
def heap_set(state: State, job: int, at_s: float) -> None:
    """Insert `job` or move it to its new time."""
    world = state.world[0]
    if state.job[job].heap_at == OUT:
        world.heap_size = add_to_heap(state.heap, state.job, world.heap_size, at_s, job, job)
    else:
        move_in_heap(state.heap, state.job, world.heap_size, at_s, job, job)


@kernel
def heap_remove(state: State, job: int) -> None:
    """Take `job` out, if it is there."""
    world = state.world[0]
    if state.job[job].heap_at != OUT:
        world.heap_size = drop_from_heap(state.heap, state.job, world.heap_size, job)


@kernel
def queue_insert(state: State, job: int) -> None:
    """Put `job` in; moves the shorter side where there is room in front."""
    world, queue = state.world[0], state.queue
    first = world.queue_first
    last = first + world.num_queued
    world.num_queued += 1
    if world.num_joined < len(state.joined):  # full where nobody looks
        state.joined[world.num_joined] = job
        world.num_joined += 1
    if first > 0 and last > first and job < queue[first + (last - first) // 2]:
        at = first - 1
        world.queue_first = at
        while at + 1 < last and queue[at + 1] < job:  # who comes before it moves one place forward
            queue[at] = queue[at + 1]
            at += 1
        queue[at] = job
        return
    if last == len(queue):
        for at in range(first, last):  # ascending: each place is read before it is overwritten
            queue[at - first] = queue[at]
        world.queue_first = 0
        last -= first
        first = 0
    while last > first and queue[last - 1] > job:  # from behind: who arrives has the highest row
        queue[last] = queue[last - 1]
        last -= 1
    queue[last] = job


@kernel
def queue_remove(state: State, job: int) -> None:
    """Take `job` out; moves the shorter side."""
    world, queue = state.world[0], state.queue
    first = world.queue_first
    last = first + world.num_queued
    world.num_queued -= 1
    low, high = first, last
    if queue[first] == job:
        high = first
    while low < high:  # halved, for rows ascend; the first of the queue is found at once
        middle = (low + high) // 2
        if queue[middle] < job:
            low = middle + 1
        else:
            high = middle
    if low - first < last - 1 - low:
        for at in range(low, first, -1):  # descending: each place is read before it is overwritten
            queue[at] = queue[at - 1]
        world.queue_first = first + 1
    else:
        for at in range(low, last - 1):  # ascending: each place is read before it is overwritten
            queue[at] = queue[at + 1]
