"""A whole predicted table in which no pair is predicted by a model that saw it.

Flexible models reproduce the rows they were fitted on. A table made that way would tell the
schedulers the measured truth for every measured pair, and the shipped file would be a copy of
the data. Here each tried pair is predicted by the fold that held it out (both directions, all
GPU types); pairs nobody tried get the mean over the folds.
"""

import numpy as np

from interference.dataset import ColocationRows, pair_number
from interference.evaluate import pair_folds
from interference.model import SpeedModel
from sim.arrays import FloatArray


def cross_fitted_table(
    model: SpeedModel, rows: ColocationRows, *, folds: int, rng: np.random.Generator
) -> FloatArray:
    """(T, P, P) normalised speed [GPU type, victim, aggressor]; `rows` are feasible ones."""
    query = every_cell(rows)
    parts = list(pair_folds(rows, folds, rng))
    by_fold = np.empty((len(parts), len(query)))
    for fold, (train, _) in enumerate(parts):
        model.fit(rows.take(train))
        by_fold[fold] = model.predict(query)
    norm = by_fold.mean(axis=0)
    for fold, (_, test) in enumerate(parts):
        held_out = np.isin(query.pair, rows.pair[test])
        norm[held_out] = by_fold[fold, held_out]
    return norm.reshape(len(rows.gpu_types), len(rows.profiles), len(rows.profiles))


def every_cell(rows: ColocationRows) -> ColocationRows:
    """One row, without a speed, for every GPU type and ordered pair of profiles."""
    shape = (len(rows.gpu_types), len(rows.profiles), len(rows.profiles))
    gpu_type, victim, aggressor = (index.ravel() for index in np.indices(shape))
    return ColocationRows(
        gpu_types=rows.gpu_types,
        profiles=rows.profiles,
        solo_s=rows.solo_s,
        gpu_type=gpu_type,
        victim=victim,
        aggressor=aggressor,
        pair=pair_number(victim, aggressor, len(rows.profiles)),
        norm_speed=np.full(len(victim), np.nan),
        feasible=np.ones(len(victim), np.bool_),
        source="query",
    )
