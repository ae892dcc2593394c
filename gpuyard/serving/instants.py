"""From a request to a run at its instant: who waits, and who holds which GPUs."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpuyard.evaluation.jobs import MIB_PER_GIB, MILLI, most_workers
from gpuyard.launch.errors import instead
from gpuyard.serving.forms import AssumedForm, RequestError, RunningJob, StateForm, WaitingJob
from gpuyard.serving.places import SHOWN, Places, named
from marl.env.world import World
from sim.arrays import IntArray
from sim.errors import InvalidDecision
from sim.jobs import ANY_TYPE, WHOLE_GPU_MILLI, Demands, Identity, JobTable, codes_of
from sim.simulator import Instant, Simulator, set_to
from sim.view import Signal

OF_DURATION = Signal.PREDICTION | Signal.DURATION
OF_PROFILE = Signal.PROFILE | Signal.INTERFERENCE
UNKNOWN_WORK_S = 3600.0  # of a job whose duration nobody reads; its value changes nothing


@dataclass(frozen=True)
class Defaults:
    """What stands in for what a request leaves out; None: it must not leave it out."""

    estimate_s: float | None
    profile: str | None


@dataclass(frozen=True)
class Set:
    """A run at the instant of a request."""

    simulator: Simulator
    ids: list[str]  # (J,) by row
    assumed: AssumedForm


class Setter:
    """Sets runs of one world to the instants of requests, for one scheduler."""

    def __init__(self, world: World, needs: Signal, defaults: Defaults) -> None:
        """`needs` are the scheduler's: what it reads, a request has to tell.

        Raises:
            RequestError: the default profile is none of the catalogue.
        """
        self.world = world
        self._needs = needs
        self._defaults = defaults
        self._names = world.physics.catalogue.names
        self._row_of = {name: row for row, name in enumerate(self._names)}
        if defaults.profile is not None:
            self._profile_row(defaults.profile, "default_profile")
        self._any_profile = int(np.argmax(world.physics.catalogue.gang_ok))
        self.places, self._partitions = Places(world), world.partitions
        sizes = np.bincount(world.partition_of_server, weights=world.topology.gpus_per_server)
        self.largest = int(sizes.max())

    def set(self, form: StateForm, closed: Sequence[int] = ()) -> Set | None:
        """The run at the instant of `form`; None where there is no job.

        Args:
            form: the request.
            closed: servers that take nobody new beside those that the request names.

        Raises:
            RequestError: naming what is wrong.
        """
        away = [self.places.server(name, f"away[{at}]") for at, name in enumerate(form.away)]
        placements = self.places.of(form.running)
        if not form.running and not form.queue:
            return None
        jobs: list[RunningJob | WaitingJob] = [*form.running, *form.queue]
        submit_s = np.array([submitted_s(job) for job in jobs])
        order = np.argsort(submit_s, kind="stable")
        row_of = np.empty(len(jobs), dtype=np.int64)
        row_of[order] = np.arange(len(jobs))
        table, assumed = self._table(form, jobs, placements, order)
        by_start = sorted(range(len(placements)), key=lambda at: form.running[at].started_s)
        simulator = self.world.simulator(table)
        placed = [(int(row_of[at]), placements[at]) for at in by_start]
        by_row = [jobs[at] for at in order]
        try:
            set_to(simulator, _instant(form.time_s, by_row, placed, [*away, *closed]))
        except InvalidDecision as error:
            raise RequestError(f"running: {error}; send what runs now") from error
        self._work_done(simulator, form, row_of)
        return Set(simulator, [jobs[at].id for at in order], assumed)

    def _work_done(self, simulator: Simulator, form: StateForm, row_of: IntArray) -> None:
        """Write the progress of those whose request leaves it to the physics."""
        untold = [at for at, job in enumerate(form.running) if job.progress_s is None]
        row, rows = simulator.state.job, row_of[np.array(untold, dtype=np.int64)]
        ran_s = np.maximum(0.0, form.time_s - row["resume_s"][rows])
        done_s = np.minimum(ran_s * row["rate"][rows], row["work_s"][rows])
        row["progress_s"][rows] = row["seen_progress_s"][rows] = done_s

    def _table(
        self,
        form: StateForm,
        jobs: list[RunningJob | WaitingJob],
        placements: list[IntArray],
        order: IntArray,
    ) -> tuple[JobTable, AssumedForm]:
        """The job table, rows in `order` of `jobs`, and what was assumed."""
        runs = len(form.running)
        where = [("running", at) if at < runs else ("queue", at - runs) for at in range(len(jobs))]
        told_s = [self._estimate_s(job, *place) for job, place in zip(jobs, where, strict=True)]
        kinds = [self._profile(job, *place) for job, place in zip(jobs, where, strict=True)]
        gang = [*map(len, placements), *(job.gpus for job in form.queue)]
        home = [int(self.places.owner[gpus[0]]) for gpus in placements]
        home += [self._home(job, at) for at, job in enumerate(form.queue)]
        estimate_s, given = np.array(told_s)[order], len(jobs)
        done_s = np.array([job.progress_s or 0.0 for job in jobs])[order]
        users = np.array([job.user or "" for job in jobs], dtype=object)[order]
        unknown: IntArray = np.full(given, -1, dtype=np.int64)
        work_s = np.maximum(np.where(np.isnan(estimate_s), UNKNOWN_WORK_S, estimate_s), done_s)
        table = JobTable(
            job_id=np.array([job.id for job in jobs], dtype=object)[order],
            submit_s=np.array([submitted_s(job) for job in jobs])[order],
            num_gpus=np.array(gang, dtype=np.int64)[order],
            duration_s=work_s,
            estimate_s=estimate_s,
            profile=np.array(kinds, dtype=np.int64)[order],
            home=np.array(home, dtype=np.int64)[order],
            measured=np.ones(given, dtype=np.bool_),
            identity=Identity(codes_of(users), unknown, unknown) if any(users) else None,
            demands=self._demands([jobs[at] for at in order]),
        )
        assumed = AssumedForm(
            estimate_s=sum(job.estimate_s is None for job in jobs),
            profile=sum(job.profile is None for job in jobs),
        )
        return table, assumed

    def _estimate_s(self, job: RunningJob | WaitingJob, key: str, at: int) -> float:
        told_s = self._defaults.estimate_s if job.estimate_s is None else job.estimate_s
        if told_s is None and self._needs & OF_DURATION:
            raise RequestError(
                f"{named(key, at, job)}: estimate_s is missing, and this scheduler orders by it; "
                "give it, set default_estimate_s=SECONDS, or serve one that needs none, like "
                "scheduler=fifo"
            )
        return np.nan if told_s is None else told_s

    def _profile(self, job: RunningJob | WaitingJob, key: str, at: int) -> int:
        name = self._defaults.profile if job.profile is None else job.profile
        if name is not None:
            row = self._row_of.get(name)
            return self._profile_row(name, f"{named(key, at, job)}.profile") if row is None else row
        if self._needs & OF_PROFILE:
            raise RequestError(
                f"{named(key, at, job)}: profile is missing, and this scheduler looks at it; give "
                "it, or set default_profile=NAME (GET /cluster lists them)"
            )
        return self._any_profile

    def _profile_row(self, name: str, where: str) -> int:
        row = self._row_of.get(name)
        if row is None:
            hint = instead(name, self._names, f"one of {', '.join(self._names[:SHOWN])}")
            raise RequestError(f"{where} is {name!r}, which is no profile; {hint} (GET /cluster)")
        return row

    def never(self, job: WaitingJob) -> str:
        """Why it could not start on the whole cluster if that were empty; nothing if it could."""
        if job.gpus > self.largest:
            return (
                f"gpus is {job.gpus}; the largest partition has {self.largest} GPUs, and a gang "
                "stays inside one"
            )
        if not _more_than_gpus(job):
            return ""
        topology = self.world.topology
        fits = self._types(job.gpu_types) >> topology.server_gpu_type & 1 > 0
        if not fits.any():
            return (
                f"gpu_types is {', '.join(job.gpu_types or ())}; {topology.name} has "
                f"{', '.join(topology.gpu_types)}"
            )
        room = most_workers((*_milli_and_mib(job), self._types(job.gpu_types)), self.world)
        if job.gpus > room:
            return (
                f"gpus is {job.gpus}, each with {job.cores_per_gpu:g} cores and "
                f"{job.memory_gib_per_gpu:g} GiB; no partition has room for more than {room:.0f}"
            )
        return ""

    def _types(self, names: Sequence[str] | None) -> int:
        """Bits of the GPU types that will do."""
        if names is None:
            return ANY_TYPE
        wanted = [name.lower() for name in names]
        known = self.world.topology.gpu_types
        return sum(1 << t for t, name in enumerate(known) if name.lower() in wanted)

    def _demands(self, jobs: Sequence[RunningJob | WaitingJob]) -> Demands | None:
        """What each GPU's worker asks for; None where nobody asks for more than GPUs."""
        if not any(map(_more_than_gpus, jobs)):
            return None
        return Demands(
            gpu_milli=np.array([job.gpu_milli for job in jobs]),
            cpu_milli=np.array([_milli_and_mib(job)[0] for job in jobs]),
            memory_mib=np.array([_milli_and_mib(job)[1] for job in jobs]),
            type_mask=np.array([self._types(job.gpu_types) for job in jobs]),
        )

    def _home(self, job: WaitingJob, at: int) -> int:
        count = self._partitions
        if job.partition is None and count > 1:
            raise RequestError(
                f"{named('queue', at, job)}: partition is missing; there are {count}, so say "
                f"which (0 to {count - 1})"
            )
        if job.partition is not None and job.partition >= count:
            raise RequestError(
                f"{named('queue', at, job)}: partition is {job.partition}; there are 0 to "
                f"{count - 1} (agents.count)"
            )
        return job.partition or 0


def _instant(
    now_s: float,
    jobs: Sequence[RunningJob | WaitingJob],
    placed: Sequence[tuple[int, IntArray]],
    closed: Sequence[int],
) -> Instant:
    """What has become of `jobs`, by row."""
    running = [job if isinstance(job, RunningJob) else None for job in jobs]
    started_s = np.array([job.started_s if job else np.nan for job in running])
    told_s = [job.resume_s if job else None for job in running]
    resume_s = np.array([np.nan if each is None else each for each in told_s])
    resume_s = np.where(np.isnan(resume_s), started_s, resume_s)
    gpus = np.zeros(len(jobs))
    for row, held in placed:
        gpus[row] = len(held)
    under_way_s = np.maximum(0.0, now_s - np.nan_to_num(resume_s, nan=now_s)) * gpus
    attained = [np.nan if job.attained_gpu_s is None else job.attained_gpu_s for job in jobs]
    return Instant(
        now_s=now_s,
        placements=placed,
        progress_s=np.array([job.progress_s or 0.0 for job in jobs]),
        attained_gpu_s=np.where(np.isnan(attained), under_way_s, attained),
        started_s=started_s,
        resume_s=resume_s,
        restarts=np.array([job.restarts for job in jobs], dtype=np.int64),
        forwards=np.array([job.forwards for job in jobs], dtype=np.int64),
        closed=closed,
    )


def _more_than_gpus(job: RunningJob | WaitingJob) -> bool:
    part = job.gpu_milli < WHOLE_GPU_MILLI
    return bool(part or job.gpu_types or job.cores_per_gpu or job.memory_gib_per_gpu)


def _milli_and_mib(job: RunningJob | WaitingJob) -> tuple[int, int]:
    return round(job.cores_per_gpu * MILLI), round(job.memory_gib_per_gpu * MIB_PER_GIB)


def submitted_s(job: RunningJob | WaitingJob) -> float:
    """When it was submitted; of a running job that does not tell, when it started."""
    if isinstance(job, RunningJob) and job.submitted_s is None:
        return job.started_s
    assert job.submitted_s is not None
    return job.submitted_s
