"""Jobs that could never start, because they wait for themselves in the end."""

from collections import deque

import numpy as np

from sim.arrays import BoolArray, IntArray
from sim.traces.ragged import owners


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
