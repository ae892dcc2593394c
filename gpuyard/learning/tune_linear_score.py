"""Tune the linear score: `python scripts/tune_linear_score.py experiment=headline name=mine`."""

import logging
import pickle
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cma
import numpy as np
from omegaconf import DictConfig
from rich.progress import Progress

from gpuyard.launch.build import Rules, check_count, check_flags, check_plain
from gpuyard.launch.errors import ConfigError
from gpuyard.launch.moved import new_name
from gpuyard.launch.start import Launch, program, start
from gpuyard.launch.sweeps import processes_of
from gpuyard.launch.terminal import error_console, phase_bars
from gpuyard.learning.learn import made_by, rounded, write_weights
from gpuyard.learning.windows import (
    check_cells,
    free_weights,
    play_cells,
    scheduler_of,
    training_cells,
    validation_cells,
    weights_from,
)
from sim.arrays import FloatArray
from sim.report.files import csv_text, write_atomically
from sim.report.run_folder import Record
from sim.scoring.weights import START_FEATURES, ScoreWeights

CHECKPOINT = "checkpoint.pickle"


@dataclass(frozen=True)
class Generation:
    """What one generation found; values are means over windows of ln(JCT / reference)."""

    number: int  # from 1
    best: float
    median: float
    sigma: float
    mean: tuple[float, ...]  # weights: the centre after this generation


@dataclass
class Search:
    """CMA-ES and what it has found so far."""

    setting: str  # of the windows it is judged on: a checkpoint of another setting is refused
    strategy: cma.CMAEvolutionStrategy  # over the free weights
    start: tuple[float, ...]  # all weights it began with
    free: tuple[int, ...]  # which of them are tuned
    generations: list[Generation] = field(default_factory=list)

    def ask(self) -> list[FloatArray]:
        """The candidates of a generation, all weights of each."""
        return [self._whole(x) for x in self.strategy.ask()]

    def _whole(self, x: FloatArray) -> FloatArray:
        weights = np.array(self.start)
        weights[list(self.free)] = x
        return weights

    def tell(self, candidates: Sequence[FloatArray], values: Sequence[float]) -> Generation:
        """Learn from one generation."""
        self.strategy.tell([each[list(self.free)] for each in candidates], list(values))
        done = Generation(
            number=len(self.generations) + 1,
            best=float(min(values)),
            median=float(np.median(values)),
            sigma=float(self.strategy.sigma),
            mean=tuple(map(float, self._whole(self.strategy.result.xfavorite))),
        )
        self.generations.append(done)
        return done

    def save(self, folder: Path) -> None:
        """Write a checkpoint, whole or not at all."""
        write_atomically(folder / CHECKPOINT, pickle.dumps(self))

    def average(self) -> FloatArray | None:
        """All weights, averaged over the centres of the last third; None before there are three.

        Where windows are drawn anew every generation single centres wander about the best.
        """
        third = len(self.generations) // 3
        if third == 0:
            return None
        average: FloatArray = np.mean([each.mean for each in self.generations[-third:]], axis=0)
        return average

    def last_means(self, count: int) -> list[Generation]:
        """`count` generations spread over the last third, the last one among them."""
        total = len(self.generations)
        first = total - max(total // 3, min(count, total))
        picked = np.unique(np.linspace(first, total - 1, count).round().astype(int))
        return [self.generations[at] for at in picked.tolist()] if total else []


def new_search(
    setting: str, start: Sequence[float], free: Sequence[int], *,
    sigma: float, population: int, seed: int,
) -> Search:  # fmt: skip
    """A search from `start` over its `free` weights; large ones are varied in larger steps."""
    begin = np.array(start)[list(free)]
    scale = 0.5 + 0.25 * np.abs(begin)
    options = {
        "popsize": population,
        "seed": seed + 1,  # 0 would mean the clock
        "verbose": -9,
        "CMA_stds": scale,
    }
    strategy = cma.CMAEvolutionStrategy(list(begin), sigma, options)
    return Search(setting, strategy, tuple(start), tuple(free))


class _ByNewNames(pickle.Unpickler):
    """Knows where the classes of older checkpoints are now."""

    def find_class(self, module: str, name: str) -> Any:
        """By the name of today."""
        module, _, name = new_name(f"{module}.{name}").rpartition(".")
        return super().find_class(module, name)


def resumed(folder: Path, setting: str) -> Search:
    """The search whose checkpoint is in `folder`.

    Resume from folders of your own only: a pickled checkpoint may run code as it is read.

    Raises:
        ConfigError: there is none, or it belongs to another setting.
    """
    path = folder / CHECKPOINT
    if not path.is_file():
        raise ConfigError(
            f"resume is {folder}, which holds no {CHECKPOINT}; give the folder of a tuning"
        )
    with path.open("rb") as stream:
        search = _ByNewNames(stream).load()
    if not isinstance(search, Search) or search.setting != setting:
        raise ConfigError(
            f"resume is {folder}, a tuning of another setting or scheduler; repeat its overrides"
        )
    return search


log = logging.getLogger(__name__)

RULES: Rules = {
    "train_windows": (True, 1),
    "validation_windows": (True, 1),
    "generations": (True, 1),
    "population": (True, 4),
    "validate_last": (True, 1),
}


@dataclass(frozen=True)
class Judged:
    """Weights that met the validation windows."""

    name: str
    weights: tuple[float, ...]
    logs: tuple[float, ...]  # ln JCT, window by window


@program("tune_linear_score")
def main(cfg: DictConfig) -> None:
    """Search, validate, write."""
    launch = start(cfg)
    _check(launch.config)
    out = launch.folder / f"{launch.config['name']}.yaml"
    out.unlink(missing_ok=True)
    began = weights_from(scheduler_of(launch.config, None))
    with phase_bars("{task.completed}/{task.total}", console=error_console()) as bar:
        search = _search(launch.config, began)
        try:
            _iterate(launch, search, bar)
        except KeyboardInterrupt:
            _keep(launch, search, out)
            raise
        judged = _validated(launch.config, search, began, bar)
    best = min(judged, key=lambda each: float(np.mean(each.logs)))
    verdict = _verdict(judged[0], best)
    words = heading_of(launch.config, launch.record, best.name, verdict)
    write_weights(out, _scores(best.weights), words)
    print(verdict)
    print(f"weights in {out}; put the file into conf/linear_weights/ and add")
    print(f"linear_weights@scheduler.weights={launch.config['name']} to a command")


def _check(config: dict[str, Any]) -> None:
    """Refuse numbers that would fail late.

    Raises:
        ConfigError: naming key, value and rule.
    """
    check_plain(config, RULES)
    for key, may_be_null in (("sigma", False), ("time_budget_s", True)):
        value = config[key]
        if value is None and may_be_null:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < np.inf:
            raise ConfigError(f"{key} is {value!r}; it must be a number above 0")
    check_flags(config, "look_ahead", "redraw")
    check_cells(config["mix"])
    check_count("train_jobs", config["train_jobs"], null=True)
    processes_of(config["jobs"], 1)


def _search(config: dict[str, Any], began: tuple[float, ...]) -> Search:
    """A search from the configured weights, or the one to resume."""
    known = (
        f"{config['population']} candidates, look_ahead={config['look_ahead']}, "
        f"redraw={config['redraw']}, {training_cells(config, 0)}"
    )
    if config["resume"] is not None:
        return resumed(Path(str(config["resume"])), known)
    free = free_weights(config["look_ahead"])
    return new_search(
        known, began, free,
        sigma=config["sigma"], population=config["population"], seed=config["seed"],
    )  # fmt: skip


def _iterate(launch: Launch, search: Search, bar: Progress) -> None:
    """Generations until they or the time are used up; a checkpoint after each."""
    config, since = launch.config, time.monotonic()
    total = config["generations"]
    task = bar.add_task("tuning", total=total, completed=len(search.generations), note="")
    while len(search.generations) < total:
        candidates = search.ask()
        done = search.tell(candidates, _judged(config, search, candidates))
        search.save(launch.folder)
        write_curve(launch.folder, search.generations)
        note = f"best {np.exp(done.best):.3f}, median {np.exp(done.median):.3f} of the start's JCT"
        bar.update(task, completed=done.number, note=note)
        budget_s = config["time_budget_s"]
        if budget_s is not None and time.monotonic() - since > budget_s:
            log.info("time is up after generation %d", done.number)
            return


def _judged(
    config: dict[str, Any], search: Search, candidates: Sequence[FloatArray]
) -> list[float]:
    """Mean over windows of ln(JCT / that of the start) of each candidate."""
    cells = training_cells(config, len(search.generations) + 1)
    start, *logs = play_cells(
        [search.start, *(each.tolist() for each in candidates)], cells, "train", config["jobs"]
    )
    return [float(np.mean(np.subtract(each, start))) for each in logs]


def _validated(
    config: dict[str, Any], search: Search, began: tuple[float, ...], bar: Progress
) -> list[Judged]:
    """The start, the last few centres and the average of the last third on validation windows."""
    runners: Sequence[Generation] = search.last_means(config["validate_last"])
    named = [("the start", began)]
    named += [(f"the mean after generation {each.number}", each.mean) for each in runners]
    average = search.average()
    if average is not None:
        named.append(("the average of the last third's means", tuple(map(float, average))))
    task = bar.add_task("validation", total=len(named), note="")
    judged = []
    played = play_cells(
        [weights for _, weights in named], validation_cells(config), "validation", config["jobs"]
    )
    for (name, weights), logs in zip(named, played, strict=True):
        judged.append(Judged(name, weights, tuple(logs)))
        bar.advance(task)
    return judged


def _verdict(first: Judged, best: Judged) -> str:
    ratios = np.exp(np.subtract(best.logs, first.logs))
    each = " ".join(f"{ratio:.3f}" for ratio in ratios)
    mean = float(np.exp(np.mean(np.log(ratios))))
    return (
        f"Mean JCT over that of the weights it began with, on {len(ratios)} validation windows, "
        f"which also chose it among the last means: {mean:.3f} ({each})."
    )


def _keep(launch: Launch, search: Search, out: Path) -> None:
    """After Ctrl-C: the latest mean, not validated."""
    if search.generations:
        last = search.generations[-1]
        words = heading_of(
            launch.config,
            launch.record,
            f"the mean after generation {last.number}",
            "Interrupted: not validated.",
        )
        write_weights(out, _scores(last.mean), words)


def _scores(weights: Sequence[float]) -> ScoreWeights:
    """The weights of a search as a score has them."""
    cut = len(START_FEATURES)
    return rounded(ScoreWeights(np.array(weights[:cut]), np.array(weights[cut:])))


CURVE_FILE = "tuning.csv"
CURVE_COLUMNS = ("generation", "best", "median", "sigma")


def write_curve(folder: Path, generations: Sequence[Generation]) -> None:
    """One row a generation: ln(JCT / reference) of its best and its median candidate."""
    rows = ((g.number, g.best, g.median, g.sigma) for g in generations)
    write_atomically(folder / CURVE_FILE, csv_text(CURVE_COLUMNS, rows).encode())


def heading_of(config: Mapping[str, Any], record: Record, chosen: str, verdict: str) -> list[str]:
    """Where the weights come from; `chosen` says which of the search's weights they are."""
    jobs = config["train_jobs"] or config["workload"]["num_jobs"]
    windows = config["train_windows"]
    if config["mix"] is not None:
        windows = sum(cell["windows"] for cell in config["mix"])
    anew = ", drawn anew for every generation" if config["redraw"] else ""
    return [
        *made_by("tune_linear_score", record),
        f"seed {config['seed']}: {chosen},",
        f"of {config['population']} candidates on {windows} training windows of {jobs} jobs{anew}.",
        verdict,
    ]
