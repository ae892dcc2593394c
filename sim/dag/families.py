"""DAGs to plan: random ones, batch jobs of Alibaba's trace, training steps of neural networks.

Families are what configuration describes: each draws its graphs from a seed, or reads them
(`sim.dag.model_graphs`).
"""

from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.dag.model_graphs import dnn_partitioning_graph, pipedream_graph
from sim.dag.problem import DagError, Edge, TaskGraph, task_graph
from sim.jobs import Precedence
from sim.traces.alibaba import AlibabaDag
from sim.traces.trace import Trace

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


LEAST = 2  # tasks of a job that counts as a DAG
ENOUGH = 0.95  # of the tasks asked for


def alibaba_graph(
    trace: Trace, *, tasks: int, longest_s: float, mb_per_s: float, rng: np.random.Generator
) -> TaskGraph:
    """Jobs of a trace with parents (`sim.traces.alibaba`) as one batch, all there at once.

    Durations are the work. Sizes are not in the trace: a task hands each child a log-normal
    number of MB with mean `mb_per_s` times its own duration.

    Args:
        trace: as read; jobs of one task are left out.
        tasks: at most how many; a job that would exceed it is passed over, so one or two may lack.
        longest_s: jobs whose longest path takes longer are left out, which else is all there is
            to plan.
        mb_per_s: as above.
        rng: of jobs and sizes.

    Raises:
        DagError: the trace has no parents, or too few tasks.
    """
    before = trace.precedence
    if before is None:
        raise DagError(f"{trace.name} says nothing of parents; read it with AlibabaDag")
    rows = _drawn(before, trace.duration_s, tasks, longest_s, rng)
    if len(rows) < ENOUGH * tasks:
        raise DagError(
            f"{trace.name} has {len(rows)} tasks in DAGs of at most {longest_s:g} s; ask for fewer "
            f"than {tasks}"
        )
    names = {row: str(trace.job_id[row]) for row in rows}
    mean_mb = mb_per_s * trace.duration_s
    spread = log_normal(1.0, MB_SPREAD, len(before.parents), rng)
    edges = [
        (names[parent], names[row], float(mean_mb[parent] * spread[edge]))
        for row in rows
        for edge in range(before.first[row], before.first[row + 1])
        for parent in [int(before.parents[edge])]
    ]
    return task_graph(f"alibaba_{tasks}", list(names.values()), trace.duration_s[rows], edges)


def _drawn(
    before: Precedence, duration_s: FloatArray, tasks: int, longest_s: float,
    rng: np.random.Generator,
) -> list[int]:  # fmt: skip
    """Rows of whole jobs in random order, until they are `tasks`."""
    members = _members(before)
    rows: list[int] = []
    for job in rng.permutation(len(members)).tolist():
        mine = members[job]
        if len(mine) < LEAST or len(rows) + len(mine) > tasks:
            continue
        if _longest_s(before, duration_s, mine) <= longest_s:
            rows += mine
    return rows


def _members(before: Precedence) -> list[list[int]]:
    """Rows of each job."""
    order = np.argsort(before.workflow, kind="stable")
    ends: IntArray = np.flatnonzero(np.diff(before.workflow[order])) + 1
    return [part.tolist() for part in np.split(order, ends) if before.workflow[part[0]] >= 0]


def _longest_s(before: Precedence, duration_s: FloatArray, rows: list[int]) -> float:
    """The longest path of a job (which has no circles: the reader saw to that)."""
    ends: dict[int, float] = {}
    stack = list(rows)
    while stack:
        row = stack[-1]
        parents = before.parents[before.first[row] : before.first[row + 1]].tolist()
        missing = [parent for parent in parents if parent not in ends]
        if missing and row not in ends:
            stack += missing
            continue
        stack.pop()
        ends[row] = float(duration_s[row]) + max((ends[p] for p in parents), default=0.0)
    return max(ends.values(), default=0.0)


def side_by_side(graph: TaskGraph, count: int) -> TaskGraph:
    """`count` copies without edges between them, task `a #2` of copy 2; DagError if below 1."""
    if count < 1:
        raise DagError(f"{count} copies of {graph.name}; there must be at least 1")
    tasks = [f"{task} #{copy}" for copy in range(1, count + 1) for task in graph.tasks]
    edges: list[Edge] = []
    for task in range(len(graph)):
        for edge in range(graph.first_parent[task], graph.first_parent[task + 1]):
            ends = graph.tasks[graph.parent[edge]], graph.tasks[task]
            mb = float(graph.parent_mb[edge])
            edges += [(f"{ends[0]} #{n}", f"{ends[1]} #{n}", mb) for n in range(1, count + 1)]
    name = f"{graph.name} x{count}"
    return task_graph(name, tasks, list(graph.work_s) * count, edges, list(graph.need_gib) * count)


SHAPES = {"layered": layered_graph, "random": random_graph}
READERS = {"pipedream": pipedream_graph, "dnn_partitioning": dnn_partitioning_graph}
COLUMNS = {
    "task_name": "task", "job_name": "job", "inst_num": "n_instances",
    "arrival_s": "arrival_s", "duration_s": "duration_s",
}  # fmt: skip


class Family(Protocol):
    """A set of DAGs that are judged together."""

    def graph(self, which: str, rng: np.random.Generator) -> TaskGraph:
        """One DAG; `which` is a size or a file."""
        ...


class GeneratedFamily:
    """Layered or random DAGs; `which` is the number of tasks."""

    def __init__(self, *, shape: str, width: int, parents: float, mean_s: float, mb_per_s: float):
        """See `layered_graph`; a DagError for an unknown shape."""
        if shape not in SHAPES:
            raise DagError(f"shape {shape!r} is unknown; use one of {', '.join(SHAPES)}")
        self._make = partial(
            SHAPES[shape], width=width, parents=parents, mean_s=mean_s, mb_per_s=mb_per_s
        )

    def graph(self, which: str, rng: np.random.Generator) -> TaskGraph:
        """See `Family`."""
        return self._make(_size(which), rng=rng)


class AlibabaFamily:
    """Batches of Alibaba 2018 jobs; `which` is the number of tasks."""

    def __init__(self, *, path: str, longest_s: float, mb_per_s: float) -> None:
        """Read the file of tasks (columns arrival_s, job, task, duration_s, n_instances).

        Raises:
            TraceError: the file cannot be used.
        """
        reader = AlibabaDag(instances_per_gpu=32, most_gpus=1, header=None)
        trace, _ = reader.read(path=path, columns=COLUMNS, name="alibaba", strict=True)
        self._make = partial(alibaba_graph, trace, longest_s=longest_s, mb_per_s=mb_per_s)

    def graph(self, which: str, rng: np.random.Generator) -> TaskGraph:
        """See `Family`."""
        return self._make(tasks=_size(which), rng=rng)


class ModelFamily:
    """Micro-batches of a model graph from a file; `which` is the file's name in `folder`."""

    def __init__(self, *, reader: str, folder: str, copies: int) -> None:
        """Keep where the files are; a DagError for an unknown reader."""
        if reader not in READERS:
            raise DagError(f"reader {reader!r} is unknown; use one of {', '.join(READERS)}")
        self._read, self._folder, self._copies = READERS[reader], Path(folder), copies

    def graph(self, which: str, rng: np.random.Generator) -> TaskGraph:  # noqa: ARG002  (not drawn)
        """See `Family`."""
        return side_by_side(self._read(self._folder / which), self._copies)


def _size(which: str) -> int:
    if not which.isdigit():
        raise DagError(f"{which!r} is no number of tasks; this family's graphs are sizes like 300")
    return int(which)
