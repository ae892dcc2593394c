"""Virtual clusters and users of the generator, from a trace that names them."""

from dataclasses import dataclass

import numpy as np

from sim.arrays import IntArray
from sim.traits import Identity

LARGEST_RANKS = 20  # the tail of rare owners would bend the slope


@dataclass(frozen=True, kw_only=True)
class Owners:
    """Who submits; a trace often does not say."""

    vcs: int
    users_per_vc: int
    zipf_exponent: float


def fit_owners(identity: Identity | None) -> Owners:
    """Counts of owners, and the slope of ln share over ln rank of the largest.

    The slope is that of users, of virtual clusters where there are no users. A trace without
    owners has one of each.
    """
    if identity is None:
        return Owners(vcs=1, users_per_vc=1, zipf_exponent=0.0)
    vcs, users = _count(identity.vc), _count(identity.user)
    ranked = identity.user if users > 1 else identity.vc
    return Owners(
        vcs=max(vcs, 1),
        users_per_vc=max(round(users / max(vcs, 1)), 1),
        zipf_exponent=_slope(ranked),
    )


def _count(codes: IntArray) -> int:
    return len(np.unique(codes[codes >= 0]))


def _slope(codes: IntArray) -> float:
    counts = np.sort(np.bincount(codes[codes >= 0]))[::-1][:LARGEST_RANKS]
    counts = counts[counts > 0]
    if len(counts) < 2:  # noqa: PLR2004  (a line needs two points)
        return 0.0
    slope, _ = np.polyfit(np.log(np.arange(1, len(counts) + 1)), np.log(counts), 1)
    return max(-float(slope), 0.0)
