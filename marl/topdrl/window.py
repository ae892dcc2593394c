"""Which waiting jobs the slots show."""

import numpy as np

from marl.topdrl.spec import BY_SUBMISSION, SightSpec
from sim.arrays import FloatArray, IntArray


def window(queued: IntArray, worth: FloatArray, spec: SightSpec) -> IntArray:
    """At most `spec.slots` of the waiting jobs, best first, then the oldest that were left out.

    Args:
        queued: (q,) waiting jobs in order of submission.
        worth: (q,) worth of a GPU at full speed.
        spec: number of slots and their order.
    """
    if spec.order == BY_SUBMISSION:
        return queued[: spec.slots]
    by_worth = np.argsort(-worth, kind="stable")
    if len(queued) <= spec.slots:
        return queued[by_worth]
    best = by_worth[: spec.slots - spec.oldest_slots]
    left: IntArray = np.setdiff1d(np.arange(len(queued)), best)
    return queued[np.concatenate([best, left[: spec.oldest_slots]])]
