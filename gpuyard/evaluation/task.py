"""Runs of an evaluation: one, several together, and all of them in worker processes."""

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from joblib import cpu_count

from gpuyard.evaluation.assumed import assumed_line, assumptions
from gpuyard.evaluation.experiment import (
    composition_of,
    labels_of,
    may_preempt,
    opened,
    shares_between_users,
    warn_without_users,
)
from gpuyard.evaluation.jobs import warm_up
from gpuyard.evaluation.lineup import Contender
from gpuyard.launch.errors import ConfigError, instead
from gpuyard.launch.sweeps import in_processes, processes_of
from sim.errors import GpuYardError
from sim.files import ComparisonRow, Labels
from sim.jobs import JobTable
from sim.protocols import Scheduler
from sim.report.run_folder import TIMELINE_BINS
from sim.report.run_tables import job_frame
from sim.report.summary import summarise
from sim.report.timeline import Timeline, timeline_of
from sim.run import Run
from sim.simulator import Simulator, simulate
from sim.traces.streams import PARTS

if TYPE_CHECKING:
    import pandas as pd


log = logging.getLogger(__name__)

JOB_COLUMNS = [
    "job_id", "num_gpus", "duration_s", "profile", "home", "partition", "jct_s", "queue_delay_s",
    "run_s", "preemptions", "forwards",
]  # fmt: skip


@runtime_checkable
class PlaysTogether(Protocol):
    """A scheduler for which several runs at once are cheaper than one after the other."""

    def play_together(self, simulators: Sequence[Simulator], seed: int) -> list[Run]:
        """Fresh runs of one cluster to their ends, with the very decisions of each alone."""


@dataclass(frozen=True)
class Task:
    """One scheduler on one window; hashable texts and numbers."""

    setting: str  # JSON of the resolved configuration
    contender: Contender
    part: str | None  # None: the whole workload
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
    experiment, scheduler = opened(task.setting), scheduler_of(task.setting, task.contender)
    labels = labels_of(experiment, scheduler, window=task.window, role=task.contender.role)
    return replace(labels, scheduler=task.contender.name or labels.scheduler)


def run_task(task: Task) -> Outcome:
    """Simulate one window to its end.

    Raises:
        GpuYardError: from the simulation; the message begins with scheduler and window.
    """
    labels = task_labels(task)
    try:
        return outcome_of(in_time(labels, task), run_of(task))
    except GpuYardError as error:
        place = f"{labels.scheduler}, {task.part} window {task.window}"
        raise GpuYardError(f"{place}: {error}") from None


def run_of(task: Task) -> Run:
    """The run of a task, whole; GpuYardError is the simulation's."""
    experiment = opened(task.setting)
    simulator = experiment.simulator(_window(task.setting, task.part, task.window))
    compiled = not simulator.python_decides(scheduler_of(task.setting, task.contender))
    scheduler = _warm_scheduler(task.setting, task.contender, compiled)
    return simulate(simulator, scheduler, experiment.seed, None, compiled=compiled)


def assumed_of(setting: str, tasks: Sequence[Task] = ()) -> tuple[str, ...]:
    """Log what `tasks` take for granted; all contenders have the same cluster and jobs."""
    experiment, contenders = opened(setting), {(task.setting, task.contender) for task in tasks}
    preempts = any(may_preempt(scheduler_of(*each)) for each in contenders)
    assumed = assumptions(json.loads(setting), experiment, preempts=preempts)
    log.info("%s", assumed_line(experiment, assumed))
    return assumed


def warn_of_task(task: Task) -> None:
    """Say where the scheduler is fair between users and the jobs of this window name none."""
    scheduler = scheduler_of(task.setting, task.contender)
    if shares_between_users(scheduler):
        warn_without_users(scheduler, _window(task.setting, task.part, task.window))


def distinct(tasks: Sequence[Task]) -> list[Task]:
    """The tasks without those that would play as an earlier one, told in a warning each.

    With one partition nothing is forwarded, so that compositions which differ in that are equal;
    so are an entry with `agents: 1` and one without where all have one agent.
    """
    first: dict[str, Task] = {}
    for task in tasks:
        same = first.setdefault(_composed_alike(task), task)
        if same is not task:
            log.warning(
                "%s plays as %s does here; it is left out", task.contender.place,
                same.contender.place,
            )  # fmt: skip
    return list(first.values())


def check_names(tasks: Sequence[Task]) -> None:
    """Raise ConfigError, naming both entries, for two of one name and number of agents."""
    places: dict[tuple[str, int], list[str]] = {}
    for task in tasks:
        labels = task_labels(task)
        places.setdefault((labels.scheduler, labels.agents), []).append(task.contender.place)
    for (scheduler, _), found in places.items():
        if len(found) > 1:
            raise ConfigError(
                f"{' and '.join(found)} make the same scheduler {scheduler}; leave one out or give "
                f"it a name"
            )


def ours_of(tasks: Sequence[Task], wanted: str | None) -> str | None:
    """The scheduler that is divided by the others: the one wanted, else that of role ours.

    Raises:
        ConfigError: none of the schedulers has the name wanted.
    """
    one_each = {(task.setting, task.contender): task for task in tasks}
    roles = {task_labels(task).scheduler: task.contender.role for task in one_each.values()}
    if wanted is not None and wanted not in [*roles]:
        raise ConfigError(f"ours is {wanted!r}; the schedulers here are {', '.join(roles)}")
    return wanted or next((name for name, role in roles.items() if role == "ours"), None)


def _composed_alike(task: Task) -> str:
    """A text that is the same for two tasks of equal setting, cluster and composition."""
    parts = json.loads(task.contender.composition)
    if opened(task.setting).world.partitions == 1:
        parts.pop("forwarding", None)
    return json.dumps([task.setting, parts], sort_keys=True)


MOST_WINDOWS = 100_000  # a line-up's runs are listed before they are played


def windows_played(asked: int, setting: str, part: str) -> int:
    """How many windows there are to play, at most `asked`; all contenders have the same.

    Raises:
        GpuYardError: the part is none or too short, or the file cannot be read.
    """
    if part not in PARTS:
        raise ConfigError(f"part is {part!r}; {instead(part, PARTS)}")
    if asked > MOST_WINDOWS:
        raise ConfigError(f"windows is {asked}; it must be at most {MOST_WINDOWS}")
    return opened(setting).played(part, asked)


def run_together(tasks: Sequence[Task]) -> list[Outcome]:
    """`run_task` of each, tasks that differ in their window only, played together.

    Raises:
        GpuYardError: from the simulation; the message begins with scheduler and windows.
    """
    first, labels = tasks[0], [task_labels(task) for task in tasks]
    experiment = opened(first.setting)
    try:
        scheduler = _warm_scheduler(first.setting, first.contender, False)
        assert isinstance(scheduler, PlaysTogether)
        simulators = [
            experiment.simulator(_window(task.setting, task.part, task.window)) for task in tasks
        ]
        runs = scheduler.play_together(simulators, experiment.seed)
        placed = map(in_time, labels, tasks)
        return [outcome_of(label, run) for label, run in zip(placed, runs, strict=True)]
    except GpuYardError as error:
        windows = f"{first.part} windows {first.window} to {tasks[-1].window}"
        raise GpuYardError(f"{labels[0].scheduler}, {windows}: {error}") from None


def in_time(labels: Labels, task: Task) -> Labels:
    """The labels with the part, and the stretch of time that the window may share with others."""
    stretch = opened(task.setting).stretch(task.part, task.window)
    return replace(labels, stretch=stretch, part=task.part)


def outcome_of(labels: Labels, run: Run) -> Outcome:
    """What is kept of a run."""
    return Outcome(
        row=ComparisonRow(labels, summarise(run)),
        jobs=job_frame(run).loc[run.jobs.measured, JOB_COLUMNS],
        timeline=timeline_of(run, bins=TIMELINE_BINS),
    )


MOST_TOGETHER = 20  # a stop loses these; a pass for 20 takes a third longer than one for one


@lru_cache(maxsize=2 * MOST_TOGETHER)
def _window(setting: str, part: str | None, index: int) -> JobTable:
    return opened(setting).window(part, index)


@lru_cache(maxsize=256)
def scheduler_of(setting: str, contender: Contender) -> Scheduler:
    """The scheduler of a contender, kept in this process.

    Raises:
        GpuYardError: it cannot be built; the message begins with its entry, the cause is the error.
    """
    try:
        world = opened(setting).world
        belief = {"belief": json.loads(setting)["belief"]}  # that of the entry, if it has one
        return composition_of({**json.loads(contender.composition), **belief}, world.partitions)
    except GpuYardError as error:
        raise GpuYardError(f"{contender.place}: {error}") from error


@lru_cache(maxsize=256)
def _warm_scheduler(setting: str, contender: Contender, compiled: bool) -> Scheduler:
    scheduler = scheduler_of(setting, contender)
    warm_up(opened(setting).world, scheduler, compiled=compiled)
    return scheduler


def batches_of(tasks: Sequence[Task], jobs: int) -> Iterator[Sequence[Task]]:
    """Batches of tasks: many windows of a scheduler that plays them together, others singly.

    Batches of many come first, the longest work at the beginning. A scheduler's windows are divided
    only where there would be fewer batches than processes: half a batch takes nearly as long.
    """
    together = [
        task
        for task in tasks
        if isinstance(scheduler_of(task.setting, task.contender), PlaysTogether)
    ]
    by_contender = sorted(together, key=lambda task: (task.setting, task.contender.place))
    groups = [
        list(group)
        for _, group in groupby(by_contender, key=lambda task: (task.setting, task.contender))
    ]
    pieces = -(-max(jobs, 1) // max(len(groups), 1))
    for windows in groups:
        size = min(-(-len(windows) // pieces), MOST_TOGETHER)
        yield from (windows[at : at + size] for at in range(0, len(windows), size))
    alone = set(tasks) - set(together)
    yield from ([task] for task in tasks if task in alone)


def run_batch(batch: Sequence[Task]) -> list[Outcome]:
    """The outcomes of one batch.

    Raises:
        GpuYardError: from a simulation; the message begins with scheduler and windows.
    """
    return [run_task(batch[0])] if len(batch) == 1 else run_together(batch)


def outcomes_of(tasks: Sequence[Task], jobs: int) -> Iterator[Outcome]:
    """Outcomes as they come, in no particular order; `jobs` processes, -1 for one a core.

    Raises:
        ConfigError: `jobs` is no whole number, or 0.
        GpuYardError: of the first run that fails; the others are ended.
    """
    processes = processes_of(jobs, cpu_count())
    batches = batches_of(tasks, processes)
    yield from chain.from_iterable(in_processes(run_batch, batches, processes))
