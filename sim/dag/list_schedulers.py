"""HEFT.

CPOP.

PEFT.
"""

import numpy as np

from sim.arrays import IntArray
from sim.dag.list_scheduling import FREE, placed, ready_order
from sim.dag.plan import Plan
from sim.dag.problem import DagProblem
from sim.dag.ranks import downward_rank_s, optimistic_costs, upward_rank_s


def heft(problem: DagProblem) -> Plan:
    """Tasks by upward rank, each where it ends first, gaps included.

    Source: Topcuoglu, Hariri, Wu, "Performance-effective and low-complexity task scheduling for
    heterogeneous computing" (IEEE TPDS 13:3, 2002).
    """
    return placed(problem, ready_order(problem, upward_rank_s(problem)))


SAME = 1e-9  # relative: ranks along one path differ by rounding only


def cpop(problem: DagProblem) -> Plan:
    """The critical path on the one GPU that ends it first, other tasks where they end first.

    Priority is upward plus downward rank. A critical task that does not fit the GPU of the path
    is treated as any other.

    Source: Topcuoglu, Hariri, Wu (IEEE TPDS 13:3, 2002).
    """
    upward, downward = upward_rank_s(problem), downward_rank_s(problem)
    path = critical_path(problem, upward + downward)
    graph, gpus = problem.graph, problem.machines
    fits = graph.need_gib[path][:, None] <= gpus.room_gib[None, :]  # (path, g)
    misfits = (~fits).sum(axis=0)
    best = np.lexsort((-gpus.speed, misfits))[0]
    pinned = np.full(problem.num_tasks, FREE)
    pinned[path[fits[:, best]]] = best
    return placed(problem, ready_order(problem, upward + downward), pinned=pinned)


def critical_path(problem: DagProblem, rank_s: np.ndarray) -> IntArray:
    """Tasks of one longest path, from its beginning; of equals the smallest number."""
    graph = problem.graph
    begins = np.flatnonzero(np.diff(graph.first_parent) == 0)
    task = int(begins[np.argmax(rank_s[begins])])
    path = [task]
    while graph.first_child[task] < graph.first_child[task + 1]:
        children = graph.child[graph.first_child[task] : graph.first_child[task + 1]]
        longest = rank_s[children] >= rank_s[path[0]] * (1 - SAME)
        if not longest.any():
            break
        task = int(children[np.argmax(longest)])
        path.append(task)
    return np.array(path, dtype=np.int64)


def peft(problem: DagProblem) -> Plan:
    """As HEFT, with what still comes after a task in mind, if all goes well.

    Source: Arabnejad, Barbosa, "List scheduling algorithm for heterogeneous systems by an
    optimistic cost table" (IEEE TPDS 25:3, 2014).
    """
    table = optimistic_costs(problem.arrays, problem.mean_s_per_mb)
    order = ready_order(problem, table.mean(axis=1))
    return placed(problem, order, outlook=table)
