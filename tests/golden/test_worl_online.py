"""The planner online: order by workflows, GPUs by ends, gangs, and what a search finds."""

import numpy as np
import pytest

from sim.errors import GpuYardError, SignalError
from sim.jobs import Precedence
from sim.placers.by_room import FirstFit, Packed
from sim.schedulers.orders import Fifo, Sjf, Srsf
from sim.schedulers.worl_online import WorlOnline
from sim.sharing import NoSharing
from tests.sim.worlds import Job, cluster, gantt, physics_of, play, world

UNLIKE = cluster(2, 1, types=("fast", "slow"))  # GPU 1 takes twice as long


def worl(**given) -> WorlOnline:
    plain = {"workflows": "shortest", "plans": 0, "patience": 0.0, "holds": True,
             "makespan_weight": 0.0, "overrun_frac": 0.1, "most_tasks": 100}  # fmt: skip
    return WorlOnline(**{**plain, **given})


def waiting(*parents: tuple[int, ...], workflow: tuple[int, ...] | None = None) -> dict:
    """The trait of jobs that wait for these rows; all of one workflow unless told."""
    first = np.cumsum([0, *map(len, parents)])
    rows = np.array([row for each in parents for row in each], dtype=np.int64)
    number = np.array(workflow or [0] * len(parents), dtype=np.int64)
    return {"precedence": Precedence(first.astype(np.int64), rows, number)}


def on_unlike(jobs: list[Job], traits: dict, scheduler):
    physics = physics_of(UNLIKE, compute_s=(1.0, 2.0))
    return gantt(play(world(jobs, UNLIKE, physics=physics, traits=traits), scheduler))


# A diamond: B (2 s) and C (6 s) wait for A, D for both. Times on the fast GPU.
DIAMOND = [Job(0, 1, 2), Job(0, 1, 2), Job(0, 1, 6), Job(0, 1, 2)]
WAITS = waiting((), (0,), (0,), (1, 2))


def test_the_critical_task_of_a_diamond_gets_the_fast_gpu():
    #              0 2 4 6 8 10
    # GPU 0 fast   A-C-----D-        to go: A 10, C 8, B 4, D 2 (on the fast one)
    # GPU 1 slow     B---
    found = on_unlike(DIAMOND, WAITS, worl())
    assert found == {"A": (0, 2, (0,)), "B": (2, 6, (1,)), "C": (2, 8, (0,)), "D": (8, 10, (0,))}


@pytest.mark.parametrize("order", [Fifo, Sjf])
def test_orders_that_do_not_see_the_diamond_put_it_on_the_slow_one(order):
    #              0 2 4       14 16
    # GPU 0 fast   A-B-        D-
    # GPU 1 slow     C-----------
    rule = order(placer=FirstFit(), sharing=NoSharing(), skip_blocked=True)
    found = on_unlike(DIAMOND, WAITS, rule)
    assert found == {"A": (0, 2, (0,)), "B": (2, 4, (0,)), "C": (2, 14, (1,)), "D": (14, 16, (0,))}


def test_a_task_waits_for_the_gpu_on_which_it_ends_first():
    # B would end at 8 on the slow GPU at once, at 5 on the fast one from 1 on.
    jobs = [Job(0, 1, 1), Job(0, 1, 4)]
    assert on_unlike(jobs, {}, worl())["B"] == (1, 5, (0,))
    # Patience 4: a second of waiting counts 4, so 5 + 4 x 1 is worse than 8 at once.
    assert on_unlike(jobs, {}, worl(patience=4.0))["B"] == (0, 8, (1,))


# Two workflows on one GPU: A (1 s), then B (5 s); C (2 s), then D (2 s).
TWO = [Job(0, 1, 1), Job(0, 1, 5), Job(0, 1, 2), Job(0, 1, 2)]
TWO_WAIT = waiting((), (0,), (), (2,), workflow=(0, 0, 1, 1))


def test_the_workflow_with_least_to_go_is_served_first():
    #         0 2 4 5    10
    # GPU 0   C-D-AB----          workflows end at 4 and 10
    found = gantt(play(world(TWO, cluster(1, 1), traits=TWO_WAIT), worl()))
    assert found == {"C": (0, 2, (0,)), "D": (2, 4, (0,)), "A": (4, 5, (0,)), "B": (5, 10, (0,))}


@pytest.mark.parametrize("rule", ["together", "submitted"])
def test_heft_ranks_and_first_come_serve_the_long_one_first(rule):
    #         0 1    6 8 10
    # GPU 0   AB----C-D-          to go: A 6, B 5, C 4, D 2; workflows end at 6 and 10
    found = gantt(play(world(TWO, cluster(1, 1), traits=TWO_WAIT), worl(workflows=rule)))
    assert found == {"A": (0, 1, (0,)), "B": (1, 6, (0,)), "C": (6, 8, (0,)), "D": (8, 10, (0,))}


@pytest.mark.parametrize("order", [Sjf, Srsf])
def test_shortest_jobs_first_differs_for_it_sees_no_workflows(order):
    #         0 1 3 5    10
    # GPU 0   AC-D-B----          workflows end at 5 and 10
    more = {"skip_blocked": True} if order is Sjf else {}
    rule = order(placer=Packed(), sharing=NoSharing(), **more)
    found = gantt(play(world(TWO, cluster(1, 1), traits=TWO_WAIT), rule))
    assert found == {"A": (0, 1, (0,)), "B": (5, 10, (0,)), "C": (1, 3, (0,)), "D": (3, 5, (0,))}


def test_a_search_finds_the_better_order():
    # From the order of submission (ends 6 and 10) to that of the shortest (4 and 10).
    found = gantt(play(world(TWO, cluster(1, 1), traits=TWO_WAIT),
                       worl(workflows="submitted", plans=8)))  # fmt: skip
    assert found["D"][1] == 4 and found["B"][1] == 10


# A (1 GPU, 2 s), then B (2 GPUs, 2 s); C (1 GPU, 10 s) is a workflow of its own.
GANGS = [Job(0, 1, 2), Job(0, 2, 2), Job(0, 1, 10)]
GANGS_WAIT = waiting((), (0,), (), workflow=(0, 0, 1))


def test_a_blocked_gang_holds_gpus_for_when_its_parent_ends():
    #         0 2 4         14
    # GPU 0   A-B-C---------       C does not fit before B
    # GPU 1     B-
    found = gantt(play(world(GANGS, cluster(1, 2), traits=GANGS_WAIT), worl()))
    assert found == {"A": (0, 2, (0,)), "B": (2, 4, (0, 1)), "C": (4, 14, (0,))}


def test_without_holding_it_waits_for_those_that_came_between():
    #         0 2       10 12
    # GPU 0   A-        B-
    # GPU 1   C---------B-
    found = gantt(play(world(GANGS, cluster(1, 2), traits=GANGS_WAIT), worl(holds=False)))
    assert found == {"A": (0, 2, (0,)), "B": (10, 12, (0, 1)), "C": (0, 10, (1,))}


# Two servers of three GPUs: A and B (2 GPUs, 3 s) leave one GPU each, C (2 GPUs, 4 s) comes third.
APART = [Job(0, 2, 3), Job(0, 2, 3), Job(0, 2, 4)]


def on_two_servers(spread_s: float):
    topology = cluster(2, 3)
    physics = physics_of(topology, server_s=[0.0, 0.0, spread_s])
    return gantt(play(world(APART, topology, physics=physics), worl(workflows="submitted")))


def test_a_gang_waits_for_one_server_where_spreading_costs_more():
    # A step over both servers takes 3 s in place of 1: C would end at 12, and ends at 7 from 3 on.
    found = on_two_servers(2.0)
    assert found == {"A": (0, 3, (0, 1)), "B": (0, 3, (3, 4)), "C": (3, 7, (0, 1))}


def test_a_gang_spreads_where_that_ends_sooner():
    found = on_two_servers(0.5)  # 1.5 s a step
    assert found == {"A": (0, 3, (0, 1)), "B": (0, 3, (3, 4)), "C": (0, 6, (2, 5))}


def test_who_outruns_a_prediction_is_waited_for_again_and_again():
    # B waits for the fast GPU until 1, when A should end. From then on A is taken to have another
    # second: B would end at 2 + 4 there, at 1 + 8 on the slow one. It waits until A ends, at 4.
    jobs = [Job(0, 1, 4, estimate_s=1), Job(0, 1, 4)]
    assert on_unlike(jobs, {}, worl())["B"] == (4, 8, (0,))


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ({"workflows": "longest"}, r"scheduler\.workflows is 'longest'; it must be one of toget"),
        ({"plans": -1}, r"scheduler\.plans is -1; it must be 0 or more"),
        ({"patience": float("inf")}, r"scheduler\.patience is inf; it must be 0 or more"),
        ({"makespan_weight": -0.1}, r"scheduler\.makespan_weight is -0\.1; it must be 0 or more"),
        ({"overrun_frac": 0.0}, r"scheduler\.overrun_frac is 0\.0; it must be above 0"),
        ({"most_tasks": 0}, r"scheduler\.most_tasks is 0; it must be 1 or more"),
    ],
)
def test_bad_values_are_refused(given, rule):
    with pytest.raises(GpuYardError, match=rule):
        worl(**given)


def test_it_needs_predictions():
    jobs = [Job(0, 1, 4, estimate_s=float("nan"))]
    with pytest.raises(SignalError, match="no duration prediction; choose estimator="):
        play(world(jobs, cluster(1, 1)), worl())
