"""Slow-down of mixes of three and more tenants as a table, beside the pairs.

A column stands for the tenants beside the victim, a multiset of 1 to K of the P profiles: first the
P single ones, which repeat the pair table, then those of two, and so on. Among those of n, with
profiles a_1 <= ... <= a_n, the number is the combinatorial one, the sum of C(a_i + i - 1, i).
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import comb

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.errors import PhysicsError
from sim.physics.pair_table import PairTable

AXES = 3
FEWEST, MOST_AGGRESSORS = 2, 16  # in a table; one is a pair
MOST_MIB = 512  # larger tables are refused

# (type, victim, (N, k) sorted aggressors) -> (N,) slow-downs
Predict = Callable[[int, int, IntArray], FloatArray]


@dataclass(frozen=True)
class MixTable:
    """Slow-downs beside up to K others that each have the whole GPU; larger mixes go by a rule.

    No mix is faster than a part of it, and none faster than alone.
    """

    slowdown: FloatArray  # (T, P, C(P + K, K) - 1) [gpu type, victim, aggressors], ratio >= 1
    most_aggressors: int  # K

    def __post_init__(self) -> None:
        """Check shape, finiteness, the floor of 1 and that adding a tenant speeds up nobody."""
        k = self.most_aggressors
        if not FEWEST <= k <= MOST_AGGRESSORS:
            raise PhysicsError(
                f"mix table: most_aggressors is {k}; it must be {FEWEST} to {MOST_AGGRESSORS}"
            )
        if self.slowdown.ndim != AXES or self.slowdown.shape[2] != columns(self.profiles, k):
            raise PhysicsError(
                f"mix table: slowdown is {self.slowdown.shape}; with {self.profiles} profiles and "
                f"{k} aggressors it needs {columns(self.profiles, k)} columns"
            )
        if not np.all(np.isfinite(self.slowdown)) or np.any(self.slowdown < 1.0):
            raise PhysicsError("mix table: a slow-down is below 1 or not finite")
        for size in range(FEWEST, k + 1):
            mixes, own = _sized(self.profiles, size)
            for part in _parts(self.profiles, mixes):
                if np.any(self.slowdown[:, :, own] < self.slowdown[:, :, part]):
                    raise PhysicsError(
                        f"mix table: a mix of {size} aggressors is faster than a part of it; build "
                        "tables with mix_table, which raises such mixes"
                    )

    @property
    def profiles(self) -> int:
        """P."""
        return int(self.slowdown.shape[1])

    def pairs(self) -> FloatArray:
        """(T, P, P) the columns of one aggressor."""
        return self.slowdown[:, :, : self.profiles]


def columns(profiles: int, most_aggressors: int) -> int:
    """Multisets of 1 to `most_aggressors` of so many profiles."""
    return comb(profiles + most_aggressors, most_aggressors) - 1


def column_of(profiles: int, aggressors: IntArray) -> IntArray:
    """(N,) columns of (N, n) profiles, sorted in each row, of P."""
    size = aggressors.shape[1]
    number = np.full(len(aggressors), columns(profiles, size - 1), dtype=np.int64)
    for place in range(1, size + 1):
        choose = np.array([comb(p + place - 1, place) for p in range(profiles)], dtype=np.int64)
        number += choose[aggressors[:, place - 1]]
    return number


def mix_table(pairs: PairTable, most_aggressors: int, predict: Predict) -> MixTable:
    """The table that `predict` fills, made monotone: a mix is at least as slow as each part of it.

    Args:
        pairs: slow-downs of the mixes of two tenants.
        most_aggressors: K; larger mixes are left to the rule of `sim.physics.slowing`.
        predict: asked once for each GPU type, victim and number of aggressors from 2 to K.

    Raises:
        PhysicsError: the table would be too large, which is said before memory is taken, or a
            prediction is not finite.
    """
    types, profiles = pairs.slowdown.shape[:2]
    check_size(types, profiles, most_aggressors)
    slowdown = np.ones((types, profiles, columns(profiles, most_aggressors)))
    slowdown[:, :, :profiles] = pairs.slowdown
    for size in range(FEWEST, most_aggressors + 1):
        mixes, own = _sized(profiles, size)
        parts = _parts(profiles, mixes)
        for kind, victim in np.ndindex(types, profiles):
            told = np.asarray(predict(kind, victim, mixes), dtype=np.float64)
            _check_told(told, kind, victim, mixes)
            row = slowdown[kind, victim]
            row[own] = np.maximum.reduce([told, *(row[part] for part in parts)])
    return MixTable(slowdown=slowdown, most_aggressors=most_aggressors)


def check_size(types: int, profiles: int, most_aggressors: int) -> None:
    """Refuse a table of more than `MOST_MIB`.

    Raises:
        PhysicsError: with the size, and the most aggressors that would do.
    """
    mib = [types * profiles * columns(profiles, k) * 8 / 2**20 for k in range(most_aggressors + 1)]
    if mib[-1] <= MOST_MIB:
        return
    fits = sum(each <= MOST_MIB for each in mib) - 1  # mib[0] is that of no aggressor
    lower = f"set mixes.most_aggressors={fits}, or " if fits >= FEWEST else ""
    raise PhysicsError(
        f"mix table: {types} GPU types, {profiles} profiles and most_aggressors={most_aggressors} "
        f"take {mib[-1]:.0f} MiB, the most is {MOST_MIB}; {lower}use fewer profiles"
    )


def _check_told(told: FloatArray, kind: int, victim: int, mixes: IntArray) -> None:
    if told.shape != (len(mixes),) or not np.all(np.isfinite(told)):
        raise PhysicsError(
            f"mix table: predictions for GPU type {kind}, victim {victim} and {mixes.shape[1]} "
            f"aggressors are {told.shape}, or not finite; give {len(mixes)} numbers"
        )


def _sized(profiles: int, size: int) -> tuple[IntArray, IntArray]:
    """(N, size) all sorted multisets, and their columns."""
    rows = combinations_with_replacement(range(profiles), size)
    mixes = np.array(list(rows), dtype=np.int64).reshape(-1, size)
    return mixes, column_of(profiles, mixes)


def _parts(profiles: int, mixes: IntArray) -> list[IntArray]:
    """Columns of what is left of each mix without its first, its second, ... aggressor."""
    return [column_of(profiles, np.delete(mixes, at, axis=1)) for at in range(mixes.shape[1])]
