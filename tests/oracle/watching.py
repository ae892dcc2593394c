"""A scheduler that writes down what it was shown, and lets another decide."""

from typing import Any

from sim.decision import Decision
from sim.protocols import Scheduler
from sim.view import ClusterView, Signal

OF_THE_CLUSTER = (
    "queued", "running", "tenants", "tenant", "server_free", "nic_jobs", "uplink_jobs",
    "server_closed", "server_cpu_free_milli", "server_memory_free_mib", "gpu_milli",
)  # fmt: skip
OF_JOBS = ("partition", "forwards", "preemptions", "remaining_s", "progress_s", "attained_gpu_s",
           "restarts")  # fmt: skip
OF_RUNNING = ("resume_s", "lease_end_s")


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
        running = view.running.tolist()
        here, jobs = [*view.queued.tolist(), *running], view.jobs
        shown = {name: getattr(view, name).tolist() for name in OF_THE_CLUSTER}
        shown |= {name: getattr(jobs, name)[here].tolist() for name in OF_JOBS}
        shown |= {name: getattr(jobs, name)[running].tolist() for name in OF_RUNNING}
        gpus = [view.gpus_of(job).tolist() for job in running]
        limit = view.gpu_limit_milli
        self.seen.append({"now_s": view.now_s, "gpus": gpus, "gpu_limit_milli": limit, **shown})
        return self._scheduler.decide(view)
