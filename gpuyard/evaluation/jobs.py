"""Jobs that no partition has room for, even when it is empty; made-up ones for warming up."""

import copy
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import or_

import numpy as np

from gpuyard.launch.errors import ConfigError
from marl.env.world import World
from sim.arrays import BoolArray, FloatArray, IntArray
from sim.errors import GpuYardError, SignalError, amount
from sim.jit import PACKAGES
from sim.jobs import JobTable
from sim.physics.reference import reference_steps_s
from sim.protocols import Scheduler
from sim.simulator import simulate
from sim.topology.outages import NO_OUTAGES
from sim.traces.job_traits import ERROR, TypeWords
from sim.traces.prepare import load_offered, picked_jobs

log = logging.getLogger(__name__)

MIB_PER_GIB = 1024.0
MILLI = 1000.0


def without_misfits(
    jobs: JobTable, world: World, *, leave_out: bool, load: float | None
) -> tuple[JobTable, int]:
    """The jobs that fit somewhere, and how many do not; `load` is what they were scaled to.

    Those that are left come as much faster as makes up for the others. None: as they came.

    Raises:
        ConfigError: some do not and may not be left out, or none does.
    """
    fits = fit_somewhere(jobs, world)
    if fits.all():
        return jobs, 0
    misfits = int((~fits).sum())
    if not fits.any():
        raise ConfigError(f"{misfit_words(jobs, fits, world)}; no job would be left")
    if not leave_out:
        raise ConfigError(
            f"{misfit_words(jobs, fits, world)}; leave_out=true leaves such jobs out, "
            f"'workload.rules.ignore=[demands]' forgets what jobs ask for beside GPUs"
        )
    kept = picked_jobs(jobs, np.flatnonzero(fits))
    return (kept if load is None else _at_load(kept, load, world.topology.num_gpus)), misfits


def _at_load(jobs: JobTable, load: float, gpus: int) -> JobTable:
    """The jobs with submission times, and deadlines with them, stretched to the load."""
    now = load_offered(jobs.gang_gpus * jobs.duration_s, jobs.submit_s, gpus)
    stretch = now / load if np.isfinite(now) else 1.0  # of jobs that come at one time there is none
    submit_s, due = (jobs.submit_s - jobs.submit_s[0]) * stretch, jobs.urgency
    if due is not None:
        due = replace(due, deadline_s=due.deadline_s + submit_s - jobs.submit_s)
    return replace(jobs, submit_s=submit_s, urgency=due)


def fit_somewhere(jobs: JobTable, world: World) -> BoolArray:
    """(J,) whether the empty servers of some partition hold all workers of the job."""
    if jobs.demands is None:
        return jobs.num_gpus <= world.partition_gpus.max()
    asks, kind = np.unique(
        np.stack([jobs.demands.cpu_milli, jobs.demands.memory_mib, jobs.demands.type_mask], axis=1),
        axis=0,
        return_inverse=True,
    )
    room = np.array([most_workers(ask, world) for ask in asks.tolist()], dtype=np.float64)
    fits: BoolArray = jobs.num_gpus <= room[kind.ravel()]
    return fits


def most_workers(ask: Sequence[int], world: World) -> float:
    """Of one kind of worker, in the partition that holds most of them, when servers are empty.

    `ask`: thousandths of a core, MiB, and bits of GPU types.
    """
    topology, (cpu, memory, mask) = world.topology, ask
    workers = np.where((mask >> topology.server_gpu_type) & 1, topology.gpus_per_server, 0.0)
    for each, has in ((cpu, topology.server_cpu_milli), (memory, topology.server_memory_mib)):
        if each > 0 and has is not None:
            workers = np.minimum(workers, has // each)
    return float(np.bincount(world.partition_of_server, weights=workers).max())


def type_mask(names: Sequence[str], world: World, also: Mapping[str, str]) -> int:
    """Bits of the GPU types that bear one of these names, or of which one is another (`also`)."""
    words = TypeWords(world.topology.gpu_types, {}, ERROR, also)
    return reduce(or_, map(words.bits, names), 0)


def speed_of_asked(jobs: JobTable, world: World) -> FloatArray:
    """(J,) a step on the reference GPU type over one on the type that a job asks for.

    1 where it asks for none or several. Steps are alone and most compact.
    """
    speed = np.ones(len(jobs))
    if jobs.demands is None:
        return speed
    topology, physics = world.topology, world.physics
    reference_s = reference_steps_s(jobs.num_gpus, topology, physics)
    for bit, name in enumerate(topology.gpu_types):
        mine = jobs.demands.type_mask == 1 << bit
        if mine.any() and name != physics.reference_gpu:
            on_it = replace(physics, reference_gpu=name)
            step_s = reference_steps_s(jobs.num_gpus, topology, on_it)
            at = jobs.profile[mine], jobs.num_gpus[mine]
            speed[mine] = reference_s[at] / step_s[at]
    return speed


def misfit_words(jobs: JobTable, fits: BoolArray, world: World) -> str:
    """How many jobs have no room, and what the first of them asks for."""
    row = int(np.argmin(fits))
    asks = amount(jobs.num_gpus[row], "GPU")
    if jobs.demands is not None:
        cores = jobs.demands.cpu_milli[row] / MILLI
        gib = jobs.demands.memory_mib[row] / MIB_PER_GIB
        types = _types(int(jobs.demands.type_mask[row]), world.topology.gpu_types)
        asks += f", each with {cores:g} cores, {gib:g} GiB and type {types}"
    where = "" if world.partitions == 1 else f" in one of {world.partitions} partitions"
    return (
        f"{int((~fits).sum())} of {amount(len(jobs), 'job')} fit nowhere on "
        f"{world.topology.name}{where}, even when it is empty; the first is job "
        f"{jobs.job_id[row]}: {asks}"
    )


def _types(mask: int, names: tuple[str, ...]) -> str:
    allowed = [name for at, name in enumerate(names) if (mask >> at) & 1]
    if len(allowed) == len(names):
        return "any"
    return " or ".join(allowed) or "of another cluster"


def warm_up(world: World, scheduler: Scheduler, *, compiled: bool = True) -> None:
    """Run a few jobs through `scheduler`, or its compiled form, on this cluster, and forget them.

    They reach what a real trace reaches: gangs inside a server and across servers, a full cluster
    with a queue (so that jobs share, wait, are preempted, forwarded or taken over), every
    partition, and an empty one at the end. Of the user's own code a copy plays: it may remember.

    Raises:
        GpuYardError: the scheduler decides something illegal; the message says that these jobs are
            made up.
    """
    if _of_the_user(scheduler):
        try:
            scheduler = copy.deepcopy(scheduler)
        except TypeError as error:  # it holds a lock, say, or an open file
            log.info("%s is not tried before the run: %s", scheduler.name, error)
            return
    gangs = _gangs(world)
    count = len(gangs)
    profile = int(np.argmax(world.physics.catalogue.gang_ok))
    duration_s = np.linspace(20.0, 10.0, count)  # later jobs are shorter: they may preempt
    jobs = JobTable(
        job_id=np.array([str(row) for row in range(count)], dtype=object),
        submit_s=np.arange(count, dtype=np.float64),
        num_gpus=gangs,
        duration_s=duration_s,
        estimate_s=duration_s,
        profile=np.full(count, profile, dtype=np.int64),
        home=np.arange(count, dtype=np.int64) % world.partitions,
        measured=np.ones(count, dtype=np.bool_),
    )
    whole = replace(world, outages=NO_OUTAGES)  # a gang may need every server
    try:
        simulate(whole.simulator(jobs), scheduler, 0, None, compiled=compiled)
    except SignalError:  # speaks of columns, whatever the jobs
        raise
    except GpuYardError as error:
        trial = f"{scheduler.name}, in a trial run of {count} made-up jobs before yours"
        raise type(error)(f"{trial}: {error}") from error


def _of_the_user(scheduler: Scheduler) -> bool:
    """Whether a part of the scheduler is of no package of this project."""
    rule = getattr(scheduler, "child", scheduler)
    names = ("placer", "sharing", "forwarding")
    parts = [rule, *(getattr(each, name, rule) for each in (scheduler, rule) for name in names)]
    return any(type(part).__module__.partition(".")[0] not in PACKAGES for part in parts)


def _gangs(world: World) -> IntArray:
    """Small, one server and a little more, then whole partitions until nothing is left."""
    largest = int(world.partition_gpus.min())  # every gang fits every partition
    server = int(world.topology.gpus_per_server.max())
    fill = [largest] * (world.rules.max_tenants * world.partitions + 1)
    small = [min(gang, largest) for gang in (1, 2, server, server + 1, 1, 2)]
    return np.array([*small, *fill, 1, min(2, largest)], dtype=np.int64)
