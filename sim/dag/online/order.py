"""Orders of tasks from hoped-for finishes of workflows and running times to go.

A task's place is the time at which it has to start for its workflow to finish as hoped: the finish
hoped for, less its running time to go. Within a workflow that is the order of HEFT's ranks.
"""

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.dag.online.tasks import PENDING, Tasks
from sim.errors import GpuYardError
from sim.jit import array_kernel

TOGETHER, SUBMITTED, SHORTEST, SHARED = "together", "submitted", "shortest", "shared"
RULES = (TOGETHER, SUBMITTED, SHORTEST, SHARED)


def check_rule(rule: str) -> None:
    """Refuse what is no rule.

    Raises:
        GpuYardError: naming those there are.
    """
    if rule not in RULES:
        raise GpuYardError(f"scheduler.workflows is {rule!r}; it must be one of {', '.join(RULES)}")


def service_gpu_s(tasks: Tasks, length_s: FloatArray, workflows: int) -> FloatArray:
    """(W,) GPU-seconds that each workflow still needs."""
    weights = length_s * tasks.gang
    return np.bincount(tasks.workflow, weights, workflows).astype(np.float64)


def hoped_finishes_s(
    rule: str, tasks: Tasks, length_s: FloatArray, to_go_s: FloatArray, gpus: int
) -> FloatArray:
    """(W,) finish hoped for of each workflow, from now; workflows in order of submission.

    - `together`: 0 for all, so that the longest time to go is first, as if all were one DAG: HEFT.
    - `submitted`, `shortest`: one workflow after the other, by submission, or by GPU-seconds that
      it still needs; nobody of a later one goes before any of an earlier one.
    - `shared`: in order of GPU-seconds; each when all the GPUs could have done it and those before
      it, and no earlier than its own running time to go.
    """
    workflows = int(tasks.workflow.max()) + 1
    if rule == TOGETHER:
        return np.zeros(workflows)
    apart = float(to_go_s.max()) + 1.0
    if rule == SUBMITTED:
        return apart * np.arange(1.0, workflows + 1.0)
    service = service_gpu_s(tasks, length_s, workflows)
    order = np.argsort(service, kind="stable")
    hope = np.empty(workflows)
    if rule == SHORTEST:
        hope[order] = apart * np.arange(1.0, workflows + 1.0)
        return hope
    hope[order] = np.cumsum(service[order]) / gpus
    longest = np.zeros(workflows)
    np.maximum.at(longest, tasks.workflow, to_go_s)
    return np.maximum(hope, longest)


@array_kernel
def order_of(tasks: Tasks, hope_s: FloatArray, to_go_s: FloatArray) -> IntArray:
    """Tasks that do not run, by the start that their workflow's hope asks for, parents first."""
    start = np.empty(len(to_go_s))
    for task in range(len(start) - 1, -1, -1):
        start[task] = hope_s[tasks.workflow[task]] - to_go_s[task]
        for edge in range(tasks.first_child[task], tasks.first_child[task + 1]):
            start[task] = min(start[task], start[tasks.child[edge]])
    # Of equals the smaller number, so that parents stay first.
    order: IntArray = np.argsort(start, kind="mergesort")
    waiting: IntArray = order[tasks.end_s[order] == PENDING]
    return waiting
