"""What no plan can beat."""

import numpy as np

from sim.dag.problem import DagProblem
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
