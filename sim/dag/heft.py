"""HEFT."""

from sim.dag.list_scheduling import placed, ready_order
from sim.dag.plan import Plan
from sim.dag.problem import DagProblem
from sim.dag.ranks import upward_rank_s


def heft(problem: DagProblem) -> Plan:
    """Tasks by upward rank, each where it ends first, gaps included.

    Source: Topcuoglu, Hariri, Wu, "Performance-effective and low-complexity task scheduling for
    heterogeneous computing" (IEEE TPDS 13:3, 2002).
    """
    return placed(problem, ready_order(problem, upward_rank_s(problem)))
