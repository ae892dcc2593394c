"""Design matrices of linear models: a column for each job, each model, each feature."""

import numpy as np

from interference.models.encoding import UNKNOWN, Encoded
from sim.arrays import FloatArray, IntArray


def counts(numbers: IntArray, kinds: int) -> FloatArray:
    """(N, kinds) how often each number stands in a row of (N,) or (N, A); UNKNOWN is no kind."""
    table = np.zeros((len(numbers), kinds + 1))
    flat = numbers.reshape(len(numbers), -1)
    np.add.at(table, (np.arange(len(flat))[:, None], np.where(flat == UNKNOWN, kinds, flat)), 1.0)
    return table[:, :kinds]


def identities(encoded: Encoded, profiles: int) -> FloatArray:
    """(N, 2 P) who the victim is, and who its aggressors are."""
    return np.hstack(
        [counts(encoded.victim_profile, profiles), counts(encoded.aggressor_profile, profiles)]
    )


def kinships(encoded: Encoded, models: int) -> FloatArray:
    """(N, 2 M) the same of models."""
    return np.hstack(
        [counts(encoded.victim_model, models), counts(encoded.aggressor_model, models)]
    )


def numbers(encoded: Encoded) -> FloatArray:
    """(N, 2 F + 1) features of the victim, sum of the aggressors', share."""
    return np.hstack([encoded.victim, encoded.pooled()[1], encoded.share[:, None]])


def tree_inputs(encoded: Encoded, types: int) -> FloatArray:
    """(N, ...) what trees split on: both sides, their sum and difference, GPU type, share.

    Sums and differences are there because a tree needs many splits for one slanted line.
    """
    mean, total = encoded.pooled()
    victim = encoded.victim
    return np.hstack(
        [
            victim,
            mean,
            victim - mean,
            victim + total,
            encoded.present.sum(axis=1, keepdims=True),
            encoded.share[:, None],
            counts(encoded.gpu_type, types),
        ]
    )
