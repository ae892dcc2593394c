"""The search of `tune_linear_score.py`: CMA-ES (package `cma`) that can be stopped and resumed."""

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import cma
import numpy as np

from gpuyard.launch.errors import ConfigError
from sim.arrays import FloatArray
from sim.report.atomic import write_atomically

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
    search = pickle.loads(path.read_bytes())
    if not isinstance(search, Search) or search.setting != setting:
        raise ConfigError(
            f"resume is {folder}, a tuning of another setting or scheduler; repeat its overrides"
        )
    return search
