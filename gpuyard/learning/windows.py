"""The windows that weights are learned and tuned on, and what they are worth there.

What a worker process plays is made from what it is sent: seeds go in, scores come out.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from typing import Any, Protocol, TypeVar

import numpy as np
from joblib import cpu_count

from gpuyard.evaluation.experiment import opened
from gpuyard.launch.build import build, check_count
from gpuyard.launch.errors import ConfigError
from gpuyard.launch.sweeps import in_processes, processes_of
from gpuyard.learning.form import Field, Player, Standard, VectorForm
from gpuyard.learning.strategies import Climb, members
from sim.arrays import FloatArray
from sim.errors import InvalidDecision, SimulationError
from sim.jobs import JobTable
from sim.kernel.step import FULL, PAUSE
from sim.metrics.job_times import mean_jct_s
from sim.protocols import Loop
from sim.scoring.linear_score import LinearScore, unlogged
from sim.scoring.table import SuspendWeight
from sim.scoring.weights import (
    FIRST_AHEAD,
    FORWARD_FEATURES,
    LAYERS,
    START_FEATURES,
    SUSPEND,
    Layer,
    ScoreWeights,
    named,
)
from sim.simulator import Simulator


@dataclass(frozen=True)
class Trial:
    """Weights and the windows they are to play; hashable texts and numbers."""

    setting: str  # JSON of the resolved configuration
    weights: tuple[float, ...]  # of starts, then of forwards
    part: str
    windows: tuple[int, ...]  # of the part


def scheduler_of(config: Mapping[str, Any], weights: Sequence[float] | None) -> LinearScore:
    """The scheduler of the configuration, with other weights where some are given.

    Raises:
        ConfigError: it is another scheduler.
    """
    section = dict(config["scheduler"])
    if weights is not None:
        x = np.array(weights)
        cut = len(START_FEATURES)
        section |= {"weights": named(x[:cut], x[cut:]), "weights_file": None}
    scheduler = build({"scheduler": section}, "scheduler")
    if not isinstance(scheduler, LinearScore):
        raise ConfigError("scheduler must be linear_score: its weights are what is tuned")
    return scheduler


def weights_from(scheduler: LinearScore) -> tuple[float, ...]:
    """The weights of `Trial`.

    Raises:
        ConfigError: the scores have layers, or there is one of suspensions.
    """
    groups = scheduler.weights
    for group in (LAYERS, SUSPEND):
        if group in groups:
            raise ConfigError(
                f"these weights have {group}, which scripts/learn.py learns; tune others"
            )
    return tuple([groups["start"][name] for name in START_FEATURES]
                 + [groups["forward"][name] for name in FORWARD_FEATURES])  # fmt: skip


def free_weights(look_ahead: bool) -> list[int]:
    """Places in the vector of weights that are tuned: all, or those that do not look ahead."""
    names = [("start", at) for at in range(len(START_FEATURES))]
    names += [("forward", at) for at in range(len(FORWARD_FEATURES))]
    return [i for i, (group, at) in enumerate(names) if look_ahead or at < FIRST_AHEAD[group]]


def log_jct(trial: Trial) -> list[float]:
    """Logarithms of the mean JCT in seconds, window by window."""
    experiment, config = opened(trial.setting), json.loads(trial.setting)
    scheduler = scheduler_of(config, trial.weights)
    logs = []
    for window in trial.windows:
        jobs = _window(trial.setting, trial.part, window)
        logs.append(float(np.log(mean_jct_s(unlogged(experiment.game.simulator(jobs), scheduler)))))
    return logs


def logs_of(trials: Sequence[Trial], jobs: int) -> Iterator[list[float]]:
    """`log_jct` of each trial, in their order; `jobs` processes, -1 for one a core.

    Raises:
        ConfigError: `jobs` is no whole number, or 0.
    """
    processes = processes_of(jobs, cpu_count())
    yield from in_processes(log_jct, trials, processes, ordered=True)


@lru_cache(maxsize=64)
def _window(setting: str, part: str, index: int) -> JobTable:
    return opened(setting).window(part, index)


# What says how to search, not what is played.
OF_THE_SEARCH = (
    "generations", "population", "sigma", "time_budget_s", "validate_last", "jobs", "look_ahead",
    "resume", "name", "train_windows", "validation_windows", "redraw", "mix",
)  # fmt: skip
KEYS = {"agents", "load", "windows"}
OPTIONAL = {"gpu_type"}  # of all servers; what sharing costs depends on it
MANY = 1_000_000  # windows of the training part that may be drawn


@dataclass(frozen=True)
class Cell:
    """A setting, as JSON of its configuration, and its windows."""

    setting: str
    windows: tuple[int, ...]


def check_cells(mix: object) -> None:
    """Refuse a list of settings that is none; None is no list and fine.

    Raises:
        ConfigError: naming key, value and rule.
    """
    if mix is None:
        return
    if not isinstance(mix, list) or not mix:
        raise ConfigError(f"mix is {mix!r}; give a list of {{agents, load, windows}}, or null")
    for cell in mix:
        if not isinstance(cell, Mapping) or set(cell) - OPTIONAL != KEYS:
            raise ConfigError(
                f"mix holds {cell!r}; give agents, load and windows, and gpu_type if you like"
            )
        for key in ("agents", "windows"):
            check_count(f"{key} in mix", cell[key])
        load = cell["load"]
        if type(load) not in {int, float} or not 0 < load < np.inf:
            raise ConfigError(f"mix has load: {load!r}; it must be a number above 0")
        gpu_type = cell.get("gpu_type", "")
        if type(gpu_type) is not str:
            raise ConfigError(f"mix has gpu_type: {gpu_type!r}; it must be a name, as p100")


def training_cells(config: Mapping[str, Any], generation: int) -> list[Cell]:
    """What all candidates of a generation (from 1) play."""
    rng = np.random.default_rng([config["seed"], generation])
    return [
        Cell(setting, tuple(rng.integers(MANY, size=windows).tolist())
             if config["redraw"] else tuple(range(windows)))
        for setting, windows in _settings(config, config["train_jobs"], config["train_windows"])
    ]  # fmt: skip


def validation_cells(config: Mapping[str, Any]) -> list[Cell]:
    """The first validation windows of every setting, as long as the workload says."""
    windows = tuple(range(config["validation_windows"]))
    return [Cell(setting, windows) for setting, _ in _settings(config, None, 0)]


def _settings(
    config: Mapping[str, Any], num_jobs: int | None, windows: int
) -> Iterator[tuple[str, int]]:
    plain = {key: value for key, value in config.items() if key not in OF_THE_SEARCH}
    if num_jobs is not None:
        plain["workload"] = plain["workload"] | {"num_jobs": num_jobs}
    if config["mix"] is None:
        yield json.dumps(plain), windows
        return
    for cell in config["mix"]:
        yield json.dumps(in_cell(plain, cell)), cell["windows"]


def in_cell(plain: Mapping[str, Any], cell: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration in one setting of a mix."""
    agents = plain["agents"] | {"count": cell["agents"]}
    workload = plain["workload"] | {"load": cell["load"]}
    setting = {**plain, "agents": agents, "workload": workload}
    if "gpu_type" in cell:  # durations are run times on it, so that the load is the same
        topology = plain["topology"] | {"gpu_types": [cell["gpu_type"]]}
        setting |= {"topology": topology, "reference_gpu": cell["gpu_type"]}
    return setting


def play_cells(
    candidates: Sequence[Sequence[float]], cells: Sequence[Cell], part: str, jobs: int
) -> Iterator[list[float]]:
    """ln(mean JCT) of every candidate, window by window, cell after cell; `jobs` processes."""
    trials = [Trial(c.setting, tuple(map(float, x)), part, c.windows)
              for x in candidates for c in cells]  # fmt: skip
    logs = logs_of(trials, jobs)
    for _ in candidates:
        yield [value for each in islice(logs, len(cells)) for value in each]


T = TypeVar("T")
R = TypeVar("R")

NEVER = -1e6  # a score that loses to any
LEAST_SCALE = 0.1  # of an input: one that hardly moves must not be blown up
FAILED = math.inf  # ln mean JCT of a run that never ends, or in which a rule was broken
TURNS = 3  # tasks a worker gets in an update: runs are not equally long


@dataclass(frozen=True)
class Ground:
    """A field that every process opens for itself, once."""

    opener: Callable[[str], Field]  # a function of a module
    setting: str


@dataclass(frozen=True, eq=False)
class PairTask:
    """Pairs of one update, each with its window of the part `train`."""

    ground: Ground
    form: VectorForm
    climb: Climb  # before the update
    pairs: tuple[int, ...]
    windows: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class WindowTask:
    """A player on windows of one part."""

    ground: Ground
    player: Player
    part: str
    windows: tuple[int, ...]


@lru_cache(maxsize=2)
def field_of(ground: Ground) -> Field:
    """The field, as this process has it."""
    return ground.opener(ground.setting)


@lru_cache(maxsize=256)
def _kept_window(ground: Ground, part: str, index: int) -> JobTable:
    return field_of(ground).window(part, index)


def play_pairs(task: PairTask) -> list[tuple[float, float]]:
    """Ln mean JCT in seconds, or FAILED, of both members of each pair, on the pair's window."""
    field, found = field_of(task.ground), []
    for pair, window in zip(task.pairs, task.windows, strict=True):
        jobs = field.window("train", window)
        one, other = (
            _log_jct(field, task.form.player(member), "train", window, jobs)
            for member in members(task.climb, pair)
        )
        found.append((one, other))
    return found


def play_windows(task: WindowTask) -> list[float]:
    """Ln mean JCT in seconds, or FAILED, window by window."""
    field = field_of(task.ground)
    return [
        _log_jct(
            field, task.player, task.part, window, _kept_window(task.ground, task.part, window)
        )
        for window in task.windows
    ]


def _log_jct(field: Field, player: Player, part: str, window: int, jobs: JobTable) -> float:
    try:
        found = float(np.log(player.jct_s(field, field.simulator(part, window, jobs))))
    except (SimulationError, InvalidDecision):
        return FAILED
    return found if math.isfinite(found) else FAILED


class Players(Protocol):
    """Who plays: this process, or workers elsewhere (`marl.rllib.cluster`)."""

    @property
    def size(self) -> int:
        """How many tasks are played at once."""

    def each(self, play: Callable[[T], R], tasks: Sequence[T]) -> list[R]:
        """(len(tasks),) `play`, a function of a module, of each task."""


class Alone:
    """This process."""

    size = 1

    def each(self, play: Callable[[T], R], tasks: Sequence[T]) -> list[R]:
        """One after the other."""
        return [play(task) for task in tasks]


@dataclass(frozen=True)
class Crew:
    """Plays members and others; results do not depend on who the players are."""

    players: Players

    def pairs(
        self, ground: Ground, form: VectorForm, climb: Climb, windows: Sequence[int]
    ) -> list[tuple[float, float]]:
        """Ln mean JCT, or FAILED, of both members of pairs 0, 1, ...; pair i plays `windows[i]`."""
        tasks = [
            PairTask(ground, form, climb, tuple(pairs), tuple(windows[pair] for pair in pairs))
            for pairs in self._shares(len(windows))
        ]
        return [scores for found in self.players.each(play_pairs, tasks) for scores in found]

    def windows(
        self, ground: Ground, player: Player, part: str, windows: Sequence[int]
    ) -> FloatArray:
        """(W,) ln mean JCT, or FAILED, of a player on windows of a part."""
        tasks = [
            WindowTask(ground, player, part, tuple(windows[at] for at in share))
            for share in self._shares(len(windows))
        ]
        return np.array([e for found in self.players.each(play_windows, tasks) for e in found])

    def each(self, play: Callable[[T], R], tasks: Sequence[T]) -> list[R]:
        """(len(tasks),) what the players find, in the order of the tasks."""
        return self.players.each(play, tasks)

    def _shares(self, count: int) -> list[list[int]]:
        """Numbers from 0 to `count` - 1, in so many parts as there are turns for players."""
        size = self.players.size
        parts = min(count, 1 if size == 1 else size * TURNS)
        return [share.tolist() for share in np.array_split(np.arange(count), max(parts, 1))]


def standards_of(
    field: Field, weights: ScoreWeights, groups: Sequence[str], windows: Sequence[int]
) -> tuple[Standard, ...]:
    """What the features of each of `groups` are on the whole while `weights` play.

    The sample is the last candidate of each decision, on windows of the part `train`. Where the
    weights suspend nothing, such candidates are weighed and lose.
    """
    asking = _asking_for_all(weights, groups)
    rows: dict[str, list[FloatArray]] = {group: [] for group in groups}
    for window in windows:
        simulator = field.simulator("train", window, field.window("train", window))
        scheduler = field.scheduler.weighing(asking)
        view_maker = simulator.views(scheduler.needs)
        loop = scheduler.loop(simulator.state, view_maker)
        plan = scheduler.plan(view_maker.view())
        while _one_more(loop, simulator):
            for group, found in rows.items():
                found.append(getattr(plan, f"{group}_x").copy())
    return tuple(_standard(np.array(found)) for found in rows.values())


def _one_more(loop: Loop, simulator: Simulator) -> bool:
    """Make one decision more; False at the end of the run."""
    while (verdict := loop.play(loop.decisions + 1)) == FULL:
        simulator.forget_log()
    return verdict == PAUSE


def _asking_for_all(weights: ScoreWeights, groups: Sequence[str]) -> ScoreWeights:
    """The same scores, by features that look ahead too: a unit reads all and adds nothing."""
    features, none = len(weights.start), np.zeros(1)
    layer = Layer(np.zeros(features), np.ones(features), np.ones((1, features)), none, none)
    suspend = weights.suspend
    if SUSPEND in groups and suspend is None:
        suspend = np.zeros(len(SuspendWeight))
        suspend[SuspendWeight.BIAS] = NEVER
    return replace(weights, start_layer=layer, suspend=suspend)


def _standard(rows: FloatArray) -> Standard:
    """Of rows (n, F)."""
    return Standard(rows.mean(axis=0), np.maximum(rows.std(axis=0), LEAST_SCALE))
