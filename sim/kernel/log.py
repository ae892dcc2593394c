"""The kernel's side of the event log: rows appended until Python flushes them."""

from numba import njit

from sim.kernel.state import NOW_S, NUM_LOGGED, NUM_LOGGED_GPUS, State

FINISH, ARRIVAL, PREEMPT, FORWARD, START = 0, 1, 2, 3, 4  # sim.event_log.Kind


@njit(cache=True)
def log_event(state: State, kind: int, job: int) -> None:
    """Append one event; a START also writes its GPUs."""
    row = state.counts[NUM_LOGGED]
    state.log_s[row] = state.clock[NOW_S]
    state.log_kind[row] = kind
    state.log_job[row] = job
    state.log_partition[row] = state.partition[job]
    state.counts[NUM_LOGGED] = row + 1
    if kind == START:
        first = state.counts[NUM_LOGGED_GPUS]
        for at in range(state.slot[job], state.slot[job + 1]):
            state.log_gpus[first] = state.placed[at]
            first += 1
        state.counts[NUM_LOGGED_GPUS] = first
