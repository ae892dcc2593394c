"""PEFT."""

from sim.dag.list_scheduling import placed, ready_order
from sim.dag.plan import Plan
from sim.dag.problem import DagProblem
from sim.dag.ranks import optimistic_costs


def peft(problem: DagProblem) -> Plan:
    """As HEFT, with what still comes after a task in mind, if all goes well.

    Source: Arabnejad, Barbosa, "List scheduling algorithm for heterogeneous systems by an
    optimistic cost table" (IEEE TPDS 25:3, 2014).
    """
    table = optimistic_costs(problem.arrays, problem.mean_s_per_mb)
    order = ready_order(problem, table.mean(axis=1))
    return placed(problem, order, outlook=table)
