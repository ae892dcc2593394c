"""Which rows to fit on and which to judge by: nothing of what is judged was fitted.

Both sides of a pair, and the same pair on every GPU type, are one mix (`mix_numbers`): they are
always on one side of a division.
"""

from collections.abc import Iterator

import numpy as np

from interference.rows import CoRows, SoloProfiles, mix_numbers
from sim.arrays import IntArray, TextArray
from sim.errors import PhysicsError

Fold = tuple[IntArray, IntArray]  # rows to fit, rows to judge


def pair_folds(rows: CoRows, folds: int, rng: np.random.Generator) -> Iterator[Fold]:
    """Hold out mixes: no fitted row has the same jobs, on whatever GPU type."""
    mix = mix_numbers(rows)
    every = np.unique(mix)
    if not 1 < folds <= len(every):
        raise PhysicsError(f"folds is {folds}; the rows have {len(every)} mixes: use 2 to that")
    dealt = rng.permutation(every)
    for fold in range(folds):
        test = np.isin(mix, dealt[fold::folds])
        yield np.flatnonzero(~test), np.flatnonzero(test)


def model_folds(rows: CoRows, solos: SoloProfiles) -> Iterator[Fold]:
    """Hold out one model at a time: judged are all rows that it takes part in, in any role."""
    models = models_of(rows, solos)
    for name in sorted(model_names(rows, solos)):
        test = np.array([name in row for row in models], dtype=np.bool_)
        if test.all():
            raise PhysicsError(f"every row has {name}; add rows without it to hold it out")
        yield np.flatnonzero(~test), np.flatnonzero(test)


def type_folds(rows: CoRows) -> Iterator[Fold]:
    """Hold out one GPU type at a time."""
    for name in sorted(set(rows.gpu_type)):
        test = rows.gpu_type == name
        yield np.flatnonzero(~test), np.flatnonzero(test)


def model_names(rows: CoRows, solos: SoloProfiles) -> set[str]:
    """The models that take part in the rows, in any role."""
    return {name for row in models_of(rows, solos) for name in row}


def models_of(rows: CoRows, solos: SoloProfiles) -> TextArray:
    """(N,) tuple of the models in each row, victim's first."""
    model = dict(zip(solos.keys(), solos.model, strict=True))
    told = np.empty(len(rows), dtype=np.object_)
    facts = zip(rows.source, rows.gpu_type, rows.victim, rows.aggressors, strict=True)
    for row, (source, kind, victim, others) in enumerate(facts):
        told[row] = tuple(model[source, kind, name] for name in (victim, *others))
    return told
