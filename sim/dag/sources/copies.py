"""Several copies of one DAG side by side: micro-batches of a model, which wait for nothing."""

from sim.dag.errors import DagError
from sim.dag.graph import Edge, TaskGraph, task_graph


def side_by_side(graph: TaskGraph, count: int) -> TaskGraph:
    """`count` copies without edges between them; copy 2 of task `a` is `a #2`.

    Raises:
        DagError: a count below 1.
    """
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
