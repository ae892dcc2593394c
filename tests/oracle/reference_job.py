"""One job of the reference simulator, and one line of its log."""

import math
from dataclasses import dataclass, field

from sim.jobs import ANY_TYPE, COMPLETED, NEVER_S, WHOLE_GPU_MILLI, JobTable
from sim.run import Kind


@dataclass(frozen=True)
class Event:
    """One line of the log; `job` is -1 where the event is a server's."""

    time_s: float
    kind: Kind
    job: int
    partition: int
    gpus: tuple[int, ...]


@dataclass(eq=False)
class ReferenceJob:
    """One job and all that is known of it."""

    row: int
    submit_s: float
    gang: int
    work_s: float
    profile: int
    partition: int
    least: int
    most: int
    gpu_milli: int = WHOLE_GPU_MILLI
    cpu_milli: int = 0
    memory_mib: int = 0
    type_mask: int = ANY_TYPE
    work_per_s: float = 1.0  # of the table's durations
    outcome: int = COMPLETED
    withdraw_at_s: float = NEVER_S
    fail_at_s: list[float] = field(default_factory=list)  # of attempts to come
    parents: list[int] = field(default_factory=list)

    state: str = "pending"  # blocked, queued, running, finished, withdrawn
    doomed: bool = False  # it is withdrawn as soon as it arrives
    forwards: int = 0
    preemptions: int = 0
    restarts: int = 0
    progress_s: float = 0.0  # work done up to rated_s
    saved_s: float = 0.0  # work in the last checkpoint
    lost_s: float = 0.0
    speed: float = 0.0  # since rated_s
    comm_share: float = 0.0
    slow_share: float = 0.0
    comm_s: float = 0.0
    slow_s: float = 0.0
    rated_s: float = 0.0
    due_s: float = math.inf  # end of this attempt
    lease_end_s: float = math.inf
    started_s: float = math.nan
    held_s: float = 0.0  # time on GPUs in earlier attempts
    held_gpu_s: float = 0.0  # the same times GPUs
    served_gpu_s: float = 0.0  # the same without restarts
    resume_s: float = 0.0  # when this attempt makes progress
    renewable_s: float = -math.inf  # when it was stopped in a way that lets it go on
    first_start_s: float = math.nan
    finish_s: float = math.nan
    gpus: list[int] = field(default_factory=list)  # of its last placement

    @property
    def target_s(self) -> float:
        """Work at which this attempt ends."""
        return self.fail_at_s[0] if self.fail_at_s else self.work_s

    @property
    def stops_s(self) -> float:
        """What it does next, if nobody touches it."""
        return min(self.due_s, self.lease_end_s)

    @property
    def over(self) -> bool:
        return self.state in ("finished", "withdrawn")

    def done_s(self, now_s: float) -> float:
        """Work done by now; none while a restart is under way."""
        return self.progress_s + self.speed * max(0.0, now_s - self.rated_s)

    def attained_gpu_s(self, now_s: float) -> float:
        """Service, restarts left out: they do the job no good."""
        if self.state != "running":
            return self.served_gpu_s
        return self.served_gpu_s + max(0.0, now_s - self.resume_s) * len(self.gpus)

    def book(self, now_s: float) -> None:
        """Count the work done at the speed so far."""
        if now_s > self.rated_s:
            ahead_s = now_s - self.rated_s
            self.progress_s = min(self.done_s(now_s), self.target_s)
            self.comm_s += self.comm_share * ahead_s
            self.slow_s += self.slow_share * ahead_s
            self.rated_s = now_s


def reference_jobs(table: JobTable) -> list[ReferenceJob]:
    """The rows of a job table."""
    return [_job(table, row) for row in range(len(table))]


def _job(table: JobTable, row: int) -> ReferenceJob:
    gang = int(table.num_gpus[row])
    per_s = 1.0 if table.speed is None else float(table.speed[row])
    job = ReferenceJob(
        row=row, submit_s=float(table.submit_s[row]), gang=gang,
        work_s=float(table.duration_s[row]) * per_s, work_per_s=per_s,
        profile=int(table.profile[row]), partition=int(table.home[row]), least=gang, most=gang,
    )  # fmt: skip
    if table.demands is not None:
        for name in ("gpu_milli", "cpu_milli", "memory_mib", "type_mask"):
            setattr(job, name, int(getattr(table.demands, name)[row]))
    if table.elastic is not None:
        job.least = int(table.elastic.least_gpus[row])
        job.most = int(table.elastic.most_gpus[row])
    if table.fates is not None:
        job.outcome = int(table.fates.outcome[row])
        job.withdraw_at_s = job.submit_s + float(table.fates.withdraw_s[row])
    if table.attempts is not None:
        first = table.attempts.first
        points_s = table.attempts.fail_at_s[first[row] : first[row + 1]].tolist()
        job.fail_at_s = [point_s * per_s for point_s in points_s]
    if table.precedence is not None:
        first = table.precedence.first
        job.parents = table.precedence.parents[first[row] : first[row + 1]].tolist()
    return job
