"""A-SRPT: the order of a virtual machine, head of line blocking, the delay rule."""

from dataclasses import replace

import numpy as np
import pytest

from sim.errors import GpuYardError
from sim.jobs import Fates
from sim.placers.by_room import FirstFit, Packed
from sim.schedulers.a_srpt import ASrpt
from sim.schedulers.orders import Spjf
from sim.sharing import NoSharing
from sim.topology.outages import Change
from sim.view import Signal
from tests.sim.worlds import Job, attempts, changes, cluster, gantt, parts, physics_of, play, world


def a_srpt(**given) -> ASrpt:
    plain = {"placer": FirstFit(), "efficiency": 1.0, "theta": None, "delta": 0.1, "tau": 1.0}
    plain["skip_blocked"] = False
    return ASrpt(**{**plain, **given})


def test_the_real_order_is_that_of_virtual_completion():
    # Two GPUs. Virtual work is duration x gang / 2: A 4, B 1, C 1.5.
    #           0 1 2   3.5      6.5
    # virtual   A B C     A              A has 3 left at 1 and gives way to B, then to C
    # real          BBBBCCC   AAAA       B joins at 2, C at 3.5, A at 6.5
    trace = [Job(0, 2, 4), Job(1, 1, 2), Job(1, 1, 3)]
    run = play(world(trace, cluster(1, 2)), a_srpt())
    assert gantt(run) == {"B": (2, 4, (0,)), "C": (3.5, 6.5, (1,)), "A": (6.5, 10.5, (0, 1))}


def test_a_part_of_a_gpu_is_that_part_of_the_virtual_work():
    # Two GPUs. Virtual work: A and B 10 x 0.5 / 2 each, C 10 / 2. Whole GPUs would double A and B.
    #           0   2.5   5         10
    # virtual   A   B     C
    # GPU 0         AAAAAAAAAAAAAAAA         B joins A at 5
    # GPU 1                         CCCC
    yard = world([Job(0, 1, 10)] * 3, cluster(1, 2), traits=parts(500, 500, 1000), max_tenants=2)
    run = play(yard, a_srpt())
    assert gantt(run) == {"A": (2.5, 12.5, (0,)), "B": (5, 15, (0,)), "C": (10, 20, (1,))}


def test_spjf_starts_at_once_and_orders_by_duration():
    trace = [Job(0, 2, 4), Job(1, 1, 2), Job(1, 1, 3)]
    rules = {"placer": FirstFit(), "sharing": NoSharing(), "skip_blocked": False}
    run = play(world(trace, cluster(1, 2)), Spjf(**rules))
    assert gantt(run) == {"A": (0, 4, (0, 1)), "B": (4, 6, (0,)), "C": (4, 7, (1,))}


def test_the_head_blocks_those_behind_it():
    # Two GPUs; virtual work A 2, B 2.5, C 3, so they join at 2, 4.5 and 7.5; A takes longer.
    #           0 2                      22   24.5  30.5
    # GPU 0       AAAAAAAAAAAAAAAAAAAAAAABBBBBCCCCCC  B is the head from 4.5 and needs both GPUs
    # GPU 1                              BBBBB        C waits behind it beside an idle GPU
    trace = [Job(0, 1, 20, estimate_s=4), Job(0, 2, 2.5), Job(0, 1, 6)]
    run = play(world(trace, cluster(1, 2)), a_srpt())
    assert gantt(run) == {"A": (2, 22, (0,)), "B": (22, 24.5, (0, 1)), "C": (24.5, 30.5, (0,))}


def test_with_skip_blocked_those_behind_may_start():
    # The same jobs.
    #           0 2    7.5      13.5       22   24.5
    # GPU 0       AAAAAAAAAAAAAAAAAAAAAAAAABBBBB
    # GPU 1            CCCCCCCCC             BBBBB
    trace = [Job(0, 1, 20, estimate_s=4), Job(0, 2, 2.5), Job(0, 1, 6)]
    run = play(world(trace, cluster(1, 2)), a_srpt(skip_blocked=True))
    assert gantt(run) == {"A": (2, 22, (0,)), "B": (22, 24.5, (0, 1)), "C": (7.5, 13.5, (1,))}


def test_a_job_of_no_work_passes_at_once():
    run = play(world([Job(0, 1, 4), Job(1, 1, 0)], cluster(1, 2)), a_srpt())
    assert gantt(run) == {"A": (2, 6, (0,)), "B": (1, 1, (0,))}


def test_predictions_decide_the_order_and_not_durations():
    # One GPU; A is thought to be the longer one.
    trace = [Job(0, 1, 1, estimate_s=6), Job(0, 1, 5, estimate_s=2)]
    run = play(world(trace, cluster(1, 1)), a_srpt())
    assert gantt(run) == {"B": (2, 7, (0,)), "A": (8, 9, (0,))}


# Two servers of two GPUs; a gang over both takes steps of 3 s, on one of 1 s. Virtual work: A 1, B
# and C 1.25, D 2, E 0.25, so they join at 1, 2.25, 3.5, 5.5 and 5.75.
#           1   2.25 3.5  5   5.5  5.75 6.75 7.25  8.5
# GPU 0     A   A    A    -   -    E    -    D           When D joins, GPUs 0 and 3 are free: apart,
# GPU 1     -   B    B    B   B    B    B    D           12 s instead of 4, so it may wait for 8 s.
# GPU 2     -   -    C    C   C    C    C    C     -     E passes. When B ends, D has GPUs 0 and 1.
# GPU 3     -   -    -    -   -    -    -    -     -
APART = [Job(0, 1, 4), Job(0, 1, 5), Job(0, 1, 5), Job(0, 2, 4), Job(5.5, 1, 1)]
OTHERS = {"A": (1, 5, (0,)), "B": (2.25, 7.25, (1,)), "C": (3.5, 8.5, (2,))}


def delayed(jobs: list[Job], **given):
    topology = cluster(2, 2)
    physics = physics_of(topology, server_s=[0.0, 0.0, 2.0])
    return gantt(play(world(jobs, topology, physics=physics), a_srpt(**given)))


def test_a_gang_waits_for_a_compact_place_and_lets_others_pass():
    found = delayed(APART, theta=1.5)
    assert found == {**OTHERS, "D": (7.25, 11.25, (0, 1)), "E": (5.75, 6.75, (0,))}


def test_without_the_rule_it_starts_apart_and_blocks():
    found = delayed(APART)
    assert found == {**OTHERS, "D": (5.5, 17.5, (0, 3)), "E": (7.25, 8.25, (1,))}


def test_patience_ends_with_what_the_wait_would_save():
    # A tenth of the 8 s that D would lose: it starts at 6.3 where it is.
    found = delayed(APART[:4], theta=1.5, tau=0.1)
    assert found == {**OTHERS, "D": (6.3, 18.3, (0, 3))}


def test_nobody_waits_for_a_type_that_it_refuses():
    # Virtual work is 10 x 2 / 4. A gang of the second type (bit 1) takes four times as long on the
    # best place that it can have, for which it does not wait.
    topology = cluster(2, 2, types=("x", "y"))
    physics = physics_of(topology, compute_s=(1.0, 4.0), server_s=[0.0, 0.0, 2.0])
    second = {"demands": replace(parts(1000)["demands"], type_mask=np.array([0b10]))}
    yard = world([Job(0, 2, 10)], topology, physics=physics, traits=second)
    assert gantt(play(yard, a_srpt(theta=1.5))) == {"A": (5, 45, (2, 3))}


def test_others_go_on_passing_once_its_place_is_taken():
    # F joins at 6, when E has taken GPU 0 and D fits nowhere.
    found = delayed([*APART, Job(5.75, 1, 1)], theta=1.5)
    assert found["F"] == (6, 7, (3,))
    assert found["D"] == (7.25, 11.25, (0, 1))


def test_it_blocks_once_its_patience_is_over():
    # F joins at 6.5, past 6.3: GPU 3 stays idle until D has a second one.
    found = delayed([*APART, Job(6.25, 1, 1)], theta=1.5, tau=0.1)
    assert found["E"] == (5.75, 6.75, (0,))
    assert found["D"] == (6.75, 18.75, (0, 3))
    assert found["F"] == (7.25, 8.25, (1,))


def test_a_gang_that_loses_little_does_not_wait():
    assert delayed(APART, theta=3.0)["D"] == (5.5, 17.5, (0, 3))  # spread anywhere costs 3 at most
    assert delayed(APART, theta=1.5, delta=2.0)["D"] == (5.5, 17.5, (0, 3))


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ({"efficiency": 0.0}, r"scheduler\.efficiency is 0\.0; it must be above 0, at most 1"),
        ({"theta": 0.9}, r"scheduler\.theta is 0\.9; it must be null, or 1 or more"),
        ({"delta": -0.1}, r"scheduler\.delta is -0\.1; it must be 0 or more"),
        ({"tau": float("nan")}, r"scheduler\.tau is nan; it must be 0 or more"),
    ],
)
def test_bad_values_are_refused(given, rule):
    with pytest.raises(GpuYardError, match=rule):
        a_srpt(**given)


def test_it_reads_profiles_only_to_delay():
    assert a_srpt().needs == Signal.PREDICTION
    judging = Signal.PREDICTION | Signal.PROFILE | Signal.INTERFERENCE
    assert a_srpt(theta=1.5, placer=Packed()).needs == judging
    assert a_srpt().name == "a_srpt+first_fit+nodelay"


def test_a_slower_virtual_machine_holds_jobs_longer():
    # Half as fast: A's 2 s of virtual work last 4, then B's 4.
    run = play(world([Job(0, 1, 4), Job(0, 1, 4)], cluster(1, 2)), a_srpt(efficiency=0.5))
    assert gantt(run) == {"A": (4, 8, (0,)), "B": (8, 12, (0,))}


def test_a_job_withdrawn_leaves_the_virtual_machine_and_another_run_starts_anew():
    # A (work 2) would be done at 2, but its user gives up at 1. B (work 3) begins there and gives
    # way to C (0.5) at 1.5: they are done at 2 and at 4.5.
    fates = Fates(np.zeros(3, dtype=np.int64), np.array([1.0, np.inf, np.inf]))
    scheduler = a_srpt()
    trace = [Job(0, 1, 4), Job(0, 1, 6), Job(1.5, 1, 1)]
    for _ in range(2):
        run = play(world(trace, cluster(1, 2), traits={"fates": fates}), scheduler)
        stays = attempts(run.log)
        assert stays["C"] == [(2, 3, (0,))]
        assert stays["B"] == [(4.5, 10.5, (0,))]


def test_who_is_evicted_keeps_the_place_in_the_order():
    # A runs from 2 on the only server, which fails at 3 and is back at 4. B has joined at 3.5; A is
    # before it, and does not pass the virtual machine again.
    topology = cluster(1, 2)
    outages = changes((3.0, 0, Change.FAIL), (4.0, 0, Change.OPEN))
    trace = [Job(0, 2, 2), Job(0, 2, 3)]
    run = play(world(trace, topology, outages=outages), a_srpt())
    stays = attempts(run.log)
    assert stays["A"] == [(2, 3, (0, 1)), (4, 6, (0, 1))]
    assert stays["B"] == [(6, 9, (0, 1))]
