"""Gandiva: turns, packing on trial, migration, servers by size of gang."""

import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.errors import GpuYardError, SimulationError
from sim.placers.by_room import FirstFit
from sim.schedulers.gandiva import Gandiva
from sim.schedulers.orders import Fifo
from sim.sharing import FallbackSharing, NoSharing
from sim.simulator import Simulator, simulate
from tests.oracle.cases import Case, cases
from tests.sim.ledger import Ledger
from tests.sim.worlds import Job, attempts, cluster, gantt, physics_of, play, world

KNOBS = {
    "slice_s": 2.0,
    "packing": False,
    "least_speed": 1.2,
    "trial_s": 1.0,
    "migrate_every_s": None,
}


def gandiva(**knobs) -> Gandiva:
    return Gandiva(**{**KNOBS, **knobs})


def fifo(sharing) -> Fifo:
    return Fifo(placer=FirstFit(), sharing=sharing, skip_blocked=True)


def test_two_jobs_take_turns():
    # B comes at 1: no turn is under way, A gives way at once. From then on turns of 2 s.
    #         01 3 56      13
    # GPU 0   ABBAABAAAAAAA
    trace = [Job(0, 1, 10), Job(1, 1, 3)]
    run = play(world(trace, cluster(1, 1)), gandiva())
    assert attempts(run.log) == {
        "A": [(0, 1, (0,)), (3, 5, (0,)), (6, 13, (0,))],
        "B": [(1, 3, (0,)), (5, 6, (0,))],
    }
    # FIFO:   AAAAAAAAAABBB
    run = play(world(trace, cluster(1, 1)), fifo(NoSharing()))
    assert gantt(run) == {"A": (0, 10, (0,)), "B": (10, 13, (0,))}


def test_a_turn_is_work_restarts_come_on_top():
    # Restarts of 3 s, turns of 2 s. At 1 B starts for the first time, at once: its turn ends at 3.
    # A is back at 3, works from 6 and gives way at 8. B works 11-12 and is done.
    #         01 3  6 8  12 15     22
    # GPU 0   ABB...AA...B...AAAAAAA
    run = play(world([Job(0, 1, 10), Job(1, 1, 3)], cluster(1, 1), restart_s=3.0), gandiva())
    assert attempts(run.log) == {
        "A": [(0, 1, (0,)), (3, 8, (0,)), (12, 22, (0,))],
        "B": [(1, 3, (0,)), (8, 12, (0,))],
    }


def test_a_server_is_cleared_for_a_gang_and_turns_pass_within_a_size():
    # A and B fill server 0, which is claimed for single GPUs; C opens server 1. D, two GPUs, comes
    # at 1: server 1 has one empty GPU, so C gives way. At 3 it is C's turn: A, on its GPU as long
    # as B, is the first row. D's end frees server 1 for A.
    #         01 3 5    10 12
    # GPU 0   AAACCCCCCCCC
    # GPU 1   BBBBBBBBBB
    # GPU 2   CDDDDAAAAAAA
    # GPU 3    DDDD
    jobs = [Job(0, 1, 10), Job(0, 1, 10), Job(0, 1, 10), Job(1, 2, 4)]
    run = play(world(jobs, cluster(2, 2)), gandiva())
    assert attempts(run.log) == {
        "A": [(0, 3, (0,)), (5, 12, (2,))],
        "B": [(0, 10, (1,))],
        "C": [(0, 1, (2,)), (3, 12, (0,))],
        "D": [(1, 5, (2, 3))],
    }


def test_a_gang_larger_than_a_server_has_as_many_leave_as_it_needs():
    # A, B and C are alone on their servers of 2; at 1 D wants 4 GPUs: A leaves, 3 are empty...
    # B leaves, and D takes servers 0 and 1. C, last to give way, is not disturbed.
    jobs = [Job(0, 2, 3), Job(0, 2, 3), Job(0, 2, 3), Job(1, 4, 2)]
    run = play(world(jobs, cluster(3, 2)), gandiva())
    assert attempts(run.log) == {
        "A": [(0, 1, (0, 1)), (3, 5, (0, 1))],
        "B": [(0, 1, (2, 3)), (3, 5, (2, 3))],
        "C": [(0, 3, (4, 5))],
        "D": [(1, 3, (0, 1, 2, 3))],
    }


def test_a_pair_that_is_slower_than_taking_turns_is_undone():
    # Told: side by side each is slowed by 1.25, together 1.6 jobs alone. In truth by 4: at 3, after
    # a trial of 2 s, both have done 0.5 s: 0.5 jobs alone, less than the 1 of taking turns.
    #         01 3      11.5 14
    # GPU 0   AaaAAAAAAAABBB
    #          bb
    trace, topology = [Job(0, 1, 10), Job(1, 1, 3)], cluster(1, 1)
    truth = physics_of(topology, slowdown=((4.0,),))
    told = physics_of(topology, slowdown=((1.25,),))
    yard = {"physics": truth, "belief": told, "max_tenants": 2}
    run = play(world(trace, topology, **yard), gandiva(packing=True, trial_s=2.0, slice_s=None))
    assert attempts(run.log) == {"A": [(0, 11.5, (0,))], "B": [(1, 3, (0,)), (11.5, 14, (0,))]}
    # Fallback sharing keeps the pair: B takes 12 s for its 3, A has 6 of 10 left at 13.
    run = play(world(trace, topology, **yard), fifo(FallbackSharing()))
    assert gantt(run) == {"A": (0, 19, (0,)), "B": (1, 13, (0,))}


def test_a_pair_that_pays_stays_together():
    # In truth as told: 0.8 + 0.8 jobs alone. B takes 3.75 s; A has done 1 + 3 at 4.75.
    trace, topology = [Job(0, 1, 10), Job(1, 1, 3)], cluster(1, 1)
    physics = physics_of(topology, slowdown=((1.25,),))
    yard = world(trace, topology, physics=physics, max_tenants=2)
    run = play(yard, gandiva(packing=True, slice_s=None))
    assert gantt(run) == {"A": (0, 10.75, (0,)), "B": (1, 4.75, (0,))}


@pytest.mark.parametrize(("at_s", "stays"), [(1.0, False), (3.0, True)])
def test_a_resident_that_was_watched_is_judged_by_what_was_seen(at_s, stays):
    # A holds server 0 and fits beside nobody. B has server 1, of a type that is told to be as fast
    # but is 4 times slower: 0.25 work a second alone, 0.25 / 1.2 beside C, which does the same.
    # Of the speed seen (trials of 2 s) B keeps 1 / 1.2, C 0.21 of the 1 it is told: 1.04, they
    # stay. Where B was not watched for long enough, it is told 1, too: 0.42, and C leaves.
    topology = cluster(2, 1, types=("x", "y"))
    same = {"slowdown": ((1.2, 1.2), (1.2, 1.2)), "infeasible": [(0, 1), (1, 1)]}
    truth = physics_of(topology, compute_s=(1.0, 4.0), **same)
    told = physics_of(topology, compute_s=(1.0, 1.0), **same)
    jobs = [Job(0, 1, 90, profile=1), Job(0, 1, 9), Job(at_s, 1, 9)]
    yard = world(jobs, topology, physics=truth, belief=told, max_tenants=2)
    run = play(yard, gandiva(packing=True, trial_s=2.0, slice_s=None))
    together = attempts(run.log)["C"][0]
    assert together.gpus == (1,)
    assert (together.end_s == at_s + 2.0) is not stays


@pytest.mark.parametrize(("slowdown", "gang", "tenants"), [(1.7, 1, 2), (1.25, 2, 2), (1.25, 1, 1)])
def test_no_pair_where_it_does_not_pay_or_gangs_differ_or_gpus_hold_one(slowdown, gang, tenants):
    # 2 / 1.7 is below 1.2; a gang of two beside a single GPU's job; one tenant a GPU.
    topology = cluster(1, 2)
    physics = physics_of(topology, slowdown=((slowdown,),))
    yard = world([Job(0, 2, 4), Job(1, 3 - gang, 3)], topology, physics=physics,
                 max_tenants=tenants)  # fmt: skip
    run = play(yard, gandiva(packing=True, slice_s=None))
    assert gantt(run)["B"][:2] == (4, 7)


def test_a_spread_gang_moves_once_a_server_is_free():
    # A and B share server 0 (single GPUs), C opens server 1. At 3 D finds GPUs 1 and 3: half
    # speed. C ends at 5; at 7, four seconds after D's start, D moves with 2 of its 6 s done.
    #         0 2 3 5 7   11
    # GPU 0   AAAAAAAAA
    # GPU 1   BB ddddd
    # GPU 2   CCCCC   DDDD
    # GPU 3      ddddd DDD
    topology = cluster(2, 2)
    jobs = [Job(0, 1, 9), Job(0, 1, 2), Job(0, 1, 5), Job(3, 2, 6)]
    physics = physics_of(topology, server_s=(0.0, 0.0, 1.0))
    dally = gandiva(slice_s=None, migrate_every_s=4.0)
    run = play(world(jobs, topology, physics=physics), dally)
    assert attempts(run.log)["D"] == [(3, 7, (1, 3)), (7, 11, (2, 3))]
    still = play(world(jobs, topology, physics=physics), gandiva(slice_s=None))
    assert attempts(still.log)["D"] == [(3, 15, (1, 3))]


def test_servers_belong_to_a_size_until_they_are_empty():
    # A claims server 0 for single GPUs, B the next for pairs; C joins A, D joins B. E, a pair,
    # finds no room on servers 0 and 1 and claims server 2, though server 0 had two GPUs empty.
    jobs = [Job(0, 1, 9), Job(0, 2, 9), Job(1, 1, 9), Job(1, 2, 9), Job(2, 2, 9)]
    run = play(world(jobs, cluster(3, 4)), gandiva())
    assert {job: stay[2] for job, stay in gantt(run).items()} == {
        "A": (0,), "B": (4, 5), "C": (1,), "D": (6, 7), "E": (8, 9),
    }  # fmt: skip


KNOBS_OF_ALL_KINDS = st.fixed_dictionaries({
    "slice_s": st.sampled_from([None, 0.7, 2.0]),
    "packing": st.booleans(),
    "least_speed": st.sampled_from([0.0, 1.1]),
    "trial_s": st.sampled_from([0.5, 2.0]),
    "migrate_every_s": st.sampled_from([None, 1.5]),
})  # fmt: skip


@settings(max_examples=10)
@given(case=cases(most_partitions=1, most_jobs=20, life=True), knobs=KNOBS_OF_ALL_KINDS)
def test_short_turns_and_trials_are_legal_through_all_of_life(case: Case, knobs: dict[str, Any]):
    # Without saving, turns this short would do no work.
    rules = dataclasses.replace(case.rules, preempt_saves=True)
    case = dataclasses.replace(case, rules=rules)
    simulator = Simulator(**case.arguments())
    try:
        run = simulate(simulator, gandiva(**knobs), 0, None)
    except SimulationError:  # a gang of more workers than its servers can ever take
        run = simulator.outcome("gandiva", 0, 0.0, 0.0)
    Ledger(case, run, {})


def test_names_show_what_is_off():
    assert gandiva(packing=True, migrate_every_s=9.0).name == "gandiva"
    assert gandiva(slice_s=None, migrate_every_s=9.0).name == "gandiva_noslice_nopack"
    assert gandiva(packing=True).name == "gandiva_nomove"


@pytest.mark.parametrize(
    ("key", "value", "rule"),
    [
        ("slice_s", 0.0, "null, or above 0"),
        ("migrate_every_s", -1.0, "null, or above 0"),
        ("trial_s", 0.0, "above 0"),
        ("least_speed", -0.1, "0 or more"),
    ],
)
def test_bad_values_are_refused(key, value, rule):
    with pytest.raises(GpuYardError, match=f"scheduler.{key} is {value}; it must be {rule}"):
        gandiva(**{key: value})
