"""DAGs are checked; what plans come to: by hand, in plain Python, compiled; searches."""

import numpy as np
import pytest

from sim.dag.list_scheduling import cpop, heft, new_lanes, peft, place_all
from sim.dag.plan import (
    Plan,
    Schedule,
    gap_correlation,
    lower_bound_s,
    mirrored,
    optimistic_costs,
    order_of,
    plan_of_schedule,
    running_times_s,
    schedule,
    slack_s,
    time_to_go,
    upward_rank_s,
)  # fmt: skip
from sim.dag.problem import DagError, GpuModel, dag_problem, drawn_machines, machines, task_graph
from sim.dag.rivals import GeneticSearch, LocalSearch, PolicyGradientSearch
from sim.dag.search import ListSchedule, Meter, RandomRankSearch, random_start, start_plans
from sim.dag.whales import (
    RtgsSearch,
    WhaleSearch,
    WorlRtgsSearch,
    draw_step,
    nearest_loads,
    target_of,
)  # fmt: skip
from tests.dag.plan_rules import check_plan, optimum_s, schedule_of

# The diamond's tasks keep their numbers: a 0, b 1, c 2, d 3, e 4.


def test_a_plan_by_hand(diamond_problem):
    """c on the slow GPU, the others on the fast one, in order of numbers.

             0    2 3      5         11      13 15
    GPU 1    a a  b . . . .  . . . . . . . . d d e      a ends 2, b 3; c's 2 MB are there at 13
    GPU 0    . .  . . .   c c c c c c c              a's 3 MB are there at 5
    """
    plan = Plan(np.array([1, 1, 0, 1, 1]), np.arange(5))
    for found in (schedule_of(diamond_problem, plan), schedule(diamond_problem, plan)):
        assert found.start_s.tolist() == [0.0, 2.0, 5.0, 13.0, 15.0]
        assert found.finish_s.tolist() == [2.0, 3.0, 11.0, 15.0, 15.5]
    early = Plan(plan.gpu, np.array([0, 1, 4, 2, 3]))  # e before d
    assert schedule_of(diamond_problem, early).finish_s[[3, 4]].tolist() == [15.0, 3.5]


def test_heft_by_hand(diamond_problem):
    """Ranks a 15.5, c 9.5, b 5, d 3, e 0.75.

             0    2  3     5 5.5   7.5
    GPU 1    a a  c  c c c   d d d
    GPU 0    e e? .  b b b .               e fills the gap before b, from 0 to 1
    """
    assert upward_rank_s(diamond_problem).tolist() == [15.5, 5.0, 9.5, 3.0, 0.75]
    plan = heft(diamond_problem)
    check_plan(diamond_problem, plan)
    found = schedule_of(diamond_problem, plan)
    assert plan.gpu.tolist() == [1, 0, 1, 1, 0]
    assert found.start_s.tolist() == [0.0, 3.0, 2.0, 5.5, 0.0]
    assert found.makespan_s == 7.5


def test_a_task_without_work_runs_before_one_that_starts_when_it_is_ready(slow_and_fast):
    """Ranks a 9, b 9, c 2.25, d 1.5: a is on GPU 1 until 6, b on GPU 0 until 12, c before both."""
    edges = [("c", "d", 0.75)]
    graph = task_graph("zero", ["a", "b", "c", "d"], [12.0, 12.0, 0.0, 2.0], edges)
    problem = dag_problem(graph, slow_and_fast)
    assert upward_rank_s(problem).tolist() == [9.0, 9.0, 2.25, 1.5]
    found = schedule_of(problem, heft(problem))
    assert found.start_s.tolist() == [0.0, 0.0, 0.0, 6.0]


def test_pefts_table_by_hand_and_cpops_critical_path_on_one_gpu(diamond_problem):
    table = optimistic_costs(diamond_problem.arrays, diamond_problem.mean_s_per_mb)
    assert table.tolist() == [[8.0, 5.0], [2.5, 2.0], [4.0, 2.0], [0.0, 0.0], [0.0, 0.0]]
    assert cpop(diamond_problem).gpu[[0, 2, 3]].tolist() == [1, 1, 1]


@pytest.mark.parametrize("seed", range(6))
def test_compiled_and_plain_agree_to_the_last_bit(drawn, seed):
    problem = drawn(60, 5, seed)
    rng = np.random.default_rng(seed)
    plans = [random_start(problem, rng).plan for _ in range(4)]
    plans += [heft(problem), cpop(problem), peft(problem)]
    plain = [schedule_of(problem, plan) for plan in plans]
    for plan, found in zip(plans, plain, strict=True):
        compiled = schedule(problem, plan)
        assert compiled.start_s.tolist() == found.start_s.tolist()
        assert compiled.finish_s.tolist() == found.finish_s.tolist()
    again = schedule(problem, plan_of_schedule(heft(problem).gpu, schedule(problem, heft(problem))))
    assert (again.finish_s <= schedule(problem, heft(problem)).finish_s).all()


@pytest.mark.parametrize("seed", range(4))
def test_no_plan_beats_the_optimum_nor_the_optimum_the_bound(drawn, seed):
    problem = drawn(5, 2, seed)
    best_s = optimum_s(problem)
    assert lower_bound_s(problem) <= best_s * (1 + 1e-12)
    for make in (heft, cpop, peft):
        plan = make(problem)
        check_plan(problem, plan)
        assert schedule_of(problem, plan).makespan_s >= best_s * (1 - 1e-12)


def test_the_list_schedulers_are_different(drawn):
    ends = [[schedule(p, f(p)).makespan_s for f in (heft, cpop, peft)]
            for p in (drawn(80, 6, seed) for seed in range(4))]  # fmt: skip
    assert all(len(set(each)) == 3 for each in ends)


def test_memory_is_kept(drawn):
    problem = drawn(40, 4, 1)
    problem.graph.need_gib[::2] = 20.0  # fits the fast kind only
    if problem.machines.memory_gib.max() < 20:
        pytest.fail("the seed must draw a GPU of 40 GiB")
    for make in (heft, cpop, peft):
        check_plan(problem, make(problem))
    check_plan(problem, random_start(problem, np.random.default_rng(0)).plan)


def test_running_times_by_hand(diamond_problem):
    """Loads: GPU 0 has c, 6 s; GPU 1 has a, b, d and e, 5.5 s."""
    one = Plan(np.array([1, 1, 0, 1, 1]), np.arange(5))
    assert running_times_s(diamond_problem, one.gpu).tolist() == [5.5, 5.5, 6.0, 5.5, 5.5]


def test_distance_and_gap_go_together_where_load_is_all_that_counts(drawn):
    problem = drawn(40, 4, 2, mb_per_s=0.0)
    rng = np.random.default_rng(0)
    plans = [random_start(problem, rng).plan for _ in range(30)]
    plans += [Plan(np.zeros(40, dtype=np.int64), np.arange(40))] * 3  # far off, and far worse
    assert 0.3 < gap_correlation(problem, plans) <= 1.0
    assert np.isnan(gap_correlation(problem, plans[-2:]))


def test_time_to_go_and_slack_by_hand(diamond_problem):
    dag, plan = diamond_problem.arrays, heft(diamond_problem)
    found = schedule(diamond_problem, plan)
    # b 2 + 0.5 + d 2, and a 2 + 1 before that: the way over c, on one GPU, takes 7
    assert time_to_go(dag, plan.gpu).tolist() == [7.5, 4.5, 5.0, 2.0, 1.0]
    slack = slack_s(dag, plan.gpu, plan.order, found.start_s, found.finish_s)
    assert slack.tolist() == [0.0, 0.0, 0.5, 0.0, 2.0]  # b's 0.5 MB hold d back; e could wait


def test_a_child_makes_its_parent_urgent(diamond_problem):
    to_go = np.array([0.0, 1.0, 2.0, 9.0, 5.0])
    assert order_of(diamond_problem.arrays, to_go).tolist() == [0, 1, 2, 3, 4]


def test_the_mirror_of_the_mirror_is_the_dag(drawn):
    dag = drawn(30, 3, 5).arrays
    again = mirrored(mirrored(dag))
    assert all(np.array_equal(a, b) for a, b in zip(dag, again, strict=True))
    assert not np.array_equal(mirrored(dag).parent, dag.parent)


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


SEARCHES = (
    WorlRtgsSearch, RtgsSearch, WhaleSearch, GeneticSearch, LocalSearch, RandomRankSearch,
    PolicyGradientSearch,
)  # fmt: skip


def spent(problem, search, *, budget, seeded, seed=0) -> Meter:
    meter = Meter(problem, budget)
    rng = np.random.default_rng(seed)
    search.search(start_plans(problem, 10, seeded=seeded, rng=rng), meter, rng)
    return meter


@pytest.mark.parametrize("search", SEARCHES, ids=lambda kind: kind.name)
def test_all_keep_to_the_protocol(drawn, search):
    problem = drawn(40, 4, 3)
    problem.graph.need_gib[5] = 20.0  # fits the fast kind only
    meter = spent(problem, search(), budget=63, seeded=True)
    assert meter.left == 0 and len(meter.history_s) == 63
    assert (np.diff(meter.history_s) <= 0).all()
    check_plan(problem, meter.best.plan)
    assert schedule_of(problem, meter.best.plan).makespan_s == meter.history_s[-1]
    assert meter.history_s[-1] <= schedule(problem, heft(problem)).makespan_s
    again = spent(problem, search(), budget=63, seeded=True)
    assert again.history_s.tolist() == meter.history_s.tolist()
    other = spent(problem, search(), budget=63, seeded=False)
    check_plan(problem, other.best.plan)
    assert other.history_s[0] != meter.history_s[0]
    assert spent(drawn(12, 2, 0), search(), budget=1, seeded=True).left == 0


def test_a_meter_refuses_what_it_has_not_and_judges_nothing_more_when_spent(diamond_problem):
    with pytest.raises(DagError, match="budget of 0"):
        Meter(None, 0)
    with pytest.raises(DagError, match="no plan was judged"):
        _ = Meter(None, 1).best
    with pytest.raises(DagError, match="'hefty' is unknown; use one of heft, cpop, peft"):
        ListSchedule(scheduler="hefty")
    meter = Meter(diamond_problem, 1)
    meter.judge(heft(diamond_problem))
    with pytest.raises(DagError, match="all 1 plans are spent"):
        meter.judge(heft(diamond_problem))


@pytest.mark.parametrize("seed", range(4))
def test_worl_rtgs_finds_the_optimum_of_tiny_problems(drawn, seed):
    problem = drawn(5, 2, seed)
    found = spent(problem, WorlRtgsSearch(), budget=300, seeded=False)
    assert found.best.makespan_s == pytest.approx(optimum_s(problem), rel=1e-9)


def test_worl_rtgs_saves_more_than_its_rivals_on_the_mean(drawn):
    problems = [drawn(120, 8, seed) for seed in range(4)]
    for seeded in (True, False):
        mean = {
            kind.name: np.mean([
                spent(problem, kind(), budget=200, seeded=seeded).best.makespan_s
                / schedule(problem, heft(problem)).makespan_s
                for problem in problems
            ])
            for kind in SEARCHES
        }  # fmt: skip
        assert min(mean, key=mean.get) == "worl_rtgs"
        assert mean["worl_rtgs"] < 1.0  # of HEFT's, from random plans too


def test_the_published_generator_by_hand(diamond_problem):
    """Loads after a task nearest to the hope: a 2 on GPU 1 (4 on 0), b 3 on GPU 1 (2 on 0) ..."""
    gpu = np.empty(5, dtype=np.int64)
    nearest_loads(diamond_problem.arrays, np.array([2.0, 3.0, 6.0, 9.0, 0.0]), np.zeros(2), gpu)
    # c: 6 on both, the first; d: 10 on GPU 0, 5 on GPU 1; e: 11 on GPU 0, 3.5 on GPU 1
    assert gpu.tolist() == [1, 1, 0, 0, 1]


def test_whales_go_to_the_leader_in_the_end():
    rng = np.random.default_rng(0)
    late = [draw_step(0.9, rng) for _ in range(200)]
    assert all(step.to_leader for step in late)
    early = [draw_step(0.0, rng) for _ in range(400)]
    assert 0.4 < np.mean([step.to_leader for step in early]) < 0.6
    assert {target_of(step, 2, 0, 4, rng) for step in early if not step.to_leader} == {0, 1, 3}


def test_whales_have_every_plan_from_the_generator_they_were_given(drawn):
    def on_the_first(dag, to_go_s, hope_s, gpu, *, leaves, outlook):  # noqa: ARG001
        lanes = new_lanes(len(gpu), len(dag.speed))
        flat = np.zeros((1, len(dag.speed)))
        place_all(dag, order_of(dag, to_go_s), np.zeros_like(gpu), flat, lanes)
        return lanes.gpu, Schedule(lanes.start, lanes.finish)

    class OnTheFirst(WorlRtgsSearch):
        generator, wide = staticmethod(on_the_first), 0.0

    class Keeping(Meter):
        def judge(self, plan):
            used.append(set(plan.gpu.tolist()))
            return super().judge(plan)

    used, rng = [], np.random.default_rng(0)
    problem = drawn(20, 4, 0)
    plans = start_plans(problem, 5, seeded=False, rng=rng)
    OnTheFirst().search(plans, Keeping(problem, 200), rng)
    assert used[5:] == [{0}] * 195


def test_plans_with_wide_memory_go_where_they_fit(drawn):
    problem = drawn(30, 4, 3)
    problem.graph.need_gib[:] = 20.0
    found = spent(problem, WorlRtgsSearch(), budget=40, seeded=False).best.plan
    assert isinstance(found, Plan)
    assert (problem.machines.memory_gib[found.gpu] >= 20.0).all()
