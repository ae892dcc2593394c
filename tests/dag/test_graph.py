"""DAGs are checked and numbered; what cannot be is refused in words."""

import numpy as np
import pytest

from sim.dag.problem import DagError, GpuModel, dag_problem, drawn_machines, machines, task_graph


def test_parents_come_first_and_edges_are_the_same_from_both_ends():
    graph = task_graph("g", ["z", "y", "x"], [1.0, 2.0, 3.0], [("x", "z", 5.0), ("y", "z", 7.0)])
    assert graph.tasks == ("y", "x", "z")
    assert graph.work_s.tolist() == [2.0, 3.0, 1.0]
    assert graph.parent[graph.first_parent[2] :].tolist() == [0, 1]
    assert graph.parent_mb.tolist() == [7.0, 5.0]
    assert graph.child.tolist() == [2, 2] and graph.child_mb.tolist() == [7.0, 5.0]
    # Edges between the same tasks add up.
    graph = task_graph("g", ["a", "b"], [1.0, 1.0], [("a", "b", 2.0), ("a", "b", 3.0)])
    assert graph.parent_mb.tolist() == [5.0]


@pytest.mark.parametrize(
    ("tasks", "work", "edges", "told"),
    [
        ([], [], [], "no task"),
        (["a", "a"], [1.0, 1.0], [], "two tasks are called 'a'"),
        (["a", "b"], [1.0], [], "one a task|give one"),
        (["a", "b"], [1.0, -2.0], [], "'b' has work -2.0"),
        (["a", "b"], [1.0, float("nan")], [], "'b' has work nan"),
        (["a", "b"], [1.0, 1.0], [("a", "c", 0.0)], "task 'c', which is unknown"),
        (["a", "b"], [1.0, 1.0], [("a", "b", -1.0)], "carries -1.0 MB"),
        (["a", "b"], [1.0, 1.0], [("a", "b", 1.0), ("b", "a", 1.0)], "circle.*'a', 'b'"),
        (["a"], [1.0], [("a", "a", 1.0)], "circle"),
    ],
)
def test_what_is_no_dag_is_refused(tasks, work, edges, told):
    with pytest.raises(DagError, match=told):
        task_graph("g", tasks, work, edges)


def test_a_task_that_fits_no_gpu_and_impossible_machines_are_refused(slow_and_fast):
    graph = task_graph("g", ["a", "big"], [1.0, 1.0], [], [16.0, 41.0])
    with pytest.raises(DagError, match=r"'big' needs 41 GiB and fits no GPU.*has 40"):
        dag_problem(graph, slow_and_fast)
    one, far = np.ones(2), np.array([[0.0, 1.0], [2.0, 0.0]])
    with pytest.raises(DagError, match="equal both ways"):
        machines("m", one, one, far)
    with pytest.raises(DagError, match="speed"):
        machines("m", np.array([1.0, 0.0]), one, np.zeros((2, 2)))


def test_drawn_machines_have_servers_of_one_kind_and_rates_within_bounds():
    models = (GpuModel("a", 1.0, 16.0), GpuModel("b", 3.0, 80.0))
    found = drawn_machines(
        models, gpus=10, per_server=4, inside_gbps=80.0, between_gbps=8.0, least_share=0.5,
        rng=np.random.default_rng(0),
    )  # fmt: skip
    assert len(found) == 10
    assert all(len(set(found.speed[s : s + 4])) == 1 for s in (0, 4, 8))
    assert found.s_per_mb[0, 1] == pytest.approx(8 / 80_000)  # inside
    between = found.s_per_mb[0, 4:]
    assert (between >= 8 / 8_000).all() and (between <= 8 / 4_000).all()
    assert not np.diagonal(found.s_per_mb).any()
