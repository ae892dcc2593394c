"""Slow-downs of co-located jobs as compiled code reads them, and who is on a GPU.

Handing an array to a compiled function costs, whether it is read or not: so there is one table, of
pairs and mixes alike, and a crowd is any array of whole numbers that is long enough.
"""

from typing import NamedTuple

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.jit import kernel
from sim.physics.mix_table import MixTable
from sim.physics.pair_table import PairTable


class Slowing(NamedTuple):
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


def crowd_size(tenants: int) -> int:
    """Length of a crowd of so many tenants and a newcomer."""
    return 2 * (tenants + 1)


def empty_crowd(tenants: int) -> IntArray:
    """Scratch for the tenants of one GPU, in order of their start, and a newcomer."""
    return np.zeros(crowd_size(tenants), dtype=np.int64)


@kernel
def seat(crowd: IntArray, k: int, profile: int, milli: int) -> None:
    """Make the k-th of a crowd a job of `profile` with `milli` thousandths of the GPU."""
    crowd[2 * k] = profile
    crowd[2 * k + 1] = milli


@kernel
def profile_of(crowd: IntArray, k: int) -> int:
    """Profile of the k-th."""
    return int(crowd[2 * k])


@kernel
def milli_of(crowd: IntArray, k: int) -> int:
    """Thousandths of the GPU of the k-th."""
    return int(crowd[2 * k + 1])
