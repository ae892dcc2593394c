"""What no plan can beat, and how far two plans are apart (SPD and FTG)."""

from collections.abc import Sequence

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.dag.evaluate import makespans_s
from sim.dag.plan import Plan
from sim.dag.problem import DagArrays, DagProblem
from sim.dag.ranks import longest_paths


def lower_bound_s(problem: DagProblem) -> float:
    """The larger of two: the longest path, and all work shared out.

    The path counts each task on the fastest GPU that it fits, and no transfers (all may be on one
    GPU); the work is spread over all GPUs by their speeds.
    """
    graph, gpus = problem.graph, problem.machines
    fits = graph.need_gib[:, None] <= gpus.room_gib[None, :]
    best_speed = np.where(fits, gpus.speed[None, :], 0.0).max(axis=1)
    path_s = longest_paths(problem.arrays, graph.work_s / best_speed, 0.0)
    return max(float(path_s.max()), float(graph.work_s.sum() / gpus.speed.sum()))


def running_times_s(problem: DagProblem, gpu: IntArray) -> FloatArray:
    """(n,) the position of a whale as published: the load of the GPU that hosts each task.

    The load is the time of all tasks there, waits left out.
    """
    took_s = problem.graph.work_s / problem.machines.speed[gpu]
    load_s: FloatArray = np.bincount(gpu, took_s, problem.num_gpus).astype(np.float64)
    return load_s[gpu]


def gap_correlation(problem: DagProblem, plans: Sequence[Plan]) -> float:
    """Pearson's r of SPD and FTG, the gap between makespans, over all pairs of plans; NaN if flat.

    Published, read off the figures: 0.16 to 0.54 on Alibaba's DAGs with 50 GPUs, 0.37 to 0.54 with
    500.
    """
    times = np.array([running_times_s(problem, plan.gpu) for plan in plans])  # (P, n)
    ends = makespans_s(problem, plans)
    one, other = np.triu_indices(len(plans), 1)
    spd = np.array([np.abs(times[a] - times[b]).mean() for a, b in zip(one, other, strict=True)])
    ftg = np.abs(ends[one] - ends[other])
    if len(spd) < 2 or not spd.std() or not ftg.std():  # noqa: PLR2004  (no spread, no r)
        return float("nan")
    return float(np.corrcoef(spd, ftg)[0, 1])


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
