"""What a scheduler sees of the reference simulator, from arrays made for one view."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from sim.jobs import ANY_TYPE, WHOLE_GPU_MILLI
from sim.kernel.free_gpus import FreeGpus, make_free_gpus, set_most, set_usable
from sim.kernel.layout import GPU, JOB, PARTITION, SERVER, UNBOUNDED
from sim.view import ClusterView, Signal, ViewMaker
from tests.oracle.reference_job import ReferenceJob

if TYPE_CHECKING:
    from tests.oracle.reference import ReferenceSimulator


def reference_view(yard: "ReferenceSimulator", needs: Signal) -> ClusterView:
    """The view of this instant."""
    return ViewMaker(
        state=_columns(yard),  # type: ignore[arg-type]
        jobs=yard.table.as_work(),
        topology=yard.topology,
        belief=yard.belief,
        max_forwards=yard.rules.max_forwards,
        granted=needs,
    ).view()


def _columns(yard: "ReferenceSimulator") -> SimpleNamespace:
    queued = [job.row for job in yard.in_state("queued")]
    running = [job.row for job in yard.in_state("running")]
    slot = np.concatenate([[0], np.cumsum([job.most for job in yard.jobs])])
    placed = np.full(slot[-1], -1)
    for job in yard.in_state("running"):
        placed[slot[job.row] : slot[job.row] + len(job.gpus)] = job.gpus
    tenant = np.full((len(yard.tenants), yard.rules.max_tenants), -1)
    for gpu, holders in enumerate(yard.tenants):
        tenant[gpu, : len(holders)] = [job.row for job in holders]
    partitions = max(yard.partition_of_server) + 1
    return SimpleNamespace(
        world={
            "now_s": [yard.now_s],
            "queue_first": [0],
            "num_queued": [len(queued)],
            "num_running": [len(running)],
            "gpu_limit_milli": [yard.gpu_limit_milli],
            "num_partitions": [partitions],
        },
        queue=np.array(queued, dtype=np.int64),
        running=np.array(running, dtype=np.int64),
        job=_jobs(yard, slot[:-1]),
        gpu=_gpus(yard),
        tenant=tenant,
        server=_servers(yard),
        free_gpus=_free_gpus(yard),
        partition=np.zeros(partitions, dtype=PARTITION),
        rack={"uplink_jobs": _busy(yard, yard.physics.racks, yard.topology.num_racks)},
        placed=placed,
    )


def _rows(dtype: np.dtype[Any], columns: dict[str, Any]) -> np.ndarray:
    rows = np.zeros(len(next(iter(columns.values()))), dtype=dtype)
    for name, column in columns.items():
        rows[name] = column
    return rows


def _jobs(yard: "ReferenceSimulator", first: np.ndarray) -> np.ndarray:
    def column(value: Callable[[ReferenceJob], Any]) -> np.ndarray:
        return np.array([value(job) for job in yard.jobs])

    now_s, demands = yard.now_s, yard.table.demands
    named = ("submit_s", "work_s", "profile", "partition", "forwards", "preemptions", "restarts",
             "resume_s", "lease_end_s")  # fmt: skip
    plain = {"gpu_milli": WHOLE_GPU_MILLI, "cpu_milli": 0, "memory_mib": 0, "type_mask": ANY_TYPE}
    return _rows(JOB, {
        **{name: column(lambda job, name=name: getattr(job, name)) for name in named},
        **{name: getattr(demands, name, none) for name, none in plain.items()},
        "num_gpus": column(lambda job: job.gang),
        "held": column(lambda job: len(job.gpus) or job.gang),
        "attained_gpu_s": column(lambda job: job.attained_gpu_s(now_s)),
        "seen_progress_s": column(
            lambda job: job.done_s(now_s) if job.state == "running" else job.progress_s
        ),
        "first": first,
    })  # fmt: skip


def _gpus(yard: "ReferenceSimulator") -> np.ndarray:
    return _rows(GPU, {
        "server": yard.topology.gpu_server,
        "tenants": [len(holders) for holders in yard.tenants],
        "milli": [sum(job.gpu_milli for job in holders) for holders in yard.tenants],
    })  # fmt: skip


def _servers(yard: "ReferenceSimulator") -> np.ndarray:
    servers, tenants, physics, topology = yard.servers, yard.tenants, yard.physics, yard.topology
    every, first = range(topology.num_servers), topology.server_first_gpu
    cores, memory = topology.server_cpu_milli, topology.server_memory_mib
    return _rows(SERVER, {
        "first_gpu": first[:-1],
        "last_gpu": first[1:],
        "rack": topology.server_rack,
        "partition": yard.partition_of_server,
        "type": physics.kind_of_server,
        "gpu_type": topology.server_gpu_type,
        "cpu_milli": np.full(len(every), UNBOUNDED) if cores is None else cores,
        "memory_mib": np.full(len(every), UNBOUNDED) if memory is None else memory,
        "nic_jobs": _busy(yard, physics.servers, len(every)),
        "closed": servers.reasons,
        "cpu_free_milli": [servers.cpu_free_milli(s, tenants) for s in every],
        "memory_free_mib": [servers.memory_free_mib(s, tenants) for s in every],
    })  # fmt: skip


def _busy(
    yard: "ReferenceSimulator", places: Callable[[ReferenceJob], set[int]], number: int
) -> np.ndarray:
    wide = [places(job) for job in yard.in_state("running") if len(places(job)) > 1]
    return np.array([sum(place in of for of in wide) for place in range(number)])


def _free_gpus(yard: "ReferenceSimulator") -> FreeGpus:
    servers, topology, home = yard.servers, yard.topology, yard.partition_of_server
    size = topology.gpus_per_server
    free_gpus = make_free_gpus(max(home) + 1, len(size), topology.num_gpus, int(size.max()))
    free_gpus.tally[:, 0] = free_gpus.sizes[:, 0] = np.bincount(home)
    for server, reasons in enumerate(servers.reasons):
        set_most(free_gpus, home[server], server, 0 if reasons else int(size[server]))
        set_usable(free_gpus, home[server], server, servers.free(server, yard.tenants))
    up = np.array(servers.reasons)[topology.gpu_server] == 0
    free_gpus.gpu[:] = up & np.array([not holders for holders in yard.tenants])
    return free_gpus
