"""Random DAGs: layer by layer, or tasks that pick parents among those shortly before them."""

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.dag.errors import DagError
from sim.dag.graph import TaskGraph, task_graph

WORK_SPREAD = 1.0  # sigma of the log-normal works
MB_SPREAD = 0.5  # sigma of the log-normal sizes


def layered_graph(
    tasks: int, *, width: int, parents: float, mean_s: float, mb_per_s: float,
    rng: np.random.Generator,
) -> TaskGraph:  # fmt: skip
    """Layers of 1 to 2 `width` - 1 tasks; each has parents in the layer before.

    Args:
        tasks: how many.
        width: mean tasks of a layer.
        parents: mean number; at least one, at most all of the layer.
        mean_s: of the log-normal works.
        mb_per_s: mean MB that an edge carries, for each second of `mean_s`.
        rng: of everything.

    Raises:
        DagError: a number out of range.
    """
    _check(tasks, width, parents, mean_s, mb_per_s)
    edges: list[tuple[int, int]] = []
    before, done = 0, 0  # layers: from `before` to `done`, and from there on
    while done < tasks:
        size = min(int(rng.integers(1, 2 * width)), tasks - done)
        pool = np.arange(before, done)
        for task in range(done, done + size if len(pool) else done):
            edges += _picked(task, pool, parents, rng)
        before, done = done, done + size
    return _graph(f"layered_{tasks}", tasks, edges, mean_s, mb_per_s, rng)


def random_graph(
    tasks: int, *, width: int, parents: float, mean_s: float, mb_per_s: float,
    rng: np.random.Generator,
) -> TaskGraph:  # fmt: skip
    """Each task picks parents among the 2 `width` tasks before it; arguments as above."""
    _check(tasks, width, parents, mean_s, mb_per_s)
    edges = []
    for task in range(width, tasks):
        edges += _picked(task, np.arange(max(task - 2 * width, 0), task), parents, rng)
    return _graph(f"random_{tasks}", tasks, edges, mean_s, mb_per_s, rng)


def _check(tasks: int, width: int, parents: float, mean_s: float, mb_per_s: float) -> None:
    if tasks < 1 or width < 1 or parents < 1 or not mean_s > 0 or not mb_per_s >= 0:
        raise DagError(
            f"{tasks} tasks, width {width}, {parents} parents, {mean_s} s and {mb_per_s} MB/s: "
            f"the first three must be at least 1, seconds above 0, MB/s at least 0"
        )


def _picked(
    task: int, pool: IntArray, parents: float, rng: np.random.Generator
) -> list[tuple[int, int]]:
    """Edges (parent, task): one parent and a Poisson number more, without repetition."""
    count = min(1 + int(rng.poisson(parents - 1)), len(pool))
    return [(parent, task) for parent in rng.choice(pool, count, replace=False).tolist()]


def _graph(
    name: str, tasks: int, edges: list[tuple[int, int]], mean_s: float, mb_per_s: float,
    rng: np.random.Generator,
) -> TaskGraph:  # fmt: skip
    names = [f"t{number}" for number in range(tasks)]
    mb = log_normal(mean_s * mb_per_s, MB_SPREAD, len(edges), rng)
    return task_graph(
        name,
        names,
        log_normal(mean_s, WORK_SPREAD, tasks, rng),
        ((names[a], names[b], size) for (a, b), size in zip(edges, mb.tolist(), strict=True)),
    )


def log_normal(mean: float, sigma: float, count: int, rng: np.random.Generator) -> FloatArray:
    """(count,) log-normal numbers of this mean."""
    return mean * rng.lognormal(-0.5 * sigma**2, sigma, count)
