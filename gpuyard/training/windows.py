"""The windows that weights are learned on, and what they are worth there.

What a worker process plays is made from what it is sent: seeds go in, scores come out.
"""

import json
import logging
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any, Protocol, TypeVar

import numpy as np

from gpuyard.evaluation.experiment import Experiment, experiment_of
from gpuyard.launch.build import build, check_count
from gpuyard.launch.errors import ConfigError
from gpuyard.training.form import Player, Standard, VectorForm, WindowSource
from gpuyard.training.strategies import Climb, members
from marl.env.world import TRAIN_PHYSICS
from sim.arrays import FloatArray
from sim.errors import InvalidDecision, SimulationError, amount
from sim.jobs import JobTable
from sim.kernel.step import FULL, PAUSE
from sim.protocols import Loop
from sim.scoring.linear_score import LinearScore
from sim.scoring.table import SuspendWeight
from sim.scoring.weights import SUSPEND, Layer, ScoreWeights
from sim.simulator import Simulator

log = logging.getLogger(__name__)


def scheduler_of(config: Mapping[str, Any]) -> LinearScore:
    """The scheduler of the configuration; ConfigError: it is another one than the linear score."""
    scheduler = build({"scheduler": config["scheduler"]}, "scheduler")
    if not isinstance(scheduler, LinearScore):
        raise ConfigError("scheduler must be linear_score: its weights are what is learned")
    return scheduler


TRAIN, VALIDATION = "train", "validation"  # parts of a workload
LEAST_WINDOWS = 3  # of the part `validation`: an interval needs two that are held out
KEYS = {"agents", "load", "windows"}
NAMED = {  # choices of its own that a setting may name; gpu_type: of all servers
    "gpu_type": "p100", "workload": "philly_like", "estimator": "random_forest",
    "topology": "headline_vl2", "network": "max_min",
}  # fmt: skip
GROUPS = tuple(name for name in NAMED if name != "gpu_type")


def check_cells(mix: object) -> None:
    """Raise ConfigError for a list of settings that is none; None is no list and fine."""
    if mix is None:
        return
    if not isinstance(mix, list) or not mix:
        raise ConfigError(f"mix is {mix!r}; give a list of {{agents, load, windows}}, or null")
    for cell in mix:
        if not isinstance(cell, Mapping) or set(cell) - set(NAMED) != KEYS:
            raise ConfigError(
                f"mix holds {cell!r}; give agents, load and windows, and, if you like, "
                f"{', '.join(sorted(NAMED))}"
            )
        for key in ("agents", "windows"):
            check_count(f"{key} in mix", cell[key])
        load = cell["load"]
        if type(load) not in {int, float} or not 0 < load < np.inf:
            raise ConfigError(f"mix has load: {load!r}; it must be a number above 0")
        for key, like in NAMED.items():
            if type(name := cell.get(key, "")) is not str:
                raise ConfigError(f"mix has {key}: {name!r}; it must be a name, as {like}")


def in_cell(plain: Mapping[str, Any], cell: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration in one setting of a mix, in which groups are sections."""
    setting = {**plain, **{group: cell[group] for group in GROUPS if group in cell}}
    setting["agents"] = plain["agents"] | {"count": cell["agents"]}
    setting["workload"] = setting["workload"] | {"load": cell["load"]}
    if "gpu_type" in cell:  # durations are run times on it, so that the load is the same
        topology = setting["topology"] | {"gpu_types": [cell["gpu_type"]]}
        setting |= {"topology": topology, "reference_gpu": cell["gpu_type"]}
    return setting


@dataclass(frozen=True)
class ConfiguredSource:
    """What windows are played on: settings in turn, if there is a mix of them."""

    scheduler: LinearScore
    experiments: tuple[Experiment, ...]
    train_physics: str  # a key of `marl.env.world.TRAIN_PHYSICS`
    train_windows: int | None = None  # so many are kept and played again; None: each is drawn anew
    kept: dict[int, JobTable] = field(default_factory=dict, compare=False, repr=False)

    def window(self, part: str, index: int) -> JobTable:
        """One window of a part of the workload; no two settings of a mix are played on one."""
        if part != TRAIN or self.train_windows is None:
            return self._drawn(part, index)
        place = index % (self.train_windows * len(self.experiments))
        if place not in self.kept:
            self.kept[place] = self._drawn(part, place)
        return self.kept[place]

    def _drawn(self, part: str, index: int) -> JobTable:
        return self.experiments[index % len(self.experiments)].window(part, index)

    def simulator(self, part: str, index: int, jobs: JobTable) -> Simulator:
        """The jobs of window `index` on its cluster; training windows in their own physics."""
        world = self.experiments[index % len(self.experiments)].world
        if part == TRAIN:
            world = TRAIN_PHYSICS[self.train_physics](world)
        return world.simulator(jobs)

    def windows(self, part: str) -> int | None:
        """How many windows a part has, in the setting that has the fewest; None: any number."""
        counts = (each.windows(part) for each in self.experiments)
        return min((count for count in counts if count is not None), default=None)

    def time_of(self, part: str, index: int) -> Hashable:
        """The stretch of a window, alike for all settings of one workload; or its number."""
        experiment = self.experiments[index % len(self.experiments)]
        stretch = experiment.stretch(part, index)
        return index if stretch is None else (experiment.workload_name, stretch)


def open_source(setting: str) -> ConfiguredSource:
    """The windows of a resolved configuration, given as JSON."""
    config = json.loads(setting)
    mix, physics, kept = (config.pop(key) for key in ("mix", "train_physics", "train_windows"))
    cells = [in_cell(config, cell) for cell in mix for _ in range(cell["windows"])] if mix else []
    return ConfiguredSource(
        scheduler_of(config), tuple(experiment_of(each) for each in cells or [config]), physics,
        kept,
    )  # fmt: skip


def validation_windows(source: WindowSource, config: Mapping[str, Any]) -> tuple[range, range]:
    """Windows of the part `validation` for the curve, and others that are held out.

    Of a file that has fewer than the configuration asks for, these: at most half for the curve.
    ConfigError: too few for that.
    """
    curve, there = config["validation_windows"], source.windows(VALIDATION)
    first, count = config["held_out"]["first"], config["held_out"]["windows"]
    if there is not None and there < first + count:
        if there < LEAST_WINDOWS:
            raise ConfigError(
                f"part '{VALIDATION}' has {amount(there, 'window')}; learning needs "
                f"{LEAST_WINDOWS}, one for the curve and two held out: use "
                "workload.windows_from=random or a larger workload.thin"
            )
        curve = min(curve, there // 2)
        first = max(min(first, there - count), curve)
        count = min(count, there - first)
        log.warning(
            "part '%s' has %d windows, fewer than validation_windows and held_out ask for: 0 to %d "
            "are for the curve, %d to %d held out",
            VALIDATION, there, curve - 1, first, first + count - 1,
        )  # fmt: skip
    return range(curve), range(first, first + count)


T = TypeVar("T")
R = TypeVar("R")

NEVER = -1e6  # a score that loses to any
LEAST_SCALE = 0.1  # of an input: one that hardly moves must not be blown up
FAILED = math.inf  # ln mean JCT of a run that never ends, or in which a rule was broken
TURNS = 3  # tasks a worker gets in an update: runs are not equally long


@dataclass(frozen=True)
class SourceSpec:
    """A source of windows that every process opens for itself, once."""

    opener: Callable[[str], WindowSource]  # a function of a module
    setting: str


@lru_cache(maxsize=2)
def source_of(source_spec: SourceSpec) -> WindowSource:
    """The source, as this process has it."""
    return source_spec.opener(source_spec.setting)


@lru_cache(maxsize=256)
def _kept_window(source_spec: SourceSpec, part: str, index: int) -> JobTable:
    return source_of(source_spec).window(part, index)


def play_pairs(
    source_spec: SourceSpec, form: VectorForm, climb: Climb, drawn: Sequence[tuple[int, int]]
) -> list[tuple[float, float]]:
    """Ln mean JCT in seconds, or FAILED, of both members of each pair, on the pair's window.

    `drawn`: pairs of the update after `climb`, each with its window of the part `train`.
    """
    source, found = source_of(source_spec), []
    for pair, window in drawn:
        jobs = source.window(TRAIN, window)
        one, other = (
            _log_jct(source, form.player(member), TRAIN, window, jobs)
            for member in members(climb, pair)
        )
        found.append((one, other))
    return found


def play_windows(
    source_spec: SourceSpec, player: Player, part: str, windows: Sequence[int]
) -> list[float]:
    """Ln mean JCT in seconds, or FAILED, window by window."""
    source = source_of(source_spec)
    return [
        _log_jct(source, player, part, window, _kept_window(source_spec, part, window))
        for window in windows
    ]


def _log_jct(source: WindowSource, player: Player, part: str, window: int, jobs: JobTable) -> float:
    try:
        found = float(np.log(player.jct_s(source, source.simulator(part, window, jobs))))
    except (SimulationError, InvalidDecision):
        return FAILED
    return found if math.isfinite(found) else FAILED


class Workers(Protocol):
    """Who plays: this process, or workers elsewhere (`marl.rllib.cluster`)."""

    @property
    def size(self) -> int:
        """How many tasks are played at once."""

    def each(self, play: Callable[[T], R], tasks: Sequence[T]) -> list[R]:
        """(len(tasks),) `play`, of functions of modules, of each task."""


class InProcess:
    """This process."""

    size = 1

    def each(self, play: Callable[[T], R], tasks: Sequence[T]) -> list[R]:
        """One after the other."""
        return [play(task) for task in tasks]


@dataclass(frozen=True)
class Evaluator:
    """Plays members and others; results do not depend on who the players are."""

    workers: Workers

    def pairs(
        self, source_spec: SourceSpec, form: VectorForm, climb: Climb, windows: Sequence[int]
    ) -> list[tuple[float, float]]:
        """Ln mean JCT, or FAILED, of both members of pairs 0, 1, ...; pair i plays `windows[i]`."""
        play = partial(play_pairs, source_spec, form, climb)
        shares = self._shares(list(enumerate(windows)))
        return [scores for found in self.workers.each(play, shares) for scores in found]

    def windows(
        self, source_spec: SourceSpec, player: Player, part: str, windows: Sequence[int]
    ) -> FloatArray:
        """(W,) ln mean JCT, or FAILED, of a player on windows of a part."""
        play = partial(play_windows, source_spec, player, part)
        shares = self._shares(windows)
        return np.array([each for found in self.workers.each(play, shares) for each in found])

    def _shares(self, items: Sequence[T]) -> list[list[T]]:
        """The items in so many parts as there are turns for players."""
        size, count = self.workers.size, len(items)
        parts = max(min(count, 1 if size == 1 else size * TURNS), 1)
        return [[items[at] for at in part] for part in np.array_split(np.arange(count), parts)]


def standards_of(
    source: WindowSource, weights: ScoreWeights, groups: Sequence[str], windows: Sequence[int]
) -> tuple[Standard, ...]:
    """What the features of each of `groups` are on the whole while `weights` play.

    The sample is the last candidate of each decision, on windows of the part `train`. Where the
    weights suspend nothing, such candidates are weighed and lose.
    """
    asking = _asking_for_all(weights, groups)
    rows: dict[str, list[FloatArray]] = {group: [] for group in groups}
    for window in windows:
        simulator = source.simulator(TRAIN, window, source.window(TRAIN, window))
        scheduler = source.scheduler.weighing(asking)
        view_maker = simulator.views(scheduler.needs)
        loop = scheduler.loop(simulator.state, view_maker)
        scoring = scheduler.scoring(view_maker.view())
        while _one_more(loop, simulator):
            for group, found in rows.items():
                found.append(getattr(scoring, f"{group}_x").copy())
    sampled = map(np.array, rows.values())  # (n, F) each
    return tuple(
        Standard(found.mean(axis=0), np.maximum(found.std(axis=0), LEAST_SCALE))
        for found in sampled
    )


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
