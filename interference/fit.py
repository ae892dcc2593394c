"""Fits every co-location model, judges it on held-out rows, and makes what the simulator reads."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from interference.data_sets import DataSet, data_sets
from interference.evaluation.fits import fit_measures
from interference.evaluation.judge import Errors, Judged, errors_of, fit_rows, judge, splits
from interference.models.lineup import LEARNED, fresh_models
from interference.pair_cells import cross_fitted, every_cell, predicted_infeasible
from interference.rows import CoRows
from interference.saved_model import SavedModel
from sim.arrays import BoolArray
from sim.errors import PhysicsError

SAVED = ("additive", "linear", LEARNED)  # models that schedulers can be told


@dataclass(frozen=True)
class FitReport:
    """What a fit found."""

    data_sets: dict[str, DataSet]
    judged: dict[str, Judged]  # data set -> split -> model -> held-out predictions
    errors: dict[str, Errors]  # data set, or "set/GPU type" -> split -> model -> measures
    memory: dict[str, dict[str, dict[str, float]]]  # data set -> split -> `fit_measures`
    saved: SavedModel
    source: str  # "measured" or "generated", of what is saved


def fit_and_report(
    *,
    data_dir: Path | None,
    seed: int,
    folds: int,
    names: list[str] | None = None,
    models: Sequence[str] | None = None,
    done: Callable[[str], None] = lambda _: None,
) -> FitReport:
    """Judge all models on all data sets, and fit tables on the first set for the simulator.

    Args:
        data_dir: folder with published sets, or rows of our own schema; generated rows stand in.
        seed: of folds, models and generated rows.
        folds: of the split by pair, and of the saved predictions.
        names: data sets to take; None: all that are there.
        models: models to judge; None: all.
        done: told what has just been finished.
    """
    sets = data_sets(data_dir, seed=seed, names=names)
    if not _pairs(next(iter(sets.values())).rows).any():
        raise PhysicsError(f"{data_dir}: no pair on whole GPUs, which the simulator's tables need")
    judged: dict[str, Judged] = {}
    errors: dict[str, Errors] = {}
    memory: dict[str, dict[str, dict[str, float]]] = {}
    for name, each in sets.items():
        rows = each.rows.take(fit_rows(each.rows))
        judged[name] = judge(
            rows,
            each.solos,
            lambda: fresh_models(seed, models),
            folds=folds,
            seed=seed,
            done=_about(name, done),
        )
        errors |= errors_of(name, judged[name])
        if not each.rows.feasible.all():
            parts = splits(each.rows, each.solos, folds=folds, seed=seed)
            memory[name] = {
                split: fit_measures(each.rows, each.solos, parts[split], seed=seed)
                for split in ("pair", "model")
                if split in parts
            }
    first = next(iter(sets.values()))
    told = [name for name in SAVED if models is None or name in models or name == SAVED[0]]
    saved = saved_model(first, told, seed=seed, folds=folds, keep_observed=True)
    done("tables for the simulator")
    return FitReport(sets, judged, errors, memory, saved, first.source)


def _about(name: str, done: Callable[[str], None]) -> Callable[[str], None]:
    return lambda what: done(f"{name}: {what}")


def saved_model(
    data: DataSet, models: Sequence[str], *, seed: int, folds: int, keep_observed: bool
) -> SavedModel:
    """Cross-fitted tables of models that schedulers can be told.

    Args:
        data: rows; only pairs on one whole GPU are used.
        models: names of them.
        seed: equal folds for every model.
        folds: of the split by pair.
        keep_observed: pairs that were tried keep whether they fitted; else a rule says it.
    """
    pairs = data.rows.take(_pairs(data.rows))
    rows = pairs.take(fit_rows(pairs))
    cells = every_cell(pairs, data.solos)
    tables = {
        model.name: cross_fitted(model, rows, data.solos, cells, folds=folds, seed=seed)
        for model in fresh_models(seed, models)
    }
    return SavedModel(
        gpu_types=cells.gpu_types,
        profiles=cells.profiles,
        norm_speed={name: speed for name, (speed, _) in tables.items()},
        sd={name: sd for name, (_, sd) in tables.items()},
        infeasible=predicted_infeasible(pairs, cells, keep_observed=keep_observed),
        source=data.source,
    )


def _pairs(rows: CoRows) -> BoolArray:
    """(N,) True for two jobs on one whole GPU, or (network) on shared links."""
    two = np.array([len(each) == 1 for each in rows.aggressors], dtype=np.bool_)
    return np.asarray(two & (rows.sharing != "mig") & (rows.share == 1.0))
