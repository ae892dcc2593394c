"""Which pairs nobody tried probably do not fit into memory, from those that did not."""

import numpy as np

from sim.arrays import BoolArray

BAD_SHARE = 0.5  # a profile that failed in more than this share of its pairs counts as too large


def probably_infeasible(tried: BoolArray, failed: BoolArray) -> BoolArray:
    """(P, P) True where one side failed in most of its tried pairs.

    Args:
        tried: (P, P) symmetric, True where the pair was measured.
        failed: (P, P) symmetric, True where it did not fit.
    """
    share = failed.sum(axis=1) / np.maximum(tried.sum(axis=1), 1)  # (P,)
    large = share > BAD_SHARE
    return np.asarray(large[:, None] | large[None, :])
