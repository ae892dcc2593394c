"""Which rows each member of a deep set leaves out, and which models it never meets."""

from dataclasses import dataclass

import numpy as np

from interference.models.encoding import Encoded
from sim.arrays import BoolArray, IntArray
from sim.errors import PhysicsError

FOLDS, TIMES = 5, 2  # divisions of the mixes, each into folds: every row is left out TIMES times
GROUPS = 5  # of models
LEAST_PART = 0.1  # of the rows, that a member must keep


@dataclass(frozen=True)
class Division:
    """K members over N rows of M models."""

    outside: BoolArray  # (K, N) rows that a member does not learn speeds from
    forgotten: BoolArray  # (K, M + 1) models that it never meets; none is unknown, the last
    for_new: BoolArray  # (K,) members that forget models: they tell how wrong one is of such


def division(mix: IntArray, encoded: Encoded, models: int, rng: np.random.Generator) -> Division:
    """Members by mixes, whole mixes each, then members by groups of models where there are some.

    Args:
        mix: (N,) equal where the same jobs ran together.
        encoded: the rows.
        models: M.
        rng: of the draws.

    Raises:
        PhysicsError: if the rows are of one mix.
    """
    mixes = int(mix.max()) + 1
    if mixes < 2:  # noqa: PLR2004  (one to learn from, one to judge by)
        raise PhysicsError("the rows are of 1 mix of jobs; a deep set needs 2 or more")
    folds = min(FOLDS, mixes)
    dealt = [rng.permutation(mixes)[mix] % folds for _ in range(TIMES)]
    outside = [fold == number for fold in dealt for number in range(folds)]
    forgotten = [np.zeros(models + 1, dtype=np.bool_)] * len(outside)
    for marks in _groups(models, rng):
        with_them = _with_models(encoded, marks)
        if with_them.any() and (~with_them).mean() >= LEAST_PART:
            outside.append(with_them)
            forgotten.append(marks)
    for_new = np.arange(len(outside)) >= TIMES * folds
    return Division(np.stack(outside), np.stack(forgotten), for_new)


def _groups(models: int, rng: np.random.Generator) -> list[BoolArray]:
    groups = min(GROUPS, models)
    dealt = np.append(rng.permutation(models) % groups, groups)  # the last, unknown, is in none
    return [dealt == number for number in range(groups)]


def _with_models(encoded: Encoded, marks: BoolArray) -> BoolArray:
    """(N,) rows in which a marked model takes part; an UNKNOWN index, -1, reads the last mark."""
    others = marks[encoded.aggressor_model] & (encoded.present > 0.0)
    return np.asarray(marks[encoded.victim_model] | others.any(axis=1))
