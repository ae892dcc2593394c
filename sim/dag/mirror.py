"""A DAG with time turned round: children become parents, and the last task the first."""

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.dag.problem import DagArrays


def mirrored(dag: DagArrays) -> DagArrays:
    """Task i of n becomes task n - 1 - i, so that parents still come first."""
    count = len(dag.work)
    parents = _turned(count, dag.first_child, dag.child, dag.child_mb)
    children = _turned(count, dag.first_parent, dag.parent, dag.parent_mb)
    return DagArrays(
        dag.work[::-1].copy(), *parents, *children,
        dag.speed, dag.s_per_mb, dag.need[::-1].copy(), dag.room,
    )  # fmt: skip


def _turned(
    count: int, first: IntArray, other: IntArray, mb: FloatArray
) -> tuple[IntArray, IntArray, FloatArray]:
    row = count - 1 - np.repeat(np.arange(count), np.diff(first))
    turned = count - 1 - other
    order = np.lexsort((turned, row))
    starts = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(np.bincount(row, minlength=count), out=starts[1:])
    return starts, turned[order], mb[order]
