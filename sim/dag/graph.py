"""The tasks of a DAG and what they hand on, numbered so that parents come first."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.errors import GpuYardError


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
    name: str,
    tasks: Sequence[str],
    work_s: Sequence[float] | FloatArray,
    edges: Iterable[Edge],
    need_gib: Sequence[float] | FloatArray | None = None,
) -> TaskGraph:
    """Check a DAG and number it: parents first, otherwise as given.

    Args:
        name: of the DAG.
        tasks: (n,) names.
        work_s: (n,) seconds at speed 1.
        edges: parent, child and MB handed on; of two edges between the same tasks the MB add up.
        need_gib: (n,) memory; None: none.

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
    order = _parents_first(name, tasks, mb_of)
    number = np.empty(len(tasks), dtype=np.int64)
    number[order] = np.arange(len(tasks))
    ends = np.array(list(mb_of), dtype=np.int64).reshape(-1, 2)
    mb = np.array(list(mb_of.values()), dtype=np.float64)
    from_, to = number[ends[:, 0]], number[ends[:, 1]]
    first_parent, parent, parent_mb = _rows(len(tasks), to, from_, mb)
    first_child, child, child_mb = _rows(len(tasks), from_, to, mb)
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


def _parents_first(
    name: str, tasks: Sequence[str], mb_of: dict[tuple[int, int], float]
) -> list[int]:
    """Places in an order that keeps parents before children, the smallest place first."""
    children: list[list[int]] = [[] for _ in tasks]
    waits_for = [0] * len(tasks)
    for parent, child in mb_of:
        children[parent].append(child)
        waits_for[child] += 1
    ready = [place for place, count in enumerate(waits_for) if count == 0]
    heapify(ready)
    order = []
    while ready:
        task = heappop(ready)
        order.append(task)
        for child in children[task]:
            waits_for[child] -= 1
            if waits_for[child] == 0:
                heappush(ready, child)
    if len(order) < len(tasks):
        left = [tasks[place] for place, count in enumerate(waits_for) if count > 0]
        more = f" and {len(left) - MOST_NAMED} more" if len(left) > MOST_NAMED else ""
        raise DagError(
            f"{name}: tasks wait for each other in a circle; among or behind it are "
            f"{', '.join(map(repr, left[:MOST_NAMED]))}{more}; remove an edge"
        )
    return order


def _rows(
    count: int, row: IntArray, other: IntArray, mb: FloatArray
) -> tuple[IntArray, IntArray, FloatArray]:
    """Edges as compressed rows, the other ends ascending within a row."""
    order = np.lexsort((other, row))
    first = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(np.bincount(row, minlength=count), out=first[1:])
    return first, other[order], mb[order]
