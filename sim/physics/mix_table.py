"""Slow-down of pairs, and of mixes of three and more tenants: tables and laws.

A column stands for the tenants beside the victim, a multiset of 1 to K of the P profiles: first the
P single ones, which repeat the pair table, then those of two, and so on. Among those of n, with
profiles a_1 <= ... <= a_n, the number is the combinatorial one, the sum of C(a_i + i - 1, i).
Pairs and mixes are one table, since every array costs something where a compiled function takes it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import comb
from typing import Protocol

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray
from sim.errors import PhysicsError, check_numbers
from sim.handle import Handle
from sim.jit import kernel

AXES = 3


@dataclass(frozen=True)
class PairTable:
    """Pairwise co-location on one GPU; mixes of more add up, unless `Physics.mixes` says else."""

    slowdown: FloatArray  # (T, P, P) [gpu type, victim, aggressor], time ratio >= 1
    feasible: BoolArray  # (T, P, P) False where the pair does not fit in memory; symmetric
    source: str  # "none", "measured", "shipped", or the predicting model's name
    guessed: bool = False  # whether pairs that nobody measured have a slow-down

    def __post_init__(self) -> None:
        """Check shapes, finiteness, the floor of 1 and symmetric feasibility."""
        shapes = np.shape(self.slowdown), np.shape(self.feasible)
        arrays = isinstance(self.slowdown, np.ndarray) and isinstance(self.feasible, np.ndarray)
        square = len(shapes[0]) == AXES and shapes[0][1] == shapes[0][2]
        if not (arrays and square and shapes[0] == shapes[1]):
            raise PhysicsError(
                f"pair table of {self.source!r}: slowdown and feasible have the shapes {shapes[0]} "
                f"and {shapes[1]}; they must be arrays (GPU types, victims, aggressors)"
            )
        if not np.all(np.isfinite(self.slowdown)) or np.any(self.slowdown < 1.0):
            bad = np.argwhere(~(self.slowdown >= 1.0) | np.isinf(self.slowdown))[0].tolist()
            raise PhysicsError(
                f"pair table of {self.source!r}: slowdown{bad} is {self.slowdown[tuple(bad)]:g} "
                "(GPU type, victim, aggressor); it must be a finite number of 1 or more"
            )
        if np.any(self.feasible != self.feasible.transpose(0, 2, 1)):
            raise PhysicsError("pair table: feasible(a, b) differs from feasible(b, a)")


BAD_SHARE = 0.5  # a profile that failed in more than this share of its pairs counts as too large


def probably_infeasible(tried: BoolArray, failed: BoolArray) -> BoolArray:
    """(P, P) True where one side failed in most of its tried pairs; both (P, P) are symmetric."""
    share = failed.sum(axis=1) / np.maximum(tried.sum(axis=1), 1)  # (P,)
    large = share > BAD_SHARE
    return np.asarray(large[:, None] | large[None, :])


@dataclass(frozen=True)
class AdditiveFit:
    """Fitted terms of one GPU type over P profiles."""

    constant: float
    victim: FloatArray  # (P,) mean 0 over the profiles seen; 0 for a profile never seen
    aggressor: FloatArray  # (P,)
    residual_sd: float  # of ln(normalised speed), over the rows fitted

    def log_norm(self) -> FloatArray:
        """(P, P) predicted ln(normalised speed) [victim, aggressor]."""
        return self.constant + self.victim[:, None] + self.aggressor[None, :]


def fit_additive(
    *, victim: IntArray, aggressor: IntArray, norm: FloatArray, profiles: int
) -> AdditiveFit:
    """Least squares over N directed rows of co-located / isolated speed `norm` (N,), above 0."""
    rows, target = np.arange(len(norm)), np.log(norm)
    constant = float(target.mean())
    design = np.zeros((len(norm), 2 * profiles))
    design[rows, victim] = 1.0
    design[rows, profiles + aggressor] = 1.0
    solution, *_ = np.linalg.lstsq(design, target - constant, rcond=None)  # smallest one
    terms = np.asarray(solution, dtype=np.float64)
    residual = target - constant - design @ terms
    return AdditiveFit(constant, terms[:profiles], terms[profiles:], float(residual.std()))


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

    `predict` is asked once for each GPU type, victim and number of aggressors from 2 to
    `most_aggressors`; larger mixes are left to the rule of `sim.physics.laws`.

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
        for gpu_type, victim in np.ndindex(types, profiles):
            predicted = np.asarray(predict(gpu_type, victim, mixes), dtype=np.float64)
            _check_predicted(predicted, gpu_type, victim, mixes)
            row = slowdown[gpu_type, victim]
            row[own] = np.maximum.reduce([predicted, *(row[part] for part in parts)])
    return MixTable(slowdown=slowdown, most_aggressors=most_aggressors)


def check_size(types: int, profiles: int, most_aggressors: int) -> None:
    """Refuse a table above `MOST_MIB` by a PhysicsError with the most aggressors that would do."""
    mib = [types * profiles * columns(profiles, k) * 8 / 2**20 for k in range(most_aggressors + 1)]
    if mib[-1] <= MOST_MIB:
        return
    fits = sum(each <= MOST_MIB for each in mib) - 1  # mib[0] is that of no aggressor
    lower = f"set mixes.most_aggressors={fits}, or " if fits >= FEWEST else ""
    raise PhysicsError(
        f"mix table: {types} GPU types, {profiles} profiles and most_aggressors={most_aggressors} "
        f"take {mib[-1]:.0f} MiB, the most is {MOST_MIB}; {lower}use fewer profiles"
    )


def _check_predicted(predicted: FloatArray, gpu_type: int, victim: int, mixes: IntArray) -> None:
    if predicted.shape != (len(mixes),) or not np.all(np.isfinite(predicted)):
        raise PhysicsError(
            f"mix table: predictions for GPU type {gpu_type}, victim {victim} and {mixes.shape[1]} "
            f"aggressors are {predicted.shape}, or not finite; give {len(mixes)} numbers"
        )


def _sized(profiles: int, size: int) -> tuple[IntArray, IntArray]:
    """(N, size) all sorted multisets, and their columns."""
    rows = combinations_with_replacement(range(profiles), size)
    mixes = np.array(list(rows), dtype=np.int64).reshape(-1, size)
    return mixes, column_of(profiles, mixes)


def _parts(profiles: int, mixes: IntArray) -> list[IntArray]:
    """Columns of what is left of each mix without its first, its second, ... aggressor."""
    return [column_of(profiles, np.delete(mixes, at, axis=1)) for at in range(mixes.shape[1])]


MOST_TENANTS = 60  # of a GPU: compiled code holds them as bits of a number


class MixLaw(Protocol):
    """Says what several tenants of a GPU do to another one."""

    def table(self, pairs: PairTable) -> MixTable | None:
        """Table of mixes over the pairs' profiles; None: the excesses of the pairs add up."""


@dataclass(frozen=True)
class PairSum:
    """The excesses of the pairs add up; no table is needed."""

    def table(self, pairs: PairTable) -> MixTable | None:
        """None."""
        del pairs
        return None


PAIR_SUM = PairSum()


@dataclass(frozen=True, kw_only=True)
class PowerLaw:
    """excess = (sum of the pairs' excesses to the `power`) to the 1 / `power`.

    Power 1 is the sum of the pairs. The larger it is, the nearer is a mix to the worst of its
    pairs; below 1 mixes are worse than their pairs together.
    """

    power: float
    most_aggressors: int  # in the table; larger mixes go by the rule of `sim.physics.laws`
    max_tenants: int  # of a GPU: a table of more is not asked for

    def __post_init__(self) -> None:
        """Check the ranges."""
        check_numbers("mixes", "above 0", PhysicsError, power=self.power)
        if not FEWEST <= self.most_aggressors <= MOST_AGGRESSORS:
            raise PhysicsError(
                f"mixes.most_aggressors is {self.most_aggressors}; it must be {FEWEST} to "
                f"{MOST_AGGRESSORS}"
            )
        if self.max_tenants > MOST_TENANTS:
            raise PhysicsError(
                f"max_tenants is {self.max_tenants}; with mixes=power it must be at most "
                f"{MOST_TENANTS}"
            )

    def table(self, pairs: PairTable) -> MixTable | None:
        """Mixes of the law; None where they are the pairs' sums, or no GPU holds one.

        Raises:
            PhysicsError: the table would be too large.
        """
        most = min(self.most_aggressors, self.max_tenants - 1)
        if self.power == 1.0 or most < FEWEST:
            return None
        excess = pairs.slowdown - 1.0

        def predict(gpu_type: int, victim: int, mixes: IntArray) -> FloatArray:
            return 1.0 + norm(excess[gpu_type, victim][mixes], self.power)

        return mix_table(pairs, most, predict)


def norm(excess: FloatArray, power: float) -> FloatArray:
    """(N,) power norms of the rows of (N, k), scaled by the largest lest powers overflow."""
    worst = excess.max(axis=1, keepdims=True)
    scaled = excess / np.where(worst > 0.0, worst, 1.0)
    total: FloatArray = worst[:, 0] * (scaled**power).sum(axis=1) ** (1.0 / power)
    return total


@dataclass(frozen=True, eq=False)
class Slowing(Handle):
    """Tables over P profiles, T GPU types and K aggressors."""

    slowdown: FloatArray  # (T, P, columns) of `sim.physics.mix_table`; its first P are the pairs
    most_aggressors: int  # K; 1: pairs alone


def slowing_of(pairs: PairTable, mixes: MixTable | None) -> Slowing:
    """Contiguous and writable whatever they are made from: one type, compiled once."""
    if mixes is None:
        return pairs_alone(pairs.slowdown)
    return Slowing(_plain(mixes.slowdown), mixes.most_aggressors)


def pairs_alone(slowdown: FloatArray) -> Slowing:
    """Tables of pairs (T, P, P) alone."""
    return Slowing(_plain(slowdown), 1)


def _plain(table: FloatArray) -> FloatArray:
    return np.require(table, np.float64, ["C_CONTIGUOUS", "WRITEABLE", "ALIGNED"])


def tenants_size(tenants: int) -> int:
    """Length of a list of so many tenants and a newcomer."""
    return 2 * (tenants + 1)


def empty_tenants(tenants: int) -> IntArray:
    """Scratch for the tenants of one GPU, in order of their start, and a newcomer."""
    return np.zeros(tenants_size(tenants), dtype=np.int64)


@kernel
def put_tenant(tenants: IntArray, k: int, profile: int, milli: int) -> None:
    """Make the k-th tenant a job of `profile` with `milli` thousandths of the GPU."""
    tenants[2 * k] = profile
    tenants[2 * k + 1] = milli


@kernel
def profile_of(tenants: IntArray, k: int) -> int:
    """Profile of the k-th."""
    return int(tenants[2 * k])


@kernel
def milli_of(tenants: IntArray, k: int) -> int:
    """Thousandths of the GPU of the k-th."""
    return int(tenants[2 * k + 1])
