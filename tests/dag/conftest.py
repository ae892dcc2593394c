"""Problems by hand, and small drawn ones."""

from collections.abc import Callable

import numpy as np
import pytest

from sim.dag import problem
from sim.dag.families import layered_graph, random_graph

KINDS = (problem.GpuModel("slow", 1.0, 16.0), problem.GpuModel("fast", 2.0, 40.0))


@pytest.fixture
def slow_and_fast() -> problem.Machines:
    """GPU 0 of speed 1, GPU 1 of speed 2; a MB takes a second between them."""
    return problem.machines(
        "two", np.array([1.0, 2.0]), np.array([16.0, 40.0]), np.array([[0.0, 1.0], [1.0, 0.0]])
    )


@pytest.fixture
def diamond() -> problem.TaskGraph:
    """Task (work), and MB on the edges.

         a (4)
      1 /     \\ 3
     b (2)    c (6)          e (1)
    0.5 \\     / 2
         d (4)
    """
    return problem.task_graph(
        "diamond",
        ["a", "b", "c", "d", "e"],
        [4.0, 2.0, 6.0, 4.0, 1.0],
        [("a", "b", 1.0), ("a", "c", 3.0), ("b", "d", 0.5), ("c", "d", 2.0)],
    )  # fmt: skip


@pytest.fixture
def diamond_problem(
    diamond: problem.TaskGraph, slow_and_fast: problem.Machines
) -> problem.DagProblem:
    return problem.dag_problem(diamond, slow_and_fast)


@pytest.fixture
def drawn() -> Callable[..., problem.DagProblem]:
    """A random problem: tasks, GPUs, seed."""

    def make(tasks: int, gpus: int, seed: int, *, mb_per_s: float = 30.0) -> problem.DagProblem:
        rng = np.random.default_rng(seed)
        shape = layered_graph if seed % 2 else random_graph
        graph = shape(tasks, width=max(gpus, 2), parents=2.0, mean_s=60.0, mb_per_s=mb_per_s,
                      rng=rng)  # fmt: skip
        gpu = problem.drawn_machines(
            KINDS, gpus=gpus, per_server=2, inside_gbps=100.0, between_gbps=0.5,
            least_share=0.2, rng=rng,
        )  # fmt: skip
        return problem.dag_problem(graph, gpu)

    return make
