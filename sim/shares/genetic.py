"""Genetic search over how many GPUs each job gets; nothing of jobs but their limits and worth."""

from typing import NamedTuple

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray
from sim.jit import array_kernel

TOURNAMENT = 2  # who breeds is the best of so many


class Limits(NamedTuple):
    """What each of n jobs may get, and what there is."""

    least: IntArray  # (n,) GPUs of a job that gets any
    most: IntArray  # (n,)
    size_milli: IntArray  # (n,) thousandths of a GPU that each of its workers takes
    room_milli: int  # thousandths of a GPU there are


class Effort(NamedTuple):
    """How hard to search."""

    population: int
    generations: int


@array_kernel
def keep_within(
    counts: IntArray,  # (K, n), changed in place
    order: IntArray,  # (K, n) each row a permutation: who is served first
    least: IntArray,
    most: IntArray,
    size_milli: IntArray,
    room_milli: int,
) -> None:
    """Cut every row to what there is.

    Those who get any first get their least, as far as it goes in the order given; then what they
    want beyond that. A job that wants less than its least gets nothing.
    """
    for row in range(counts.shape[0]):
        left = room_milli
        for at in order[row]:
            if counts[row, at] < least[at] or least[at] * size_milli[at] > left:
                counts[row, at] = 0
            else:
                left -= least[at] * size_milli[at]
        for at in order[row]:
            if counts[row, at] > 0:
                more = min(counts[row, at], most[at]) - least[at]
                more = min(more, left // size_milli[at])
                counts[row, at] = least[at] + more
                left -= more * size_milli[at]


@array_kernel
def fitness(counts: IntArray, cost: FloatArray) -> FloatArray:
    """(K,) minus the summed cost of each row; `cost` (n, W + 1) is of each job with k GPUs."""
    total = np.zeros(counts.shape[0])
    for row in range(counts.shape[0]):
        for at in range(counts.shape[1]):
            total[row] -= cost[at, counts[row, at]]
    return total


def search(
    first: IntArray,
    cost: FloatArray,
    limits: Limits,
    effort: Effort,
    rng: np.random.Generator,
) -> IntArray:
    """(n,) GPUs of each job, of the least summed cost found; never worse than rows of `first`.

    Every generation as many children as parents: of two parents, each the better of two drawn, a
    child takes each job's number from either; then one job in n gets another number within its
    limits, or none. Children are cut to what there is, each in another order, and the best of
    parents and children live on.

    Args:
        first: (k, n) allotments to begin with; cut like children, in order of their columns.
        cost: (n, W + 1) cost of each job with 0 to W GPUs.
        limits: what may be.
        effort: how long to go on.
        rng: where every draw comes from.
    """
    shape = effort.population, len(limits.least)
    alive = np.concatenate([first, _any_numbers(shape, limits, rng)])
    order = _orders(alive.shape, rng)
    order[: len(first)] = np.arange(shape[1])
    keep_within(alive, order, *limits)
    alive, score = _best(alive, fitness(alive, cost), effort.population)
    for _ in range(effort.generations):
        children = _bred(alive, score, shape, rng)
        mutated: BoolArray = rng.random(shape) < 1.0 / shape[1]
        children = np.where(mutated, _any_numbers(shape, limits, rng), children)
        keep_within(children, _orders(shape, rng), *limits)
        alive, score = _best(
            np.concatenate([alive, children]),
            np.concatenate([score, fitness(children, cost)]),
            effort.population,
        )
    best: IntArray = alive[0]
    return best


def _any_numbers(shape: tuple[int, int], limits: Limits, rng: np.random.Generator) -> IntArray:
    """Any number from one below the least, which stands for none, to the most."""
    numbers: IntArray = rng.integers(limits.least - 1, limits.most + 1, size=shape)
    return np.where(numbers < limits.least, 0, numbers)


def _orders(shape: tuple[int, int], rng: np.random.Generator) -> IntArray:
    """Who is served first in each row: one order, begun anywhere (drawing each takes long)."""
    order: IntArray = rng.permutation(shape[1])
    begin = rng.integers(0, shape[1], size=(shape[0], 1))
    turned: IntArray = order[(np.arange(shape[1]) + begin) % shape[1]]
    return turned


def _bred(
    alive: IntArray, score: FloatArray, shape: tuple[int, int], rng: np.random.Generator
) -> IntArray:
    drawn = rng.integers(0, len(alive), size=(TOURNAMENT, 2, shape[0]))
    parents = np.take_along_axis(drawn, score[drawn].argmax(axis=0)[None], axis=0)[0]
    either: BoolArray = rng.random(shape) < 1 / 2
    child: IntArray = np.where(either, alive[parents[0]], alive[parents[1]])
    return child


def _marks(width: int) -> IntArray:
    """(width,) odd numbers whose sums tell rows apart, all but surely, as hashes do."""
    marks: IntArray = np.cumprod(np.full(width, 6364136223846793005, dtype=np.int64))
    return marks


def _best(rows: IntArray, score: FloatArray, number: int) -> tuple[IntArray, FloatArray]:
    """The best rows, best first, equal ones once; ties go to the earlier row."""
    distinct = np.sort(np.unique(rows @ _marks(rows.shape[1]), return_index=True)[1])
    kept = distinct[np.argsort(-score[distinct], kind="stable")][:number]
    return rows[kept], score[kept]
