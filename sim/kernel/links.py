"""Jobs that come to the links of the network and leave them, where the links are shared out."""

from sim.jit import kernel
from sim.kernel.layout import State
from sim.physics.link_load import exposed_seconds, local_seconds, measure_placement
from sim.physics.link_loads import enter, leave


@kernel
def _compute_s(state: State, job: int) -> float:
    """Compute seconds of the slowest worker, without neighbours."""
    row, slowest_s = state.job[job], 0.0
    for at in range(row.first, row.first + row.held):
        kind = state.server[state.gpu[state.placed[at]].server].type
        slowest_s = max(slowest_s, state.physics.compute_s[row.profile, kind])
    return slowest_s


@kernel
def enter_links(state: State, job: int) -> None:
    """Put a job that starts on its links, and measure what it costs inside its servers."""
    row, network, loads = state.job[job], state.network, state.loads
    if row.held == 1:
        loads.job[job].local_s = 0.0
        return
    gang, gpus = loads.load.gang, state.placed[row.first : row.first + row.held]
    servers = measure_placement(gpus, state.gpu["server"], gang)
    local_s = local_seconds(network, row.profile, servers, gang)
    loads.job[job].local_s = local_s
    if servers > 1:
        elsewhere_s = _compute_s(state, job) + exposed_seconds(network, local_s, 0.0)
        enter(loads, network, job, row.profile, servers, elsewhere_s)


@kernel
def leave_links(state: State, job: int) -> None:
    """Take a job that stops off its links."""
    leave(state.loads, state.network, job)


@kernel
def shared_comm_s(state: State, job: int) -> float:
    """Seconds of exposed communication of a running job beside the others on its links."""
    row = state.loads.job[job]
    return exposed_seconds(state.network, row.local_s, row.spread_s)
