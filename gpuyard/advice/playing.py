"""The rows of an answer, and each scheduler on the whole trace, in a worker process."""

import logging
import multiprocessing
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from gpuyard.advice.aims import (
    blocks_of,
    bootstrapped,
    finished_of_run,
    finished_of_trace,
    large_gang,
    peak_gpus,
    stops_of,
    unserved,
)
from gpuyard.evaluation.experiment import OneQueueError, may_preempt, opened
from gpuyard.evaluation.jobs import warm_up, without_misfits
from gpuyard.evaluation.lineup import STARTED, Contender, lineup_of, without_limits
from gpuyard.evaluation.task import Task, distinct, scheduler_of, setting_text
from gpuyard.launch.build import check_keys
from gpuyard.launch.errors import ConfigError
from gpuyard.launch.terminal import Lines
from sim.arrays import FloatArray
from sim.errors import GpuYardError
from sim.jobs import JobTable, never_ran
from sim.protocols import Looping, Scheduler
from sim.report.job_times import counted, given_up
from sim.report.timeline import forlorn
from sim.run import Run
from sim.simulator import Simulator, simulate
from sim.traces.workload import TraceWorkload
from sim.view import Signal, information_of

log = logging.getLogger(__name__)

WHAT_HAPPENED = "what_happened"
LEARNED = "learned"  # weights for this very cluster
ELSEWHERE = "what_happened (elsewhere)"  # where the trace needed more GPUs than there are here


@dataclass(frozen=True)
class Scenario:
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
    scenario: Scenario
    information: str  # none, limit, predicted, oracle
    slow: bool  # takes minutes where others take seconds
    words: str = ""  # that play it in any program


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
    unserved: int  # users of whom no measured job finished
    draws: dict[str, FloatArray]  # aim -> (1 + R,): the value, then the bootstrap's
    seconds: float  # that the simulation took
    role: str = ""
    failed: str = ""  # why there is no result
    words: str = ""  # that play it in any program


@lru_cache(maxsize=8)
def jobs_of(scenario: Scenario) -> tuple[JobTable, int]:
    """The jobs that are played, and how many were left out as they fit nowhere.

    Raises:
        GpuYardError: the workload cannot be read, or a job fits nowhere and may not be left out.
    """
    experiment = opened(scenario.setting)
    jobs = experiment.window(scenario.part, 0)
    leave_out, load = scenario.leave_out, experiment.load
    return without_misfits(jobs, experiment.world, leave_out=leave_out, load=load)


def waits_and_limits(scenario: Scenario) -> tuple[FloatArray | None, bool]:
    """(J,) how long the jobs waited as the file has it, None if it does not say; any time limit?"""
    experiment = opened(scenario.setting)
    if not isinstance(experiment.workload, TraceWorkload):  # they are generated
        return None, False
    trace = experiment.workload.trace(part=scenario.part, setting=experiment.setting)
    jobs, left_out = jobs_of(scenario)
    limited = trace.limit_s is not None and bool(np.isfinite(trace.limit_s).any())
    waited_s = trace.waited_s
    if waited_s is None or np.isnan(waited_s).all():
        return None, limited
    if left_out:
        waited_s = waited_s[np.isin(trace.job_id.astype(str), jobs.job_id.astype(str))]
    return waited_s, limited


def play(candidate: Candidate) -> Played:
    """Simulate to the end and measure; a scheduler that fails comes back with the reason."""
    if multiprocessing.current_process().name != "MainProcess":  # that has told its warnings
        for room in ("sim.traces", "gpuyard.evaluation"):
            logging.getLogger(room).setLevel(logging.ERROR)
    scenario = candidate.scenario
    experiment, (jobs, _) = opened(scenario.setting), jobs_of(scenario)
    scheduler = scheduler_of(scenario.setting, candidate.contender)
    row = Played(
        name=candidate.name, contender=_short(candidate), scheduler=scheduler.name,
        information=candidate.information, needs=needed(scheduler), preempts=False,
        stops_per_job=0.0, jobs=0, withdrawn=0, unserved=0, draws={}, seconds=0.0,
        role=candidate.contender.role, words=candidate.words,
    )  # fmt: skip
    try:
        run = run_of(candidate)
    except GpuYardError as error:
        return replace(row, failed=str(error))
    blocks = blocks_of(jobs.submit_s, jobs.measured, scenario.blocks)
    large = large_gang(jobs, experiment.world.topology, scenario.large)
    stops = stops_of(run)
    return replace(
        row,
        preempts=stops > 0 or may_preempt(scheduler),
        stops_per_job=stops / int(jobs.measured.sum()),
        jobs=int(counted(run).sum()),
        withdrawn=int((jobs.measured & given_up(run)).sum()),
        unserved=unserved(jobs, counted(run)),
        draws=bootstrapped(finished_of_run(run, blocks, large), blocks.count),
        seconds=run.loop_wall_s,
    )


def run_of(candidate: Candidate) -> Run:
    """The run of one row; GpuYardError is the simulation's."""
    scenario = candidate.scenario
    experiment, (jobs, _) = opened(scenario.setting), jobs_of(scenario)
    scheduler = scheduler_of(scenario.setting, candidate.contender)
    simulator = experiment.world.simulator(jobs)
    warm_up(experiment.world, scheduler, compiled=not simulator.python_decides(scheduler))
    lines = None if sys.stderr.isatty() else Lines(simulator, candidate.name).tell
    return simulate(simulator, scheduler, experiment.seed, lines)


def happened(scenario: Scenario, waited_s: FloatArray) -> Played | None:
    """The row of the trace itself; None where no measured job began.

    `waited_s` (J,) is from submission to start as it was; NaN: the job never began. Who was given
    up before it had any work counts no more than in the rows that are played.
    """
    experiment, (jobs, _) = opened(scenario.setting), jobs_of(scenario)
    blocks = blocks_of(jobs.submit_s, jobs.measured, scenario.blocks)
    topology, lost = experiment.world.topology, forlorn(jobs)
    ran = int((lost & ~np.isnan(waited_s)).sum())
    if ran:
        log.warning(
            "%d jobs ran though a parent did not complete: no row plays them, and %s is without "
            "them; 'workload.rules.ignore=[fates]' plays them", ran, WHAT_HAPPENED,
        )  # fmt: skip
    idle = never_ran(jobs.duration_s, None if jobs.fates is None else jobs.fates.withdraw_s)
    waited_s = np.where(lost | idle, np.nan, waited_s)
    large = large_gang(jobs, topology, scenario.large)
    finished = finished_of_trace(jobs, waited_s, topology, blocks, large)
    if not len(finished.block):
        return None
    name = WHAT_HAPPENED if peak_gpus(jobs, waited_s) <= topology.num_gpus else ELSEWHERE
    return Played(
        name=name, contender=name, scheduler=WHAT_HAPPENED, information="-", needs=(),
        preempts=False, stops_per_job=float("nan"), jobs=len(finished.block),
        withdrawn=int((jobs.measured & np.isnan(waited_s)).sum()),
        unserved=unserved(jobs, ~np.isnan(waited_s)),
        draws=bootstrapped(finished, blocks.count), seconds=0.0,
    )  # fmt: skip


def _short(candidate: Candidate) -> str:
    """The name; nothing where it is a bound, with which nobody is compared."""
    if candidate.information == "oracle":
        return ""
    return candidate.name.removesuffix(f", {candidate.information}")


def needed(scheduler: Scheduler) -> tuple[str, ...]:
    """What a scheduler reads beyond durations, in words."""
    models = Signal.PROFILE | Signal.INTERFERENCE
    return ("models",) if scheduler.needs & models else ()


PYTHON, SCORES = "decide in Python", "score each pair of job and place"
KNOWS = ("limit", "predicted", "oracle")  # keys of `knows`; what a batch system can have, then all
NO_LIMITS = (
    "rows told users' time limits: no job has one; map the column "
    "(Timelimit of sacct, workload.columns.limit_s of a CSV)"
)


def candidates_of(
    config: Mapping[str, Any], scenario: Scenario, *, limits: bool, choices: Mapping[str, str],
    own: Sequence[Contender] = (),
) -> tuple[list[Candidate], list[str]]:  # fmt: skip
    """The rows to play, and what is left out with the reason and the key that brings it in.

    A scheduler that reads predictions is a row for every entry of `knows`, which `choices` has the
    names of. `limits`: some job has a time limit; `own`: contenders beside the line-up.

    Raises:
        GpuYardError: an entry of the line-up is wrong.
    """
    knows = known_of(config)
    jobs, _ = jobs_of(scenario)
    few = len(jobs) <= config["slow_jobs"]
    simulator = opened(scenario.setting).world.simulator(jobs)
    found, one_queue = list[Candidate](), list[str]()
    slow: dict[str, list[str]] = {}  # reason -> names
    entered = [*lineup_of(without_limits(config)[1]), *own]
    tasks = distinct([
        Task(setting_text(config, each), each, "", 0)
        for each in entered if each.name != STARTED  # nobody wants to play that
    ])  # fmt: skip
    for contender in (task.contender for task in tasks):
        name = contender.name or contender.place
        first = Candidate(name, contender, scenario, "none", slow=False)
        try:
            scheduler = scheduler_of(scenario.setting, contender)
        except GpuYardError as error:
            if not isinstance(error.__cause__, OneQueueError):
                raise
            one_queue.append(name)
            continue
        why = _why_slow(simulator, scheduler)
        first = replace(first, name=contender.name or scheduler.name, slow=bool(why))
        if why and not few and not _kept(config, first, scheduler):
            slow.setdefault(why, []).append(first.name)
            continue
        names = _known_by(scheduler, knows, limits=limits, all_of_them=few or not why)
        rows = [_row(config, first, scheduler, each, knows[each]) for each in names]
        found += [_with_words(row, choices) for row in rows]
    left_out = _reasons(one_queue, slow, len(jobs))
    if not limits and "limit" in knows:
        left_out.append(NO_LIMITS)
    _check_names(found)
    return found, left_out


def _reasons(one_queue: Sequence[str], slow: Mapping[str, Sequence[str]], jobs: int) -> list[str]:
    """Who is left out, why, and by which key they come in; `slow` is reason -> schedulers."""
    found = []
    if one_queue:
        names = ", ".join(one_queue)
        found.append(f"{names}, which own one queue for the cluster; agents.count=1 brings them in")
    if slow:
        reasons = "; ".join(f"{', '.join(names)}, which {why}" for why, names in slow.items())
        found.append(f"too slow for {jobs:,} jobs: {reasons}; slow_jobs={jobs} brings them in")
    return found


def _kept(config: Mapping[str, Any], first: Candidate, scheduler: Scheduler) -> bool:
    """Whether a slow scheduler is played all the same: it is named, or the user's own policy."""
    named = {first.name, scheduler.name} & set(config["slow_kept"])
    return bool(named) or first.contender.role == "ours"


def _known_by(
    scheduler: Scheduler, knows: Mapping[str, Any], *, limits: bool, all_of_them: bool
) -> list[str]:
    """The keys of `knows` that make a row each; of slow schedulers with many jobs the first."""
    if information_of(scheduler.needs) != "predicted":
        return ["oracle"]  # reads none, or the truth itself
    names = [name for name in knows if name != "limit" or limits]
    return names if all_of_them else names[:1]


def _row(
    config: Mapping[str, Any], first: Candidate, scheduler: Scheduler, name: str, estimator: Any
) -> Candidate:
    reads = information_of(scheduler.needs)
    setting = setting_text({**config, "estimator": estimator}, first.contender)
    scenario = replace(first.scenario, setting=setting)
    if reads != "predicted":
        return replace(first, scenario=scenario, information=reads)
    return replace(first, scenario=scenario, information=name, name=f"{first.name}, {name}")


def _with_words(row: Candidate, choices: Mapping[str, str]) -> Candidate:
    """With the words that play it, the estimator's included where it is told durations by one."""
    words = [row.contender.words] if row.contender.words else []
    estimator = [f"estimator={choices[row.information]}"] if row.information in choices else []
    return replace(row, words=" ".join([*words, *estimator]) if words else "")


def known_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """Who tells durations, by what a row is told, the least first.

    ConfigError: a key of `knows` is unknown, or the oracle is missing.
    """
    knows = config["knows"]
    check_keys("knows", knows, KNOWS, needed=())
    for name in knows:
        if not isinstance(knows[name], Mapping | None):
            fix = f"choose one, like estimator@knows.{name}=group_median, or leave it out"
            raise ConfigError(f"knows.{name} is {knows[name]!r}, no estimator; {fix}")
    if knows.get("oracle") is None:
        raise ConfigError("knows.oracle is missing; its rows are the bound of all others")
    return {name: knows[name] for name in KNOWS if knows.get(name) is not None}


def _why_slow(simulator: Simulator, scheduler: Scheduler) -> str:
    """Why many jobs take minutes; empty where they take seconds."""
    if simulator.python_decides(scheduler) or simulator.asks(scheduler):
        return PYTHON
    return SCORES if isinstance(scheduler, Looping) else ""


def _check_names(candidates: list[Candidate]) -> None:
    """Raise ConfigError, naming both entries, for two rows of one name."""
    seen: dict[str, str] = {}
    for each in candidates:
        place = each.contender.place
        other = seen.setdefault(each.name, place)
        if other != place:
            raise ConfigError(
                f"{other} and {place} make the same row {each.name}; leave one out or give it a "
                f"name"
            )
