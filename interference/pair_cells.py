"""A whole predicted table in which no pair is predicted by a model that saw it.

Flexible models reproduce the rows they were fitted on. A table made that way would tell the
schedulers the measured truth for every measured pair, and the shipped file would be a copy of
the data. Here each tried pair is predicted by the fold that held it out (both directions, all
GPU types); pairs nobody tried get the mean over the folds.
"""

from dataclasses import dataclass, replace

import numpy as np

from interference.evaluation.splits import pair_folds
from interference.models.protocol import SpeedModel
from interference.rows import CoRows, SoloProfiles, mix_numbers, objects, stacked_rows
from sim.arrays import BoolArray, FloatArray, IntArray
from sim.physics.memory_rule import probably_infeasible


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
    kind, victim, aggressor = (index.ravel() for index in np.indices(shape))
    name, types = objects(profiles), objects(gpu_types)
    there = [
        (source, types[t], name[v]) in known and (source, types[t], name[a]) in known
        for t, v, a in zip(kind, victim, aggressor, strict=True)
    ]
    place = np.flatnonzero(there)
    n = len(place)
    query = CoRows(
        source=objects([source] * n),
        gpu_type=types[kind[place]],
        sharing=objects([rows.sharing[0]] * n),
        group=np.arange(n),
        split=objects([""] * n),
        victim=name[victim[place]],
        aggressors=objects([(other,) for other in name[aggressor[place]]]),
        share=np.ones(n),
        norm_speed=np.full(n, np.nan),
        relative_to=objects(["solo"] * n),
        feasible=np.zeros(n, dtype=np.bool_),
        measured=np.zeros(n, dtype=np.bool_),
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
        told = model.predict(cells.rows, solos)
        speed[fold], sd[fold] = told.norm_speed, told.sd
    mean_speed, mean_sd = speed.mean(axis=0), sd.mean(axis=0)
    for fold, (_, test) in enumerate(parts):
        held_out = np.isin(asked, fitted[test])
        mean_speed[held_out], mean_sd[held_out] = speed[fold, held_out], sd[fold, held_out]
    return _table(cells, mean_speed), _table(cells, mean_sd)


def predicted_infeasible(rows: CoRows, cells: Cells, *, keep_observed: bool) -> BoolArray:
    """(T, P, P) symmetric: pairs that do not fit into memory, or probably do not.

    Args:
        rows: all rows of pairs, infeasible ones too.
        cells: of the same data set.
        keep_observed: pairs that were tried keep what was seen; without it the memory rule
            speaks for every pair.
    """
    types = {name: i for i, name in enumerate(cells.gpu_types)}
    at = {name: i for i, name in enumerate(cells.profiles)}
    kind = np.array([types[name] for name in rows.gpu_type])
    victim = np.array([at[name] for name in rows.victim])
    aggressor = np.array([at[name] for (name,) in rows.aggressors])
    tried, failed = np.zeros((2, *cells.shape), np.bool_)
    for left, right in ((victim, aggressor), (aggressor, victim)):
        tried[kind, left, right] = True
        bad = ~rows.feasible
        failed[kind[bad], left[bad], right[bad]] = True
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
