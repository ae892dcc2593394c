"""The kernel's side of the event log: rows appended until Python flushes them."""

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
    for i in range(gpus):
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
    for gpu in range(row.first_gpu, row.last_gpu):
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
    for kind in (PREEMPT, FORWARD, START):
        at = 0
        for i in range(len(rows)):
            count = rows[i].gpus
            if rows[i].kind == kind:
                state.log[to] = rows[i]
                for k in range(count):  # a slice would have numba compile the words of its error
                    state.log_gpus[to_gpu + k] = gpus[at + k]
                to, to_gpu = to + 1, to_gpu + count
            at += count
