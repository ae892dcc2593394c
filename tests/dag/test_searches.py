"""Searches: one protocol, and the order in which they should come."""

import numpy as np
import pytest

from sim.dag.list_scheduling import heft
from sim.dag.plan import Plan, schedule
from sim.dag.problem import DagError
from sim.dag.rivals import GeneticSearch, LocalSearch, PolicyGradientSearch
from sim.dag.search import ListSchedule, Meter, RandomRankSearch, start_plans
from sim.dag.whales import (
    RtgsSearch,
    WhaleSearch,
    WorlRtgsSearch,
    draw_step,
    nearest_loads,
    target_of,
)  # fmt: skip
from tests.dag.plan_rules import check_plan, optimum_s, schedule_of

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


def test_plans_with_wide_memory_go_where_they_fit(drawn):
    problem = drawn(30, 4, 3)
    problem.graph.need_gib[:] = 20.0
    found = spent(problem, WorlRtgsSearch(), budget=40, seeded=False).best.plan
    assert isinstance(found, Plan)
    assert (problem.machines.memory_gib[found.gpu] >= 20.0).all()
