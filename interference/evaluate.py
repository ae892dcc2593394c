"""Errors on rows a model has not seen: held-out pairs, and held-out profiles."""

from collections.abc import Iterator

import numpy as np

from interference.dataset import ColocationRows
from interference.model import SpeedModel
from sim.arrays import FloatArray, IntArray
from sim.errors import PhysicsError

Measures = dict[str, dict[str, float]]  # GPU type or "all" -> {"mae", "r2", "rows"}


def pair_folds(
    rows: ColocationRows, folds: int, rng: np.random.Generator
) -> Iterator[tuple[IntArray, IntArray]]:
    """Train and test indices; a pair's directions and GPU types are all on one side."""
    for held_out in _deal(np.unique(rows.pair), folds, rng, "pairs"):
        test = np.isin(rows.pair, held_out)
        yield np.flatnonzero(~test), np.flatnonzero(test)


def profile_folds(
    rows: ColocationRows, folds: int, rng: np.random.Generator
) -> Iterator[tuple[IntArray, IntArray]]:
    """Train and test indices; tested victims were never seen in training, in neither role.

    Rows whose victim is known but whose aggressor is held out are in neither part.
    """
    for held_out in _deal(np.unique(rows.victim), folds, rng, "profiles"):
        victim, aggressor = np.isin(rows.victim, held_out), np.isin(rows.aggressor, held_out)
        yield np.flatnonzero(~victim & ~aggressor), np.flatnonzero(victim)


def held_out_errors(
    model: SpeedModel, rows: ColocationRows, folds: list[tuple[IntArray, IntArray]]
) -> Measures:
    """Errors over all test rows together, each predicted by the fold that held it out."""
    predicted = np.full(len(rows), np.nan)
    for train, test in folds:
        model.fit(rows.take(train))
        predicted[test] = model.predict(rows.take(test))
    return measures(rows, predicted)


def measures(rows: ColocationRows, predicted: FloatArray) -> Measures:
    """Mean absolute error and R2 of normalised speed, by GPU type and over all rows."""
    groups = {"all": np.ones(len(rows), np.bool_)}
    groups |= {name: rows.gpu_type == i for i, name in enumerate(rows.gpu_types)}
    result = {}
    for name, group in groups.items():
        error = predicted[group] - rows.norm_speed[group]
        spread = float(np.var(rows.norm_speed[group])) if group.any() else 0.0
        result[name] = {
            "mae": float(np.abs(error).mean()) if group.any() else float("nan"),
            "r2": 1.0 - float(np.mean(error**2)) / spread if spread > 0 else float("nan"),
            "rows": float(group.sum()),
        }
    return result


def _deal(groups: IntArray, folds: int, rng: np.random.Generator, what: str) -> list[IntArray]:
    if not 1 < folds <= len(groups):
        raise PhysicsError(f"folds is {folds}; the rows have {len(groups)} {what}: use 2 to that")
    dealt = rng.permutation(groups)
    return [dealt[fold::folds] for fold in range(folds)]
