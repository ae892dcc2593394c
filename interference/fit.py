"""Fits every co-location model, simplest first, judges it, makes what the simulator reads."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from interference.data_sets import DataSet, data_sets
from interference.evaluation.judge import below_each_other, fit_rows, judge, pair_folds
from interference.learned import SavedModel
from interference.models.blend import (
    BlendModel,
    BoostingModel,
    ExtraTreesModel,
    GaussianProcessModel,
)
from interference.models.deep_set import DeepSetModel
from interference.models.encoding import SpeedModel
from interference.models.linear import ConstantModel, LinearModel, MixedEffectsModel
from interference.rows import CoRows, SoloProfiles, co_rows, mix_numbers, stacked_rows
from sim.arrays import BoolArray, FloatArray, IntArray, objects
from sim.errors import PhysicsError, nearest
from sim.physics.mix_table import probably_infeasible

LEARNED = BlendModel.name
# Of the blend, not fitted on their own.
PARTS = tuple(
    part.name for part in (MixedEffectsModel, BoostingModel, ExtraTreesModel, GaussianProcessModel)
)


def fresh_models(seed: int, names: Sequence[str] | None = None) -> list[SpeedModel]:
    """An unfitted one of each of `names`, None: of all; PhysicsError: a name is not known."""
    every: list[SpeedModel] = [
        ConstantModel(), LinearModel(), DeepSetModel(seed=seed), BlendModel(seed=seed),
    ]  # fmt: skip
    known = [model.name for model in every]
    for name in names or ():
        if name not in known:
            why = f"; it is a part of {LEARNED}" if name in PARTS else nearest(name, known)
            raise PhysicsError(f"no interference model {name!r}{why}; use {', '.join(known)}")
    return [model for model in every if names is None or model.name in names]


@dataclass(frozen=True)
class Cells:
    """Every GPU type and ordered pair of the profiles of a data set."""

    gpu_types: tuple[str, ...]  # T
    profiles: tuple[str, ...]  # P
    rows: CoRows  # (T * P * P,) less those without solo profile; infeasible, without a speed
    place: IntArray  # (rows,) flat index into (T, P, P)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(T, P, P)."""
        return len(self.gpu_types), len(self.profiles), len(self.profiles)


def every_cell(rows: CoRows, solos: SoloProfiles) -> Cells:
    """The cells of a data set of pairs."""
    gpu_types = tuple(sorted(set(rows.gpu_type)))
    others = {name for each in rows.aggressors for name in each}
    profiles = tuple(sorted(set(rows.victim) | others, key=_natural))
    source, known = rows.source[0], set(solos.keys())
    shape = len(gpu_types), len(profiles), len(profiles)
    gpu_type, victim, aggressor = (index.ravel() for index in np.indices(shape))
    name, types = objects(profiles), objects(gpu_types)
    profiled = [
        (source, types[t], name[v]) in known and (source, types[t], name[a]) in known
        for t, v, a in zip(gpu_type, victim, aggressor, strict=True)
    ]
    place = np.flatnonzero(profiled)
    query = co_rows(
        source=source,
        gpu_type=types[gpu_type[place]],
        sharing=rows.sharing[0],
        group=np.arange(len(place)),
        victim=name[victim[place]],
        aggressors=[(other,) for other in name[aggressor[place]]],
        norm_speed=np.nan,
        feasible=False,
        measured=False,
    )
    return Cells(gpu_types, profiles, query, place)


def cross_fitted(
    model: SpeedModel, rows: CoRows, solos: SoloProfiles, cells: Cells, *, folds: int, seed: int
) -> tuple[FloatArray, FloatArray]:
    """(T, P, P) normalised speed and its standard deviation [GPU type, victim, aggressor].

    `rows` have a speed each. A cell without solo profiles gets the means of the others.
    """
    mix = mix_numbers(stacked_rows([cells.rows, replace(rows, group=np.arange(len(rows)))]))
    asked, fitted = mix[: len(cells.rows)], mix[len(cells.rows) :]
    parts = list(pair_folds(rows, folds, np.random.default_rng(seed)))
    speed, sd = np.empty((2, len(parts), len(cells.rows)))
    for fold, (train, _) in enumerate(parts):
        model.fit(rows.take(train), solos)
        predicted = model.predict(cells.rows, solos)
        speed[fold], sd[fold] = predicted.norm_speed, predicted.sd
    mean_speed, mean_sd = speed.mean(axis=0), sd.mean(axis=0)
    for fold, (_, test) in enumerate(parts):
        held_out = np.isin(asked, fitted[test])
        mean_speed[held_out], mean_sd[held_out] = speed[fold, held_out], sd[fold, held_out]
    return _table(cells, mean_speed), _table(cells, mean_sd)


def predicted_infeasible(rows: CoRows, cells: Cells, *, keep_observed: bool) -> BoolArray:
    """(T, P, P) symmetric: pairs that do not fit into memory, or probably do not.

    `rows` are all, infeasible ones too. With `keep_observed` pairs that were tried keep what was
    seen; without it the memory rule speaks for every pair.
    """
    types = {name: i for i, name in enumerate(cells.gpu_types)}
    at = {name: i for i, name in enumerate(cells.profiles)}
    gpu_type = np.array([types[name] for name in rows.gpu_type])
    victim = np.array([at[name] for name in rows.victim])
    aggressor = np.array([at[name] for (name,) in rows.aggressors])
    tried, failed = np.zeros((2, *cells.shape), np.bool_)
    for left, right in ((victim, aggressor), (aggressor, victim)):
        tried[gpu_type, left, right] = True
        bad = ~rows.feasible
        failed[gpu_type[bad], left[bad], right[bad]] = True
    rule = np.stack([probably_infeasible(t, f) for t, f in zip(tried, failed, strict=True)])
    return np.where(tried, failed, rule) if keep_observed else rule


def _table(cells: Cells, values: FloatArray) -> FloatArray:
    table = np.full(int(np.prod(cells.shape)), values.mean())
    table[cells.place] = values
    return table.reshape(cells.shape)


def _natural(profile: str) -> tuple[str, int]:
    """Model, then batch as a number."""
    model, _, batch = profile.rpartition("/")
    return (model, int(batch)) if batch.isdigit() else (profile, 0)


SAVED = ("linear", LEARNED)  # models that schedulers can be given


@dataclass(frozen=True)
class FitReport:
    """What a fit found."""

    data_sets: dict[str, DataSet]
    predictions: pd.DataFrame  # lines of `judge.prediction_lines` with data_set, split and model
    saved: SavedModel


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

    `data_dir` is as in `data_sets`; `names` and `models`: None takes all; `folds` are of the split
    by pair and of the saved predictions; `done` is told what has just been finished.
    """
    sets = data_sets(data_dir, seed=seed, names=names)
    first = next(iter(sets.values()))
    pairs = _pairs(first.rows)
    if not len(pairs):
        raise PhysicsError(f"{data_dir}: no pair on whole GPUs, which the simulator's tables need")
    # Refuses too few of them before minutes of work.
    list(pair_folds(pairs.take(fit_rows(pairs)), folds, np.random.default_rng(seed)))
    fresh = partial(fresh_models, seed, models)
    held = {}
    for name, each in sets.items():
        rows = each.rows.take(fit_rows(each.rows))
        held[name] = judge(rows, each.solos, fresh, folds=folds, seed=seed, done=_about(name, done))
    kept = [name for name in SAVED if models is None or name in models or name == SAVED[0]]
    saved = saved_model(first, kept, seed=seed, folds=folds, keep_observed=True)
    done("tables for the simulator")
    return FitReport(sets, below_each_other(held, "data_set"), saved)


def _about(name: str, done: Callable[[str], None]) -> Callable[[str], None]:
    return lambda what: done(f"{name}: {what}")


def saved_model(
    data: DataSet, models: Sequence[str], *, seed: int, folds: int, keep_observed: bool
) -> SavedModel:
    """Cross-fitted tables of models that schedulers can be given, with equal folds for each.

    Only pairs on one whole GPU are used, or on links where there are no others. With
    `keep_observed` pairs that were tried keep whether they fitted; else a rule says it.
    """
    pairs = _pairs(data.rows)
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


def _pairs(rows: CoRows) -> CoRows:
    """Of two jobs on one whole GPU; where there are none, of two on shared links."""
    two = np.array([len(each) == 1 for each in rows.aggressors], dtype=np.bool_)
    two &= rows.share == 1.0
    on_gpu = two & (rows.sharing == "gpu")
    return rows.take(on_gpu if on_gpu.any() else two & (rows.sharing == "network"))
