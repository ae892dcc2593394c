"""Makes the state of a run at time 0."""

from collections.abc import Iterator

import numpy as np

from sim.arrays import FloatArray, IntArray, RowArray
from sim.compiling import Routine, write_addresses
from sim.errors import PhysicsError, SimulationError
from sim.handle import tell
from sim.heap import HEAP, OUT
from sim.jobs import ANY_TYPE, NEVER_S, WHOLE_GPU_MILLI, JobTable
from sim.kernel import layout
from sim.kernel.attempts import change_server, free_children, set_open, withdraw
from sim.kernel.free_gpus import make_free_gpus
from sim.kernel.layout import NO_JOB, UNBOUNDED, PhysicsArrays, State
from sim.kernel.rates import enter_links, leave_links, mark_resettled
from sim.physics.catalogue import HostTables, throughputs
from sim.physics.link_loads import LinkLoads, make_link_loads
from sim.physics.link_network import LinkNetwork, no_link_network
from sim.physics.mix_table import tenants_size
from sim.physics.physics import Physics
from sim.physics.reference import reference_steps_s
from sim.run import Rules
from sim.topology.outages import Outages
from sim.topology.topology import Topology


def make_links(
    job: RowArray, topology: Topology, physics: Physics, max_tenants: int
) -> tuple[LinkNetwork, LinkLoads]:
    """The link network and its empty loads; stand-ins of no size where links are not shared.

    Raises:
        PhysicsError: the link network is that of another cluster.
    """
    network = physics.links
    if network is None:
        network = no_link_network()
        return network, make_link_loads(network=network, jobs=1, worker_slots=1, largest_gang=1)
    if len(network.server) != topology.num_servers:
        raise PhysicsError(
            f"the link network has {len(network.server)} servers, the topology {topology.name} "
            f"{topology.num_servers}; build both from the same topology"
        )
    return network, make_link_loads(
        network=network, jobs=len(job), worker_slots=topology.num_gpus * max_tenants,
        largest_gang=min(int(job["most_gpus"].max()), topology.num_gpus),
    )  # fmt: skip


def gang_sizes(job: RowArray) -> IntArray:
    """Numbers of GPUs that some job can hold, ascending."""
    most = int(job["most_gpus"].max())
    begins = np.bincount(job["least_gpus"], minlength=most + 2)
    ends = np.bincount(job["most_gpus"] + 1, minlength=most + 2)
    return np.flatnonzero(np.cumsum(begins - ends) > 0)


def make_state(
    *, jobs: JobTable, topology: Topology, physics: Physics, server_partition: IntArray,
    rules: Rules, outages: Outages,
) -> State:  # fmt: skip
    """Fresh state at time 0 with every job pending."""
    most_running = max(1, min(len(jobs), topology.num_gpus * rules.max_tenants))
    job, fail_at_s, children, withdrawals = _jobs(jobs)
    if physics.host is not None:
        _want_host(job, physics.host)
    tables = _physics(physics, topology, gang_sizes(job))
    network, loads = make_links(job, topology, physics, rules.max_tenants)
    job["reference_step_s"] = tables.reference_step_s[job["profile"], job["num_gpus"]]
    rows, gpus = _log_sizes(len(jobs), most_running, topology, rules, outages)
    partitions, servers = int(server_partition.max()) + 1, topology.num_servers
    largest_server = int(topology.gpus_per_server.max())
    state = State(
        world=_world(job, rules, physics, server_partition), routine=np.zeros(6, dtype=np.int64),
        job=job, gpu=_gpus(topology),
        tenant=np.full((topology.num_gpus, rules.max_tenants), NO_JOB, dtype=np.int64),
        server=_servers(topology, physics, server_partition),
        free_gpus=make_free_gpus(partitions, servers, topology.num_gpus, largest_server),
        partition=_partitions(topology, server_partition),
        own=np.argsort(server_partition, kind="stable").astype(np.int64), rack=_racks(topology),
        placed=np.full(int(job["most_gpus"].sum()), NO_JOB, dtype=np.int64),
        queue=np.zeros(len(jobs) + 1, dtype=np.int64),
        joined=np.zeros(2 * len(jobs), dtype=np.int64),
        running=np.zeros(most_running, dtype=np.int64), heap=np.zeros(most_running, dtype=HEAP),
        dirty=np.zeros(len(jobs), dtype=np.int64), physics=tables, network=network, loads=loads,
        fail_at_s=fail_at_s, children=children, withdrawals=withdrawals,
        outages=_outages(outages, topology),
        scratch=np.zeros(max(len(children) + 1, tenants_size(rules.max_tenants)), dtype=np.int64),
        log=np.zeros(rows, dtype=layout.LOG), log_gpus=np.zeros(gpus, dtype=np.int64),
    )  # fmt: skip
    state.free_gpus.tally[:, 0] = state.free_gpus.sizes[:, 0] = np.bincount(server_partition)
    for server in range(servers):  # all are there and empty: how a run begins
        set_open(state, server, True)
    write_addresses((state.routine, _routines(state, physics)))
    return state


def _routines(state: State, physics: Physics) -> Iterator[Routine]:
    """What few runs need the kernel calls by address: the others need not compile it."""
    if physics.links is not None:
        yield Routine(layout.ENTER_LINKS, enter_links, tell, (state,), 1)
        yield Routine(layout.LEAVE_LINKS, leave_links, tell, (state,), 1)
        yield Routine(layout.MARK_RESETTLED, mark_resettled, tell, (state,))
    if len(state.outages) > 0:
        yield Routine(layout.CHANGE_SERVER, change_server, tell, (state,), 2)
    if len(state.children) > 0:
        yield Routine(layout.FREE_CHILDREN, free_children, tell, (state,), 1)
    if len(state.children) > 0 or len(state.withdrawals) > 0:
        yield Routine(layout.WITHDRAW, withdraw, tell, (state,), 1)


def _partitions(topology: Topology, server_partition: IntArray) -> RowArray:
    row = np.zeros(int(server_partition.max()) + 1, dtype=layout.PARTITION)
    row["last_own"] = np.cumsum(np.bincount(server_partition))
    row["first_own"][1:] = row["last_own"][:-1]
    row["gpus"] = np.bincount(server_partition, weights=topology.gpus_per_server)
    return row


def _log_sizes(
    jobs: int, most_running: int, topology: Topology, rules: Rules, outages: Outages
) -> tuple[int, int]:
    """Rows, and GPUs, of the log: more than twice what an instant or a decision can write.

    `Recorder` empties it between them.
    """
    at_once = int(np.unique(outages.at_s, return_counts=True)[1].max()) if len(outages) else 0
    gpus = 6 * topology.num_gpus * rules.max_tenants
    gpus += 2 * at_once * int(topology.gpus_per_server.max())
    return 6 * (jobs + most_running) + 2 * at_once + 64, gpus + 64


def _outages(outages: Outages, topology: Topology) -> RowArray:
    servers = topology.num_servers
    wrong = (outages.server < 0) | (outages.server >= servers)
    if wrong.any():
        raise SimulationError(
            f"outages name server {outages.server[wrong][0]}; the cluster {topology.name} has "
            f"servers 0 to {servers - 1}"
        )
    row = np.zeros(len(outages), dtype=layout.OUTAGE)
    row["at_s"], row["server"], row["kind"] = outages.at_s, outages.server, outages.change
    return row


def _world(job: RowArray, rules: Rules, physics: Physics, server_partition: IntArray) -> RowArray:
    world = np.zeros(1, dtype=layout.WORLD)
    limit = rules.max_tenants if rules.gpu_oversubscription is None else rules.gpu_oversubscription
    every_s = np.inf if rules.checkpoint_work_s is None else rules.checkpoint_work_s
    network = physics.network
    factors = np.concatenate([network.nic_factor, network.uplink_factor])
    asks = (job["gpu_milli"] < WHOLE_GPU_MILLI) | (job["type_mask"] != ANY_TYPE)
    asks |= (job["cpu_milli"] > 0) | (job["memory_mib"] > 0)
    for key, value in {
        "wake_s": np.inf,
        "ready_s": -np.inf,
        "num_left": len(job),
        "restart_s": rules.restart_s,
        "restart_s_per_gpu": rules.restart_s_per_gpu,
        "checkpoint_work_s": every_s,
        "pace": 1.0 if np.isinf(every_s) else every_s / (every_s + rules.checkpoint_s),
        "preempt_saves": int(rules.preempt_saves),
        "max_forwards": rules.max_forwards,
        "num_partitions": int(server_partition.max()) + 1,
        "gpu_limit_milli": round(limit * WHOLE_GPU_MILLI),
        "links_matter": int(physics.links is None and np.any(factors != 1.0)),
        "shared_links": int(physics.links is not None),
        "host_matters": int(physics.host is not None),
        "demands_matter": int(np.any(asks)),
    }.items():
        world[key] = value
    return world


def _jobs(jobs: JobTable) -> tuple[RowArray, FloatArray, IntArray, IntArray]:
    """Rows of jobs, points of failure, children, and who gives up in which order."""
    row = np.zeros(len(jobs), dtype=layout.JOB)
    for key, value in {
        "submit_s": jobs.submit_s,
        "ready_s": jobs.submit_s,
        "work_s": jobs.duration_s,
        "num_gpus": jobs.num_gpus,
        "profile": jobs.profile,
        "partition": jobs.home,
        "held": jobs.num_gpus,
        "gain": 1.0,
        "heap_at": OUT,
        "left_s": -np.inf,
        "lease_end_s": np.inf,
        "first_start_s": np.nan,
        "finish_s": np.nan,
    }.items():
        row[key] = value
    _ask(row, jobs)
    row["first"] = np.concatenate([[0], np.cumsum(row["most_gpus"])[:-1]])
    fail_at_s = _attempts(row, jobs)
    children = _children(row, jobs)
    row["withdraw_at_s"] = NEVER_S
    if jobs.fates is not None:
        row["outcome"] = jobs.fates.outcome
        row["withdraw_at_s"] = jobs.submit_s + jobs.fates.withdraw_s
    order = np.argsort(row["withdraw_at_s"], kind="stable")
    withdrawals = order[np.isfinite(row["withdraw_at_s"][order])].astype(np.int64)
    return row, fail_at_s, children, withdrawals


def _ask(row: RowArray, jobs: JobTable) -> None:
    row["gpu_milli"], row["type_mask"] = WHOLE_GPU_MILLI, ANY_TYPE
    if jobs.demands is not None:
        for key in ("gpu_milli", "cpu_milli", "memory_mib", "type_mask"):
            row[key] = getattr(jobs.demands, key)
    row["least_gpus"] = row["most_gpus"] = jobs.num_gpus
    if jobs.elastic is not None:
        row["least_gpus"], row["most_gpus"] = jobs.elastic.least_gpus, jobs.elastic.most_gpus


def _want_host(row: RowArray, host: HostTables) -> None:
    needs = host.needs
    row["busy_milli"] = needs.cpu_milli[row["profile"]]
    row["moved_mbs"] = needs.pcie_mbs[row["profile"]]
    row["wait_frac"] = needs.wait_frac[row["profile"]]


def _attempts(row: RowArray, jobs: JobTable) -> FloatArray:
    row["target_s"] = jobs.duration_s
    if jobs.attempts is None:
        return np.zeros(0)
    first, fail_at_s = jobs.attempts.first, jobs.attempts.fail_at_s
    row["next_attempt"], row["last_attempt"] = first[:-1], first[1:]
    some = np.flatnonzero(first[1:] > first[:-1])
    row["target_s"][some] = fail_at_s[first[some]]
    return np.ascontiguousarray(fail_at_s, dtype=np.float64)


def _children(row: RowArray, jobs: JobTable) -> IntArray:
    """Parents turned round: children of each job one after the other."""
    if jobs.precedence is None:
        return np.zeros(0, dtype=np.int64)
    count = np.diff(jobs.precedence.first)
    child = np.repeat(np.arange(len(jobs)), count)
    order = np.argsort(jobs.precedence.parents, kind="stable")
    last = np.cumsum(np.bincount(jobs.precedence.parents, minlength=len(jobs)))
    row["waits_for"] = count
    row["first_child"], row["last_child"] = np.concatenate([[0], last[:-1]]), last
    return child[order].astype(np.int64)


def _gpus(topology: Topology) -> RowArray:
    row = np.zeros(topology.num_gpus, dtype=layout.GPU)
    row["server"] = topology.gpu_server
    return row


def _servers(topology: Topology, physics: Physics, server_partition: IntArray) -> RowArray:
    row = np.zeros(topology.num_servers, dtype=layout.SERVER)
    cores, memory = topology.server_cpu_milli, topology.server_memory_mib
    for key, value in {
        "first_gpu": topology.server_first_gpu[:-1],
        "last_gpu": topology.server_first_gpu[1:],
        "rack": topology.server_rack,
        "partition": server_partition,
        "type": physics.server_types(topology),
        "gpu_type": topology.server_gpu_type,
        "stretch": 1.0,
        "cpu_milli": UNBOUNDED if cores is None else cores,
        "memory_mib": UNBOUNDED if memory is None else memory,
    }.items():
        row[key] = value
    row["cpu_free_milli"], row["memory_free_mib"] = row["cpu_milli"], row["memory_mib"]
    if physics.host is not None:
        row["host_milli"] = physics.host.server_cpu_milli
        row["host_mbs"] = physics.host.server_pcie_mbs
    return row


def _racks(topology: Topology) -> RowArray:
    row = np.zeros(topology.num_racks, dtype=layout.RACK)
    racks = np.arange(topology.num_racks)
    row["first_server"] = np.searchsorted(topology.server_rack, racks)
    row["last_server"] = np.searchsorted(topology.server_rack, racks, side="right")
    return row


def _physics(physics: Physics, topology: Topology, gangs: IntArray) -> PhysicsArrays:
    steps_s = reference_steps_s(gangs, topology, physics)
    tables = {
        "compute_s": physics.catalogue.compute_s,
        "reference_step_s": steps_s,
        "gain": throughputs(steps_s, physics.catalogue.speedup),
    }
    columns = {key: np.ascontiguousarray(each, np.float64) for key, each in tables.items()}
    return PhysicsArrays(
        **columns, network=physics.network, slowing=physics.slowing,
        feasible=np.ascontiguousarray(physics.pairs.feasible, dtype=np.bool_),
    )  # fmt: skip
