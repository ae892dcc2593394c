"""Load of a server's cores and PCIe: counted as jobs come and go, speeds refreshed where it tells.

Counts are whole numbers, so that they come back to what they were.
"""

from sim.jit import kernel
from sim.kernel.layout import State
from sim.kernel.rates import mark_dirty


@kernel
def load_host(state: State, job: int, workers: int) -> None:
    """Count the job's GPUs in (`workers` 1) or out (-1), and mark whom that slows or speeds up."""
    row, gpus = state.job[job], state.gpu
    for at in range(row.first, row.first + row.held):
        where = state.server[gpus[state.placed[at]].server]
        where.busy_milli += workers * row.busy_milli
        where.moved_mbs += workers * row.moved_mbs
    for at in range(row.first, row.first + row.held):
        _settle(state, gpus[state.placed[at]].server)


@kernel
def _settle(state: State, server: int) -> None:
    where = state.server[server]
    stretch = max(1.0, where.busy_milli / where.host_milli, where.moved_mbs / where.host_mbs)
    if stretch == where.stretch:
        return
    where.stretch = stretch
    for gpu in range(where.first_gpu, where.last_gpu):
        for k in range(state.gpu[gpu].tenants):
            mark_dirty(state, state.tenant[gpu, k])
