"""Stretches of traces whose jobs form workflows: those stay whole, and have no cycles."""

from collections import deque

import numpy as np

from sim.arrays import BoolArray, IntArray
from sim.traces.trace import owners
from sim.traits import Precedence


def units_of(precedence: Precedence | None, jobs: int) -> IntArray:
    """(J,) which unit each job is part of: a workflow, or itself; numbered by their first job."""
    rows = np.arange(jobs)
    if precedence is None:
        return rows
    alone = precedence.workflow < 0
    key = np.where(alone, rows + jobs, precedence.workflow)
    _, first, unit = np.unique(key, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first, kind="stable")] = np.arange(len(first))
    return rank[unit]


def thinned_units(unit: IntArray, num_jobs: int, thin: int, rng: np.random.Generator) -> IntArray:
    """Rows of whole units out of a random stretch of at least thin * num_jobs jobs.

    Units of the stretch are drawn at random until they hold `num_jobs` jobs; the last one drawn
    may bring a few more.
    """
    size = np.bincount(unit)
    ends = np.cumsum(size)
    wanted = min(thin * num_jobs, int(ends[-1]))
    last_start = int(np.searchsorted(ends, ends[-1] - wanted, side="right"))
    first = int(rng.integers(last_start + 1))
    done = ends[first] - size[first]
    stop = int(np.searchsorted(ends, done + wanted, side="left")) + 1
    order = first + rng.permutation(stop - first)
    drawn = order[: int(np.searchsorted(np.cumsum(size[order]), num_jobs, side="left")) + 1]
    return np.flatnonzero(np.isin(unit, drawn))


def on_a_cycle(first: IntArray, parents: IntArray) -> BoolArray:
    """(J,) jobs on a circle of parents, or that wait for one (Kahn 1962: what no order reaches)."""
    jobs = len(first) - 1
    child_of = owners(first)
    order = np.argsort(parents, kind="stable")
    begin = np.searchsorted(parents[order], np.arange(jobs + 1))
    waiting = np.diff(first).copy()
    ready = deque(np.flatnonzero(waiting == 0).tolist())
    while ready:
        row = ready.popleft()
        for child in child_of[order[begin[row] : begin[row + 1]]].tolist():
            waiting[child] -= 1
            if waiting[child] == 0:
                ready.append(child)
    stuck: BoolArray = waiting > 0
    return stuck
