"""What plans come to: by hand, by plain Python and compiled."""

import numpy as np
import pytest

from sim.dag.list_scheduling import cpop, heft, peft
from sim.dag.plan import (
    Plan,
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
from sim.dag.search import random_start
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
