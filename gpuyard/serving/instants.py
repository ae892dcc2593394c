"""From a request to a run at its instant: who waits, and who holds which GPUs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from gpuyard.evaluation.jobs import MIB_PER_GIB, MILLI, most_workers, type_mask
from gpuyard.launch.errors import instead
from gpuyard.serving.forms import AssumedForm, RequestError, RunningJob, StateForm, WaitingJob
from gpuyard.serving.places import SHOWN, Places, named
from marl.env.world import World
from sim.arrays import FloatArray, IntArray
from sim.errors import InvalidDecision, amount
from sim.jobs import ANY_TYPE, WHOLE_GPU_MILLI, Demands, Identity, JobTable, codes_of
from sim.simulator import Instant, Simulator, set_to
from sim.view import Signal

OF_DURATION = Signal.PREDICTION | Signal.DURATION
OF_PROFILE = Signal.PROFILE | Signal.INTERFERENCE
UNKNOWN = -1  # row of a profile that is none
UNKNOWN_WORK_S = 3600.0  # of a job whose duration nobody reads; its value changes nothing


@dataclass(frozen=True)
class Defaults:
    """What stands in for what a request leaves out; None: it must not leave it out."""

    estimate_s: float | None
    profile: str | None
    # Plain name of a GPU type -> that of the type of which it is another name.
    also: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class JobNumbers:
    """What a request says of its J jobs, those that run before those that wait; NaN: nothing."""

    jobs: list[RunningJob | WaitingJob]
    started_s: FloatArray  # (J,)
    submit_s: FloatArray  # (J,) of a running job that does not tell, when it started
    ready_s: FloatArray  # (J,) when it began to wait; of one that does not tell, submit_s
    resume_s: FloatArray  # (J,) of a running job that does not tell, when it started
    estimate_s: FloatArray  # (J,)
    progress_s: FloatArray  # (J,)
    restarts: IntArray  # (J,)

    def where(self, at: int) -> str:
        """A job's place in the request, for messages."""
        waits = at - int(np.isfinite(self.started_s).sum())
        return named(*(("running", at) if waits < 0 else ("queue", waits)), self.jobs[at])


def numbers_of(form: StateForm) -> JobNumbers:
    """The numbers of a request, job by job."""
    jobs: list[RunningJob | WaitingJob] = [*form.running, *form.queue]
    waits = [np.nan] * len(form.queue)
    started_s = np.array([job.started_s for job in form.running] + waits)
    submit_s = np.array([job.submitted_s for job in jobs], dtype=np.float64)  # None becomes NaN
    submit_s = np.where(np.isnan(submit_s), started_s, submit_s)
    told = [job.ready_s if isinstance(job, WaitingJob) else None for job in jobs]
    ready_s = np.array(told, dtype=np.float64)
    resume_s = np.array([*(job.resume_s for job in form.running), *waits], dtype=np.float64)
    return JobNumbers(
        jobs=jobs,
        started_s=started_s,
        submit_s=submit_s,
        ready_s=np.where(np.isnan(ready_s), submit_s, ready_s),
        resume_s=np.where(np.isnan(resume_s), started_s, resume_s),
        estimate_s=np.array([job.estimate_s for job in jobs], dtype=np.float64),
        progress_s=np.array([job.progress_s for job in jobs], dtype=np.float64),
        restarts=np.array([job.restarts for job in jobs], dtype=np.int64),
    )


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
        self._row_of: dict[str | None, int] = {name: row for row, name in enumerate(self._names)}
        if defaults.profile is not None:
            self._row_of[None] = self._profile_row(defaults.profile, "default_profile")
        elif not needs & OF_PROFILE:
            self._row_of[None] = int(np.argmax(world.physics.catalogue.gang_ok))
        self.places, self._partitions = Places(world), world.partitions
        self.largest = int(world.partition_gpus.max())

    def set(self, form: StateForm, numbers: JobNumbers, closed: Sequence[int] = ()) -> Set | None:
        """The run at the instant of `form`; None where there is no job. RequestError: a fault.

        `closed`: servers that take nobody new beside those that the request names.
        """
        away = [self.places.server(name, f"away[{at}]") for at, name in enumerate(form.away)]
        placements = self.places.of(form.running)
        if not numbers.jobs:
            return None
        order = np.lexsort((np.array([job.order for job in numbers.jobs]), numbers.submit_s))
        row_of = np.empty(len(order), dtype=np.int64)
        row_of[order] = np.arange(len(order))
        table, assumed = self._table(form, numbers, placements, order)
        by_start = np.argsort(numbers.started_s[: len(placements)], kind="stable").tolist()
        simulator = self.world.simulator(table)
        placed = [(int(row_of[at]), placements[at]) for at in by_start]
        try:
            set_to(simulator, _instant(form.time_s, numbers, order, placed, [*away, *closed]))
        except InvalidDecision as error:
            raise RequestError(f"running: {error}; send what runs now") from error
        self._work_done(simulator, form, row_of)
        return Set(simulator, table.job_id.tolist(), assumed)

    def _work_done(self, simulator: Simulator, form: StateForm, row_of: IntArray) -> None:
        """Write the progress of those whose request leaves it to the physics."""
        unknown = [at for at, job in enumerate(form.running) if job.progress_s is None]
        row, rows = simulator.state.job, row_of[np.array(unknown, dtype=np.int64)]
        ran_s = np.maximum(0.0, form.time_s - row["resume_s"][rows])
        done_s = np.minimum(ran_s * row["rate"][rows], row["work_s"][rows])
        row["progress_s"][rows] = row["seen_progress_s"][rows] = done_s

    def _table(
        self, form: StateForm, numbers: JobNumbers, placements: list[IntArray], order: IntArray
    ) -> tuple[JobTable, AssumedForm]:
        """The job table, rows in `order` of the jobs, and what was assumed."""
        jobs, given = numbers.jobs, len(numbers.jobs)
        gang = [*map(len, placements), *(job.gpus for job in form.queue)]
        home = [int(self.places.owner[gpus[0]]) for gpus in placements] + self._homes(form)
        estimate_s = self._estimates_s(numbers)[order]
        users = np.array([job.user or "" for job in jobs], dtype=object)[order]
        unknown: IntArray = np.full(given, -1, dtype=np.int64)
        least_s = np.where(np.isnan(estimate_s), UNKNOWN_WORK_S, estimate_s)
        table = JobTable(
            job_id=np.array([job.id for job in jobs], dtype=object)[order],
            submit_s=numbers.submit_s[order],
            num_gpus=np.array(gang, dtype=np.int64)[order],
            duration_s=np.fmax(least_s, numbers.progress_s[order]),
            estimate_s=estimate_s,
            profile=self._profiles(numbers)[order],
            home=np.array(home, dtype=np.int64)[order],
            measured=np.ones(given, dtype=np.bool_),
            identity=Identity(codes_of(users), unknown, unknown) if any(users) else None,
            demands=self._demands(numbers, order),
        )
        assumed = AssumedForm(
            estimate_s=int(np.isnan(numbers.estimate_s).sum()),
            profile=sum(job.profile is None for job in jobs),
        )
        return table, assumed

    def _estimates_s(self, numbers: JobNumbers) -> FloatArray:
        missing = np.isnan(numbers.estimate_s)
        if self._defaults.estimate_s is not None:
            return np.where(missing, self._defaults.estimate_s, numbers.estimate_s)
        if self._needs & OF_DURATION and missing.any():
            raise RequestError(
                f"{numbers.where(int(np.argmax(missing)))}: estimate_s is missing, and this "
                "scheduler orders by it; give it, set default_estimate_s=SECONDS, or serve one "
                "that needs none, like scheduler=fifo"
            )
        return numbers.estimate_s

    def _profiles(self, numbers: JobNumbers) -> IntArray:
        rows = [self._row_of.get(job.profile, UNKNOWN) for job in numbers.jobs]
        if UNKNOWN in rows:
            at = rows.index(UNKNOWN)
            name, where = numbers.jobs[at].profile, numbers.where(at)
            if name is not None:
                self._profile_row(name, f"{where}.profile")
            raise RequestError(
                f"{where}: profile is missing, and this scheduler looks at it; give it, or set "
                "default_profile=NAME (GET /cluster lists them)"
            )
        return np.array(rows, dtype=np.int64)

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
                f"gpus is {job.gpus}; the largest partition has {amount(self.largest, 'GPU')}, and "
                "a gang stays inside one"
            )
        if not _more_than_gpus(job):
            return ""
        topology = self.world.topology
        fits = self._types(job.gpu_types) >> topology.server_gpu_type & 1 > 0
        if not fits.any():
            return self._typeless(job)
        room = most_workers((*_milli_and_mib(job), self._types(job.gpu_types)), self.world)
        if job.gpus > room:
            return (
                f"gpus is {job.gpus}, each with {job.cores_per_gpu:g} cores and "
                f"{job.memory_gib_per_gpu:g} GiB; no partition has room for more than {room:.0f}"
            )
        return ""

    def _typeless(self, job: RunningJob | WaitingJob) -> str:
        topology = self.world.topology
        return (
            f"gpu_types is {', '.join(job.gpu_types or ())}; {topology.name} has "
            f"{', '.join(topology.gpu_types)}"
        )

    def _types(self, names: Sequence[str] | None) -> int:
        """Bits of the GPU types that will do."""
        if names is None:
            return ANY_TYPE
        return type_mask(names, self.world, self._defaults.also)

    def _demands(self, numbers: JobNumbers, order: IntArray) -> Demands | None:
        """What each GPU's worker asks for; None where nobody asks for more than GPUs."""
        if not any(map(_more_than_gpus, numbers.jobs)):
            return None
        types = [self._types(job.gpu_types) for job in numbers.jobs]
        if 0 in types:
            at = types.index(0)
            raise RequestError(f"{numbers.where(at)}: {self._typeless(numbers.jobs[at])}")
        host = np.array([_milli_and_mib(job) for job in numbers.jobs])[order]
        return Demands(
            gpu_milli=np.array([job.gpu_milli for job in numbers.jobs])[order],
            cpu_milli=host[:, 0],
            memory_mib=host[:, 1],
            type_mask=np.array(types)[order],
        )

    def _homes(self, form: StateForm) -> list[int]:
        """Where each job of the queue waits."""
        count, homes = self._partitions, list[int]()
        for at, job in enumerate(form.queue):
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
            homes.append(job.partition or 0)
        return homes


def _instant(
    now_s: float,
    numbers: JobNumbers,
    order: IntArray,
    placed: Sequence[tuple[int, IntArray]],
    closed: Sequence[int],
) -> Instant:
    """What has become of the jobs, rows in `order`."""
    resume_s, jobs = numbers.resume_s[order], numbers.jobs
    gpus = np.zeros(len(order))
    for row, held in placed:
        gpus[row] = len(held)
    under_way_s = np.maximum(0.0, now_s - np.nan_to_num(resume_s, nan=now_s)) * gpus
    attained = np.array([job.attained_gpu_s for job in jobs], dtype=np.float64)[order]
    return Instant(
        now_s=now_s,
        placements=placed,
        ready_s=numbers.ready_s[order],
        progress_s=np.nan_to_num(numbers.progress_s)[order],
        attained_gpu_s=np.where(np.isnan(attained), under_way_s, attained),
        started_s=numbers.started_s[order],
        resume_s=resume_s,
        restarts=numbers.restarts[order],
        forwards=np.array([job.forwards for job in jobs], dtype=np.int64)[order],
        closed=closed,
    )


def _more_than_gpus(job: RunningJob | WaitingJob) -> bool:
    part = job.gpu_milli < WHOLE_GPU_MILLI
    return bool(part or job.gpu_types or job.cores_per_gpu or job.memory_gib_per_gpu)


def _milli_and_mib(job: RunningJob | WaitingJob) -> tuple[int, int]:
    return round(job.cores_per_gpu * MILLI), round(job.memory_gib_per_gpu * MIB_PER_GIB)
