"""What a scheduler sees of the reference simulator, from arrays made for one view."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from sim.signals import Signal
from sim.view import ClusterView, ViewMaker
from tests.oracle.reference_job import ReferenceJob

if TYPE_CHECKING:
    from tests.oracle.reference import ReferenceSimulator


def reference_view(yard: "ReferenceSimulator", needs: Signal) -> ClusterView:
    """The view of this instant."""
    return ViewMaker(
        state=_columns(yard),  # type: ignore[arg-type]
        jobs=yard.table,
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
    milli = [sum(job.gpu_milli for job in holders) for holders in yard.tenants]
    return SimpleNamespace(
        world={
            "now_s": [yard.now_s],
            "queue_first": [0],
            "num_queued": [len(queued)],
            "num_running": [len(running)],
            "gpu_limit_milli": [yard.gpu_limit_milli],
            "num_partitions": [max(yard.partition_of_server) + 1],
        },
        queue=np.array(queued, dtype=np.int64),
        running=np.array(running, dtype=np.int64),
        job=_job_columns(yard, slot[:-1]),
        gpu={
            "tenants": np.array([len(holders) for holders in yard.tenants]),
            "milli": np.array(milli),
        },
        tenant=tenant,
        **_places(yard),
        placed=placed,
    )


def _job_columns(yard: "ReferenceSimulator", first: np.ndarray) -> dict[str, np.ndarray]:
    def column(value: Callable[[ReferenceJob], Any]) -> np.ndarray:
        return np.array([value(job) for job in yard.jobs])

    now_s = yard.now_s
    named = ("submit_s", "work_s", "profile", "partition", "forwards", "preemptions", "restarts",
             "resume_s", "lease_end_s")  # fmt: skip
    return {
        **{name: column(lambda job, name=name: getattr(job, name)) for name in named},
        "num_gpus": column(lambda job: job.gang),
        "held": column(lambda job: len(job.gpus) or job.gang),
        "attained_gpu_s": column(lambda job: job.attained_gpu_s(now_s)),
        "seen_progress_s": column(
            lambda job: job.done_s(now_s) if job.state == "running" else job.progress_s
        ),
        "first": first,
    }


def _places(yard: "ReferenceSimulator") -> dict[str, Any]:
    servers, tenants, physics = yard.servers, yard.tenants, yard.physics
    every = range(yard.topology.num_servers)

    def busy(places: Callable[[ReferenceJob], set[int]], number: int) -> np.ndarray:
        wide = [places(job) for job in yard.in_state("running") if len(places(job)) > 1]
        return np.array([sum(place in of for of in wide) for place in range(number)])

    return {
        "server": {
            "partition": np.array(yard.partition_of_server),
            "type": np.array(physics.kind_of_server),
            "nic_jobs": busy(physics.servers, len(every)),
            "closed": np.array(servers.reasons),
            "cpu_free_milli": np.array([servers.cpu_free_milli(s, tenants) for s in every]),
            "memory_free_mib": np.array([servers.memory_free_mib(s, tenants) for s in every]),
        },
        "rooms": SimpleNamespace(usable=np.array([servers.free(s, tenants) for s in every])),
        "rack": {"uplink_jobs": busy(physics.racks, yard.topology.num_racks)},
    }
