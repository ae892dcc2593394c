"""One run of an evaluation, made to be called in a worker process."""

import json
import multiprocessing
import signal
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from experiment import Experiment, composition_of, experiment_of, labels_of
from lineup import Contender
from warm import warm_up

from sim.errors import GpuYardError
from sim.jobs import JobTable
from sim.metrics.summary import summarise
from sim.metrics.timeline import Timeline, timeline_of
from sim.protocols import Scheduler
from sim.report.comparison_row import ComparisonRow
from sim.report.job_table import job_frame
from sim.report.labels import Labels
from sim.report.run_folder import TIMELINE_BINS
from sim.simulator import simulate

if TYPE_CHECKING:
    import pandas as pd

JOB_COLUMNS = [
    "job_id", "num_gpus", "duration_s", "profile", "home", "partition", "jct_s", "queue_delay_s",
    "run_s", "preemptions", "forwards",
]  # fmt: skip


@dataclass(frozen=True)
class Task:
    """One scheduler on one window; hashable texts and numbers."""

    setting: str  # JSON of the resolved configuration
    contender: Contender
    part: str
    window: int


@dataclass(frozen=True)
class Outcome:
    """What the report needs of one run."""

    row: ComparisonRow
    jobs: "pd.DataFrame"  # measured jobs only, JOB_COLUMNS
    timeline: Timeline


def setting_text(config: Mapping[str, Any], contender: Contender) -> str:
    """The configuration under which `contender` runs: the same cluster and jobs for all.

    An entry with `+belief=` is told other slow-downs than the rest.
    """
    agents = dict(config["agents"])
    if contender.agents is not None:
        agents["count"] = contender.agents
    belief = json.loads(contender.composition).get("belief", config["belief"])
    return json.dumps({**config, "agents": agents, "belief": belief})


def task_labels(task: Task) -> Labels:
    """What the run will be called, without running it.

    Raises:
        GpuYardError: the scheduler cannot be built; the message begins with its entry.
    """
    experiment, scheduler = _experiment(task.setting), _scheduler(task.setting, task.contender)
    labels = labels_of(experiment, scheduler, window=task.window, role=task.contender.role)
    return replace(labels, scheduler=task.contender.name or labels.scheduler)


def run_task(task: Task) -> Outcome:
    """Simulate one window to its end.

    Raises:
        GpuYardError: from the simulation; the message begins with scheduler and window.
    """
    if multiprocessing.current_process().name != "MainProcess":
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process ends its workers
    labels = task_labels(task)
    experiment = _experiment(task.setting)
    jobs = _window(task.setting, task.part, task.window)
    try:
        simulator = experiment.game.simulator(jobs)
        compiled = simulator.has_compiled_form(_scheduler(task.setting, task.contender))
        scheduler = _warm_scheduler(task.setting, task.contender, compiled)
        run = simulate(simulator, scheduler, experiment.seed, None, compiled=compiled)
        metrics = summarise(run)
    except GpuYardError as error:
        place = f"{labels.scheduler}, {task.part} window {task.window}"
        raise GpuYardError(f"{place}: {error}") from None
    frame = job_frame(run)
    return Outcome(
        row=ComparisonRow(labels, metrics),
        jobs=frame.loc[jobs.measured, JOB_COLUMNS],
        timeline=timeline_of(run, bins=TIMELINE_BINS),
    )


@lru_cache(maxsize=16)
def _experiment(setting: str) -> Experiment:
    return experiment_of(json.loads(setting))


@lru_cache(maxsize=8)
def _window(setting: str, part: str, index: int) -> JobTable:
    return _experiment(setting).window(part, index)


@lru_cache(maxsize=256)
def _scheduler(setting: str, contender: Contender) -> Scheduler:
    try:
        game = _experiment(setting).game
        told = {"belief": json.loads(setting)["belief"]}  # that of the entry, if it has one
        return composition_of({**json.loads(contender.composition), **told}, game.partitions)
    except GpuYardError as error:
        raise GpuYardError(f"{contender.place}: {error}") from error


@lru_cache(maxsize=256)
def _warm_scheduler(setting: str, contender: Contender, compiled: bool) -> Scheduler:
    scheduler = _scheduler(setting, contender)
    warm_up(_experiment(setting).game, scheduler, compiled=compiled)
    return scheduler
