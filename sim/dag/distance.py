"""How far two plans are apart: published plan distance (SPD) and finish-time gap (FTG)."""

from collections.abc import Sequence

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.dag.evaluate import makespans_s
from sim.dag.plan import Plan
from sim.dag.problem import DagProblem


def running_times_s(problem: DagProblem, gpu: IntArray) -> FloatArray:
    """(n,) the position of a whale as published: the load of the GPU that hosts each task.

    The load is the time of all tasks there, waits left out.
    """
    took_s = problem.graph.work_s / problem.machines.speed[gpu]
    load_s: FloatArray = np.bincount(gpu, took_s, problem.num_gpus).astype(np.float64)
    return load_s[gpu]


def plan_distance_s(problem: DagProblem, one: Plan, other: Plan) -> float:
    """SPD: the mean over tasks of the gap between running times (Manhattan; the norm is ours)."""
    gap = running_times_s(problem, one.gpu) - running_times_s(problem, other.gpu)
    return float(np.abs(gap).mean())


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
