"""Speed of running jobs: measured again only where a neighbour, NIC or uplink changed.

And jobs that come to shared links and leave them.
"""

from sim.handle import tell
from sim.jit import kernel
from sim.kernel.layout import MARK_RESETTLED, RUNNING, State
from sim.kernel.records import heap_set
from sim.physics.job_load import exposed_seconds, local_seconds, measure_placement
from sim.physics.laws import Spread, busy_s, comm_of, slow_in
from sim.physics.link_loads import enter, leave
from sim.physics.mix_table import put_tenant
from sim.physics.refill import resettle


@kernel
def _compute_s(state: State, job: int) -> float:
    """Compute seconds of the slowest worker, without neighbours."""
    row, slowest_s = state.job[job], 0.0
    for at in range(row.first, row.first + row.held):
        gpu_type = state.server[state.gpu[state.placed[at]].server].type
        slowest_s = max(slowest_s, state.physics.compute_s[row.profile, gpu_type])
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
def mark_dirty(state: State, job: int) -> None:
    """Have `job` re-rated before the instant ends."""
    jobs = state.job
    if jobs[job].dirty == 0:
        world = state.world[0]
        jobs[job].dirty = 1
        state.dirty[world.num_dirty] = job
        world.num_dirty += 1


@kernel
def _mark_spanning(state: State, first_gpu: int, last_gpu: int, racks: bool) -> None:
    """Mark tenants of these GPUs that span several servers (or several racks)."""
    gpus, jobs = state.gpu, state.job
    for gpu in range(first_gpu, last_gpu):  # GPUs of a server, or of a rack, have ids in a row
        for k in range(gpus[gpu].tenants):  # a gang comes up on each of its GPUs: marked once
            job = state.tenant[gpu, k]
            if (jobs[job].racks if racks else jobs[job].servers) > 1:
                mark_dirty(state, job)


@kernel
def _mark_link_sharers(state: State, job: int) -> None:
    """Mark everyone on the NICs, and uplinks, of a job that spans servers (racks)."""
    jobs, gpus, servers, racks = state.job, state.gpu, state.server, state.rack
    world = state.world[0]
    world.token += 1
    token = world.token
    first = jobs[job].first
    for at in range(first, first + jobs[job].held):  # stamps say which servers were walked already
        server = gpus[state.placed[at]].server
        if servers[server].stamp == token:
            continue
        servers[server].stamp = token
        _mark_spanning(state, servers[server].first_gpu, servers[server].last_gpu, False)
        rack = servers[server].rack
        if jobs[job].racks > 1 and racks[rack].stamp != token:
            racks[rack].stamp = token
            last = racks[rack].last_server - 1
            _mark_spanning(
                state, servers[racks[rack].first_server].first_gpu, servers[last].last_gpu, True
            )


@kernel
def mark_neighbours(state: State, job: int) -> None:
    """Mark everyone whose speed the coming or going of `job` can change."""
    jobs, gpus = state.job, state.gpu
    if state.tenant.shape[1] > 1:
        first = jobs[job].first
        for at in range(first, first + jobs[job].held):  # as it leaves, too: `placed` keeps them
            gpu = state.placed[at]
            for k in range(gpus[gpu].tenants):  # as it starts itself, too: it is dirty anyway
                mark_dirty(state, state.tenant[gpu, k])
    if jobs[job].servers > 1 and state.world[0].links_matter != 0:
        _mark_link_sharers(state, job)


@kernel
def _slow_on(state: State, job: int, gpu: int, gpu_type: int) -> float:
    """Slow-down of `job` by the other tenants of one of its GPUs."""
    jobs, tenants = state.job, state.scratch
    count, at = state.gpu[gpu].tenants, 0
    for k in range(count):
        other = state.tenant[gpu, k]
        put_tenant(tenants, k, jobs[other].profile, jobs[other].gpu_milli)
        if other == job:
            at = k
    return slow_in(state.physics.slowing, gpu_type, tenants, count, at)


@kernel
def _worst_hosted_s(state: State, job: int) -> float:
    """Compute seconds of the slowest worker where cores and PCIe are shared.

    Not in the loop of `rate_of`: asking there whether they are cost other runs one part in 20.
    """
    row, gpus, servers, worst_s = state.job[job], state.gpu, state.server, 0.0
    for at in range(row.first, row.first + row.held):  # a gang waits for its slowest worker
        gpu = state.placed[at]
        where = servers[gpus[gpu].server]
        slow_s = state.physics.compute_s[row.profile, where.type]
        if gpus[gpu].tenants > 1:
            slow_s *= _slow_on(state, job, gpu, where.type)
        worst_s = max(worst_s, slow_s * (1.0 + row.wait_frac * (where.stretch - 1.0)))
    return worst_s


@kernel
def rate_of(state: State, job: int) -> tuple[float, float, float]:
    """Work seconds per second of `job` where it runs now, and its shares of the step.

    The worst worker counts. The shares are those of communication and of what others on its GPUs
    and a scarce host add; what writing checkpoints takes is in neither.
    """
    row, gpus, servers, racks = state.job[job], state.gpu, state.server, state.rack
    compute_s = state.physics.compute_s
    worst_s, alone_s, nic, uplink = 0.0, 0.0, 1, 1
    for at in range(row.first, row.first + row.held):  # one pass for workers, NICs and uplinks
        gpu = state.placed[at]
        server = gpus[gpu].server
        gpu_type = servers[server].type
        own_s = compute_s[row.profile, gpu_type]
        slow_s = own_s
        if gpus[gpu].tenants > 1:
            slow_s = own_s * _slow_on(state, job, gpu, gpu_type)
        worst_s, alone_s = max(worst_s, slow_s), max(alone_s, own_s)
        nic = max(nic, servers[server].nic_jobs)
        uplink = max(uplink, racks[servers[server].rack].uplink_jobs)
    if state.world[0].host_matters != 0:
        worst_s = _worst_hosted_s(state, job)
    if state.world[0].shared_links != 0:
        load = state.loads.job[job]
        comm_s = exposed_seconds(state.network, load.local_s, load.spread_s)
    else:
        spread = Spread(row.local, row.servers, row.racks, nic, uplink)
        comm_s = busy_s(comm_of(state.physics.network, row.profile, spread))
    step_s = worst_s + comm_s
    pace = state.world[0].pace
    rate = row.reference_step_s / step_s * row.gain * pace
    return float(rate), float(comm_s / step_s * pace), float((worst_s - alone_s) / step_s * pace)


@kernel
def accrue(state: State, job: int) -> None:
    """Book the work done since the job was last rated."""
    row, now_s = state.job[job], state.world[0].now_s
    if now_s > row.rated_s:
        ahead_s = now_s - row.rated_s
        row.progress_s = min(row.progress_s + row.rate * ahead_s, row.target_s)
        row.comm_s += row.comm_share * ahead_s
        row.slow_s += row.slow_share * ahead_s
        row.rated_s = now_s


@kernel
def mark_resettled(state: State) -> None:
    """Share links anew where jobs came or went; mark everyone whose share has changed."""
    for k in range(resettle(state.loads, state.network)):
        mark_dirty(state, state.loads.part.job[k].job)


@kernel
def rerate(state: State) -> None:
    """Give every dirty running job its new rate and the time of what it does next."""
    world, jobs = state.world[0], state.job
    if world.shared_links != 0 and state.loads.counts[0].num_touched > 0:
        tell(state.routine[MARK_RESETTLED], state)
    for i in range(world.num_dirty):  # order is free: the heap sorts by time, then by row
        job = state.dirty[i]
        row = jobs[job]
        row.dirty = 0
        if row.status != RUNNING:
            continue
        rate, comm_share, slow_share = rate_of(state, job)
        if rate == row.rate:
            continue
        accrue(state, job)
        row.rate, row.comm_share, row.slow_share = rate, comm_share, slow_share
        row.due_s = row.rated_s + (row.target_s - row.progress_s) / rate
        heap_set(state, job, min(row.due_s, row.lease_end_s))
    world.num_dirty = 0
