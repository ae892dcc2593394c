"""A DAG and the GPUs that it may run on: tasks, what they hand on, and both for compiled code."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.errors import GpuYardError
from sim.traces.trace import starts


class DagError(GpuYardError):
    """A DAG problem, a file of one, or a plan cannot be used; the message names task and fix."""


MOST_NAMED = 8  # tasks that an error names

Edge = tuple[str, str, float]  # parent, child, MB handed on


@dataclass(frozen=True)
class TaskGraph:
    """n tasks and E edges; the number of a task is above those of its parents."""

    name: str
    tasks: tuple[str, ...]  # (n,) distinct
    work_s: FloatArray  # (n,) at speed 1, at least 0
    need_gib: FloatArray  # (n,) memory while it runs
    first_parent: IntArray  # (n + 1,) where the parents of each task begin in `parent`
    parent: IntArray  # (E,)
    parent_mb: FloatArray  # (E,) handed from parent to task
    first_child: IntArray  # (n + 1,) the same edges from the other end
    child: IntArray  # (E,)
    child_mb: FloatArray  # (E,)

    def __len__(self) -> int:
        """How many tasks there are."""
        return len(self.tasks)


def task_graph(
    name: str, tasks: Sequence[str], work_s: Sequence[float] | FloatArray, edges: Iterable[Edge],
    need_gib: Sequence[float] | FloatArray | None = None,
) -> TaskGraph:  # fmt: skip
    """Check a DAG and number it: parents first, otherwise as given.

    Of n `tasks` `work_s` are seconds at speed 1, `need_gib` is memory (None: none). `edges` are
    parent, child and MB handed on; of two between the same tasks the MB add up.

    Raises:
        DagError: no tasks, two of one name, an edge to an unknown task or to itself, a circle, or
            a number that is negative or not finite.
    """
    place = _places(name, tasks)
    needs = np.zeros(len(tasks)) if need_gib is None else np.asarray(need_gib, dtype=np.float64)
    work = np.asarray(work_s, dtype=np.float64)
    _check_numbers(name, tasks, "work", work)
    _check_numbers(name, tasks, "memory", needs)
    mb_of = _edges(name, place, edges)
    ends = np.array(list(mb_of), dtype=np.int64).reshape(-1, 2)
    mb = np.array(list(mb_of.values()), dtype=np.float64)
    order = _parents_first(name, tasks, ends[:, 0], ends[:, 1])
    number = np.empty(len(tasks), dtype=np.int64)
    number[order] = np.arange(len(tasks))
    from_, to = number[ends[:, 0]], number[ends[:, 1]]
    first_parent, parent, parent_mb = edge_rows(len(tasks), to, from_, mb)
    first_child, child, child_mb = edge_rows(len(tasks), from_, to, mb)
    return TaskGraph(
        name, tuple(tasks[old] for old in order), work[order], needs[order],
        first_parent, parent, parent_mb, first_child, child, child_mb,
    )  # fmt: skip


def _places(name: str, tasks: Sequence[str]) -> dict[str, int]:
    if not tasks:
        raise DagError(f"{name}: there is no task; a DAG needs at least one")
    place = {task: number for number, task in enumerate(tasks)}
    if len(place) < len(tasks):
        twice = next(task for number, task in enumerate(tasks) if place[task] != number)
        raise DagError(f"{name}: two tasks are called {twice!r}; give each a name of its own")
    return place


def _check_numbers(name: str, tasks: Sequence[str], what: str, values: FloatArray) -> None:
    if values.shape != (len(tasks),):
        raise DagError(f"{name}: {len(tasks)} tasks but {values.shape} of {what}; give one a task")
    wrong = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
    if len(wrong):
        row = int(wrong[0])
        raise DagError(
            f"{name}: task {tasks[row]!r} has {what} {values[row]}; it must be finite and at "
            f"least 0"
        )


def _edges(name: str, place: dict[str, int], edges: Iterable[Edge]) -> dict[tuple[int, int], float]:
    """(parent, child) by place -> MB."""
    found: dict[tuple[int, int], float] = {}
    for parent, child, mb in edges:
        for end in (parent, child):
            if end not in place:
                raise DagError(
                    f"{name}: edge {parent!r} to {child!r} names task {end!r}, which is unknown; "
                    f"add the task or leave the edge out"
                )
        if not (np.isfinite(mb) and mb >= 0):
            raise DagError(
                f"{name}: edge {parent!r} to {child!r} carries {mb} MB; it must be finite and at "
                f"least 0"
            )
        key = (place[parent], place[child])
        found[key] = found.get(key, 0.0) + float(mb)
    return found


def ready_first(
    first_child: IntArray, child: IntArray, waits_for: list[int], urgent: list[float]
) -> list[int]:
    """Tasks after their parents, always the one of least `urgent`, then number, that is ready.

    `waits_for` is how many parents each has, and at the end has still: above 0 of tasks that wait
    for each other in a circle, or for one, which are left out.
    """
    ready = [(urgent[task], task) for task, count in enumerate(waits_for) if count == 0]
    heapify(ready)
    order = []
    while ready:
        task = heappop(ready)[1]
        order.append(task)
        for each in child[first_child[task] : first_child[task + 1]].tolist():
            waits_for[each] -= 1
            if waits_for[each] == 0:
                heappush(ready, (urgent[each], each))
    return order


def _parents_first(name: str, tasks: Sequence[str], from_: IntArray, to: IntArray) -> list[int]:
    """Places in an order that keeps parents before children, the smallest place first."""
    count = len(tasks)
    waits_for = np.bincount(to, minlength=count).tolist()
    first_child, child, _ = edge_rows(count, from_, to, np.zeros(len(to)))
    order = ready_first(first_child, child, waits_for, [0.0] * count)
    if len(order) < count:
        left = [tasks[place] for place, waits in enumerate(waits_for) if waits > 0]
        more = f" and {len(left) - MOST_NAMED} more" if len(left) > MOST_NAMED else ""
        raise DagError(
            f"{name}: tasks wait for each other in a circle; among or behind it are "
            f"{', '.join(map(repr, left[:MOST_NAMED]))}{more}; remove an edge"
        )
    return order


def edge_rows(
    count: int, row: IntArray, other: IntArray, mb: FloatArray
) -> tuple[IntArray, IntArray, FloatArray]:
    """Edges as compressed rows, the other ends ascending within a row."""
    order = np.lexsort((other, row))
    return starts(np.bincount(row, minlength=count)), other[order], mb[order]


BITS_PER_BYTE = 8.0


@dataclass(frozen=True)
class Machines:
    """g GPUs; a transfer between two takes `s_per_mb` times its MB, and nothing on one GPU.

    Transfers do not slow each other, and a GPU computes while it sends: the model of HEFT and of
    the published WORL-RTGS figures, where the network is one capacity, "busy" or "idle".
    """

    name: str
    speed: FloatArray  # (g,) above 0; 1 is the speed that works are given for
    memory_gib: FloatArray  # (g,)
    s_per_mb: FloatArray  # (g, g) at least 0, symmetric, 0 on the diagonal

    def __len__(self) -> int:
        """How many GPUs there are."""
        return len(self.speed)


def machines(
    name: str, speed: FloatArray, memory_gib: FloatArray, s_per_mb: FloatArray
) -> Machines:
    """Check the numbers; DagError: no GPU, shapes that differ, or a number out of range."""
    count = len(speed)
    if not count:
        raise DagError(f"{name}: there is no GPU")
    if memory_gib.shape != (count,) or s_per_mb.shape != (count, count):
        raise DagError(
            f"{name}: {count} speeds, memory of shape {memory_gib.shape} and transfers of shape "
            f"{s_per_mb.shape}; they must be (g,), (g,) and (g, g)"
        )
    if not (np.isfinite(speed).all() and (speed > 0).all()):
        raise DagError(f"{name}: a speed is {speed.min()}; speeds must be finite and above 0")
    if not (np.isfinite(s_per_mb).all() and (s_per_mb >= 0).all()):
        raise DagError(f"{name}: a transfer time is negative or not finite")
    if np.diagonal(s_per_mb).any() or not (s_per_mb == s_per_mb.T).all():
        raise DagError(f"{name}: transfers must take no time within a GPU, and equal both ways")
    return Machines(name, speed, memory_gib, s_per_mb)


@dataclass(frozen=True)
class GpuModel:
    """One model of GPU."""

    name: str
    speed: float  # over that of a V100
    memory_gib: float


def drawn_machines(
    models: tuple[GpuModel, ...],  # to draw from, each equally likely
    *,
    gpus: int,  # how many; the last server may have fewer than the others
    per_server: int,  # GPUs of a server, which reach each other at `inside_gbps`
    inside_gbps: float,  # within a server
    # The highest rate between two servers ("500" busy, "2000" idle as published, in Mb/s).
    between_gbps: float,
    least_share: float,  # the lowest, as a share of that; rates are uniform between the two
    rng: np.random.Generator,  # of models and rates
) -> Machines:
    """Servers of one random model each, part of each link free; DagError: a number out of range."""
    if gpus < 1 or per_server < 1 or not models:
        raise DagError(
            f"{gpus} GPUs of {len(models)} models, {per_server} a server: must be above 0"
        )
    if not (inside_gbps > 0 and between_gbps > 0 and 0 < least_share <= 1):
        raise DagError(
            f"rates are {inside_gbps} and {between_gbps} Gb/s with a least share of {least_share}; "
            f"rates must be above 0, the share above 0 and at most 1"
        )
    server: IntArray = np.arange(gpus) // per_server
    count = int(server[-1]) + 1
    model = rng.integers(len(models), size=count)[server]
    share = rng.uniform(least_share, 1.0, size=(count, count))
    share = np.triu(share) + np.triu(share, 1).T
    gbps = (between_gbps * share)[np.ix_(server, server)]
    gbps[server[:, None] == server[None, :]] = inside_gbps
    s_per_mb = BITS_PER_BYTE / (1000.0 * gbps)
    np.fill_diagonal(s_per_mb, 0.0)
    return machines(
        f"{gpus} GPUs",
        np.array([models[k].speed for k in model]),
        np.array([models[k].memory_gib for k in model]),
        s_per_mb,
    )


class DagArrays(NamedTuple):
    """The arrays of a problem with n tasks, E edges and g GPUs; see `TaskGraph`, `Machines`."""

    work: FloatArray  # (n,)
    first_parent: IntArray  # (n + 1,)
    parent: IntArray  # (E,)
    parent_mb: FloatArray  # (E,)
    first_child: IntArray  # (n + 1,)
    child: IntArray  # (E,)
    child_mb: FloatArray  # (E,)
    speed: FloatArray  # (g,)
    s_per_mb: FloatArray  # (g, g)
    need: FloatArray  # (n,)
    memory: FloatArray  # (g,)


@dataclass(frozen=True)
class DagProblem:
    """Which GPU runs each task, and when, so that the last one ends as early as can be?

    A task runs on one GPU without a break, on `speed` it takes `work / speed`, a GPU runs one task
    at a time, and a task starts once everything from its parents has arrived.
    """

    graph: TaskGraph
    machines: Machines

    @property
    def name(self) -> str:
        """Of the DAG."""
        return self.graph.name

    @property
    def num_tasks(self) -> int:
        """How many tasks there are."""
        return len(self.graph)

    @property
    def num_gpus(self) -> int:
        """How many GPUs there are."""
        return len(self.machines)

    @cached_property
    def arrays(self) -> DagArrays:
        """What compiled functions take."""
        graph, gpus = self.graph, self.machines
        return DagArrays(
            graph.work_s, graph.first_parent, graph.parent, graph.parent_mb,
            graph.first_child, graph.child, graph.child_mb,
            gpus.speed, gpus.s_per_mb, graph.need_gib, gpus.memory_gib,
        )  # fmt: skip

    @cached_property
    def mean_s_per_mb(self) -> float:
        """Over pairs of two GPUs; 0 with one GPU."""
        count = self.num_gpus
        pairs = count * (count - 1)
        return float(self.machines.s_per_mb.sum() / pairs) if pairs else 0.0

    @cached_property
    def mean_s_per_work(self) -> float:
        """Mean over GPUs of 1 / speed."""
        return float(np.mean(1.0 / self.machines.speed))


def dag_problem(graph: TaskGraph, gpus: Machines) -> DagProblem:
    """Put a DAG on machines; DagError: a task fits no GPU."""
    most_gib = float(gpus.memory_gib.max())
    too_big = np.flatnonzero(graph.need_gib > most_gib)
    if len(too_big):
        row = int(too_big[0])
        raise DagError(
            f"{graph.name}: task {graph.tasks[row]!r} needs {graph.need_gib[row]:g} GiB and fits "
            f"no GPU: the largest of {gpus.name} has {most_gib:g}; split the task or add a GPU"
        )
    return DagProblem(graph, gpus)
