"""A scheduler that writes down what it was shown, and lets another decide."""

from typing import Any

from sim.decision import Decision
from sim.protocols import Scheduler
from sim.view import ClusterView, Signal


class Watching:
    """Records every view as plain numbers."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.name = scheduler.name
        self.needs = scheduler.needs | Signal.DURATION
        self.seen: list[dict[str, Any]] = []

    def reset(self, seed: int) -> None:
        self._scheduler.reset(seed)

    def decide(self, view: ClusterView) -> Decision:
        here = [*view.queued.tolist(), *view.running.tolist()]
        self.seen.append(
            {
                "now_s": view.now_s,
                "queued": view.queued.tolist(),
                "running": view.running.tolist(),
                "gpus": [view.gpus_of(job).tolist() for job in view.running.tolist()],
                "tenants": view.tenants.tolist(),
                "tenant": view.tenant.tolist(),
                "server_free": view.server_free.tolist(),
                "nic_jobs": view.nic_jobs.tolist(),
                "uplink_jobs": view.uplink_jobs.tolist(),
                "partition": view.jobs.partition[here].tolist(),
                "forwards": view.jobs.forwards[here].tolist(),
                "preemptions": view.jobs.preemptions[here].tolist(),
                "remaining_s": view.jobs.remaining_s[here].tolist(),
                "progress_s": view.jobs.progress_s[here].tolist(),
                "attained_gpu_s": view.jobs.attained_gpu_s[here].tolist(),
                "resume_s": view.jobs.resume_s[view.running].tolist(),
                "lease_end_s": view.jobs.lease_end_s[view.running].tolist(),
                "restarts": view.jobs.restarts[here].tolist(),
                "server_closed": view.server_closed.tolist(),
                "cpu_free_milli": view.server_cpu_free_milli.tolist(),
                "memory_free_mib": view.server_memory_free_mib.tolist(),
                "gpu_milli": view.gpu_milli.tolist(),
                "gpu_limit_milli": view.gpu_limit_milli,
            }
        )
        return self._scheduler.decide(view)
