"""One scheduler on the whole trace, in a worker process; what comes back is small."""

import json
import logging
import multiprocessing
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol, runtime_checkable

import numpy as np
from joblib import cpu_count

from gpuyard.advice.aims import blocks_of, draws_of, measured
from gpuyard.advice.room import BY_VC, homes_by_vc, without_misfits
from gpuyard.advice.told import large_gang, peak_gpus, stops_of, told_of_run, told_of_trace
from gpuyard.experiment.experiment import OneQueueError, composition_of, opened
from gpuyard.experiment.lineup import Contender
from gpuyard.experiment.warm import warm_up
from gpuyard.launch.processes import in_processes, processes_of
from sim.arrays import FloatArray
from sim.errors import GpuYardError
from sim.jobs import JobTable
from sim.metrics.job_times import counted
from sim.metrics.timeline import withdrawn
from sim.protocols import Scheduler
from sim.signals import Signal
from sim.simulator import simulate
from sim.traces.setting import Setting
from sim.traces.trace import Trace

WHAT_HAPPENED = "what_happened"
LEARNED = "learned"  # weights for this very cluster
ELSEWHERE = "what_happened (elsewhere)"  # where the trace needed more GPUs than there are here


@runtime_checkable
class KeepsTrace(Protocol):
    """A workload that was read from a file."""

    def trace(self, *, part: str | None, setting: Setting) -> Trace:
        """The jobs of a part, or of the whole, with all that the file says."""


@dataclass(frozen=True)
class Ground:
    """The jobs and the cluster; texts and numbers only, so that it can be sent and hashed."""

    setting: str  # JSON of the resolved configuration
    part: str | None  # None: the whole workload
    leave_out: bool  # jobs that fit nowhere; else they are an error
    large: int | None  # GPUs from which a gang is large; None: more than a server has
    blocks: int  # of the bootstrap, at most


@dataclass(frozen=True)
class Candidate:
    """One row to be: a scheduler, and what it is told of durations."""

    name: str  # in the table
    contender: Contender
    ground: Ground
    information: str  # none, limit, predicted, oracle
    slow: bool  # takes minutes where others take seconds


@dataclass(frozen=True)
class Played:
    """What a table needs of one row."""

    name: str
    contender: str  # the name without what it is told
    scheduler: str  # the whole composition
    information: str
    needs: tuple[str, ...]  # beyond durations: models
    preempts: bool
    stops_per_job: float  # NaN: not known
    jobs: int  # measured and finished
    withdrawn: int  # measured jobs whose users gave up first
    draws: dict[str, FloatArray]  # aim -> (1 + R,): the value, then the bootstrap's
    seconds: float  # that the simulation took
    role: str = ""
    failed: str = ""  # why there is no result


@lru_cache(maxsize=8)
def jobs_of(ground: Ground) -> tuple[JobTable, int]:
    """The jobs that are played, and how many were left out as they fit nowhere.

    Raises:
        GpuYardError: the workload cannot be read, or a job fits nowhere and may not be left out.
    """
    experiment = opened(ground.setting)
    jobs = experiment.whole() if ground.part is None else experiment.window(ground.part, 0)
    if json.loads(ground.setting)["homes"] == BY_VC:
        jobs = replace(jobs, home=homes_by_vc(jobs, experiment.game, _trace(ground)))
    return without_misfits(jobs, experiment.game, leave_out=ground.leave_out)


def _trace(ground: Ground) -> Trace | None:
    """The trace behind the jobs, row by row, misfits included; None: they are generated."""
    experiment = opened(ground.setting)
    if not isinstance(experiment.workload, KeepsTrace):
        return None
    return experiment.workload.trace(part=ground.part, setting=experiment.setting)


def waits_and_limits(ground: Ground) -> tuple[FloatArray | None, bool]:
    """(J,) how long the jobs waited as the file has it, None if it does not say; any time limit?"""
    trace = _trace(ground)
    if trace is None:
        return None, False
    jobs, left_out = jobs_of(ground)
    limited = trace.limit_s is not None and bool(np.isfinite(trace.limit_s).any())
    waited_s = trace.waited_s
    if waited_s is None or np.isnan(waited_s).all():
        return None, limited
    if left_out:
        waited_s = waited_s[np.isin(trace.job_id.astype(str), jobs.job_id.astype(str))]
    return waited_s, limited


def scheduler_of(candidate: Candidate) -> Scheduler:
    """The scheduler of a row.

    Raises:
        OneQueueError: it owns one queue, and there are several partitions.
        GpuYardError: it cannot be built here; the message begins with its entry.
    """
    contender = candidate.contender
    try:
        game = opened(candidate.ground.setting).game
        told = {"belief": json.loads(candidate.ground.setting)["belief"]}
        return composition_of({**json.loads(contender.composition), **told}, game.partitions)
    except OneQueueError:
        raise
    except GpuYardError as error:
        raise GpuYardError(f"{contender.place}: {error}") from error


def play(candidate: Candidate) -> Played:
    """Simulate to the end and measure; a scheduler that fails comes back with the reason."""
    if multiprocessing.current_process().name != "MainProcess":
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers
        logging.getLogger("sim.traces").setLevel(logging.ERROR)  # it has told its warnings
    ground = candidate.ground
    experiment, (jobs, _) = opened(ground.setting), jobs_of(ground)
    scheduler = scheduler_of(candidate)
    row = Played(
        name=candidate.name, contender=_short(candidate), scheduler=scheduler.name,
        information=candidate.information, needs=needed(scheduler), preempts=False,
        stops_per_job=0.0, jobs=0, withdrawn=0, draws={}, seconds=0.0,
        role=candidate.contender.role,
    )  # fmt: skip
    simulator = experiment.game.simulator(jobs)
    warm_up(experiment.game, scheduler, compiled=not simulator.python_decides(scheduler))
    began = time.perf_counter()
    try:
        run = simulate(simulator, scheduler, experiment.seed, None)
    except GpuYardError as error:
        return replace(row, failed=str(error))
    blocks = blocks_of(jobs.submit_s, jobs.measured, ground.blocks)
    large = large_gang(jobs, experiment.game.topology, ground.large)
    stops = stops_of(run)
    return replace(
        row,
        preempts=stops > 0 or bool(getattr(_order_of(scheduler), "preempts", False)),
        stops_per_job=stops / int(jobs.measured.sum()),
        jobs=int(counted(run).sum()),
        withdrawn=int((jobs.measured & withdrawn(run)).sum()),
        draws=measured(told_of_run(run, blocks, large), draws_of(blocks.count)),
        seconds=time.perf_counter() - began,
    )


def happened(ground: Ground, waited_s: FloatArray) -> Played | None:
    """The row of the trace itself; None where no measured job began.

    Args:
        ground: jobs and cluster.
        waited_s: (J,) from submission to start as it was; NaN: the job never began.
    """
    experiment, (jobs, _) = opened(ground.setting), jobs_of(ground)
    blocks = blocks_of(jobs.submit_s, jobs.measured, ground.blocks)
    topology = experiment.game.topology
    large = large_gang(jobs, topology, ground.large)
    told = told_of_trace(jobs, waited_s, topology, blocks, large)
    if not len(told.block):
        return None
    name = WHAT_HAPPENED if peak_gpus(jobs, waited_s) <= topology.num_gpus else ELSEWHERE
    return Played(
        name=name, contender=name, scheduler=WHAT_HAPPENED, information="-", needs=(),
        preempts=False, stops_per_job=float("nan"), jobs=len(told.block),
        withdrawn=int((jobs.measured & np.isnan(waited_s)).sum()),
        draws=measured(told, draws_of(blocks.count)), seconds=0.0,
    )  # fmt: skip


def _short(candidate: Candidate) -> str:
    """The name; nothing where it is a bound, with which nobody is compared."""
    if candidate.information == "oracle":
        return ""
    return candidate.name.removesuffix(f", {candidate.information}")


def _order_of(scheduler: Scheduler) -> object:
    """What decides in each partition."""
    return getattr(scheduler, "child", scheduler)


def needed(scheduler: Scheduler) -> tuple[str, ...]:
    """What a scheduler reads beyond durations, in words."""
    models = Signal.PROFILE | Signal.INTERFERENCE
    return ("models",) if scheduler.needs & models else ()


def played(candidates: Sequence[Candidate], jobs: int) -> Iterator[Played]:
    """Rows as they come; `jobs` processes, -1: one a core. What takes longest begins first."""
    ordered = sorted(candidates, key=lambda each: not each.slow)
    yield from in_processes(play, ordered, processes_of(jobs, cpu_count()))
