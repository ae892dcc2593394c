"""Gandiva: turns, packing on trial, migration, servers by size of gang."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.errors import SimulationError
from sim.jobs import ANY_TYPE
from sim.schedulers.gandiva import Gandiva
from sim.sharing import FallbackSharing
from sim.simulator import Simulator, simulate
from tests.oracle.cases import Case, cases
from tests.sim import worlds
from tests.sim.ledger import Ledger
from tests.sim.worlds import (
    Job,
    attempts,
    charted,
    cluster,
    demands,
    gantt,
    parts,
    physics_of,
    play,
    world,
)


def gandiva(**knobs) -> Gandiva:
    plain = {"slice_s": 2.0, "packing": False, "least_speed": 1.2, "trial_s": 1.0}
    return Gandiva(**{**plain, "migrate_every_s": None, **knobs})


TWO = [Job(0, 1, 10), Job(1, 1, 3)]
ONES, PAIR = [Job(0, 1, 10)] * 3, Job(1, 2, 4)
CASES = {  # what is seen -> scheduler, jobs, servers, GPUs of each, rules, the chart of each GPU
    # B comes at 1. At 2 A has had its GPU for 2 s and gives way: from then on turns of 2 s.
    "two jobs take turns": (gandiva(), TWO, 1, 1, {}, "AaBbAaBAaaaaa"),
    "fifo does not": (worlds.fifo(), TWO, 1, 1, {}, "AaaaaaaaaaBbb"),
    # The turn before was long ago, yet B, one second on its GPU when C comes, has two like all.
    "nobody is cut short after a quiet time": (
        gandiva(), [Job(0, 1, 10), Job(10, 1, 4), Job(11, 1, 3)], 1, 1, {}, "AaaaaaaaaaBbCcBbC"),
    # A has had its turn when B comes, and gives way at once.
    "who comes late finds the turn over": (
        gandiva(), [Job(0, 1, 5), Job(3, 1, 1)], 1, 1, {}, "AaaBAa"),
    # Restarts of 3 s, turns of 2 s. At 2 B starts for the first time, at once: its turn ends at 4.
    # A is back at 4, works from 7 and gives way at 9. B works 12-13 and is done.
    "a turn is work, restarts come on top": (
        gandiva(), TWO, 1, 1, {"restart_s": 3.0}, "AaBbAaaaaBbbbAaaaaaaaa"),
    # A and B fill server 0, which is claimed for single GPUs; C opens server 1. D, two GPUs, comes
    # at 1: server 1 has one empty GPU, so C gives way at 2. At 4 it is C's turn: A, on its GPU as
    # long as B, is the first row. D's end frees server 1 for A.
    "a server is cleared for a gang, and turns pass within a size": (
        gandiva(), [*ONES, PAIR], 2, 2, {}, "AaaaCccccccc Bbbbbbbbbb CcDdddAaaaaa ..Dddd"),
    # A, B and C are alone on their servers of 2; from 1 on D wants 4 GPUs. At 2 A leaves, 2 are
    # empty... B leaves, and D takes servers 0 and 1. C, last to give way, is not disturbed.
    "as many leave as a large gang needs": (
        gandiva(), [*[Job(0, 2, 3)] * 3, Job(1, 4, 2)], 3, 2, {}, "AaDdB*2 BbDd*2 CccA*2"),
    # A takes the whole GPU, B and C a half each. At 10 A gives way to B, whose half leaves room
    # for C. At 20 both give way to A, which ends at 30.
    "a turn is taken by as many parts as there is room for": (
        gandiva(slice_s=10.0), [Job(0, 1, 20)] * 3, 1, 1,
        {"traits": parts(1000, 500, 500), "max_tenants": 2},
        "AaaaaaaaaaBbbbbbbbbbAaaaaaaaaaBbbbbbbbbb+..........Cccccccccc..........Cccccccccc"),
    # A claims server 0 for single GPUs, B the next for pairs; C joins A, D joins B. E, a pair,
    # finds no room on servers 0 and 1 and claims server 2, though server 0 had two GPUs empty.
    "servers belong to a size until they are empty": (
        gandiva(), [Job(0, 1, 9), Job(0, 2, 9), Job(1, 1, 9), Job(1, 2, 9), Job(2, 2, 9)], 3, 4, {},
        "Aaaaaaaaa .Ccccccccc .*2 Bbbbbbbbb*2 .Ddddddddd*2 ..Eeeeeeeee*2"),
}  # fmt: skip
test_the_chart_is_as_drawn = worlds.as_drawn(CASES, "servers", "gpus", "rules")


# Told: side by side each is slowed by 1.25, together 1.6 jobs alone.
@pytest.mark.parametrize(
    ("scheduler", "truly", "column_s", "drawing"),
    [
        # In truth by 4: at 3, after a trial of 2 s, both have done 0.5 s: 0.5 jobs alone, less than
        # the 1 of taking turns. The pair is undone.
        (gandiva(packing=True, trial_s=2.0, slice_s=None), 4.0, 0.5,
         "AaaaaaaaaaaaaaaaaaaaaaaBbbbb+..Bbbb"),
        # Fallback sharing keeps the pair: B takes 12 s for its 3, A has 6 of 10 left at 13.
        (worlds.fifo(sharing=FallbackSharing()), 4.0, 1.0, "Aaaaaaaaaaaaaaaaaaa+.Bbbbbbbbbbbb"),
        # As told: B takes 3.75 s; A has done 1 + 3 at 4.75. They stay together.
        (gandiva(packing=True, slice_s=None), 1.25, 0.25, f"A{'a' * 42}+....Bbbbbbbbbbbbbbb"),
    ],
)  # fmt: skip
def test_a_pair_that_is_slower_than_taking_turns_is_undone(scheduler, truly, column_s, drawing):
    topology = cluster(1, 1)
    truth, told = (physics_of(topology, slowdown=((by,),)) for by in (truly, 1.25))
    yard = {"physics": truth, "belief": told, "max_tenants": 2, "column_s": column_s}
    assert charted(TWO, topology, scheduler, **yard) == drawing


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


def test_who_may_be_joined_is_seen_where_cores_are_short_and_others_would_cost_less():
    # Cores for one worker more. C, of one GPU, would be slowed least beside A, which has two.
    topology = dataclasses.replace(cluster(1, 3), server_cpu_milli=np.array([4000]))
    physics = physics_of(topology, slowdown=((1.0, 1.0), (1.0, 1.25)))
    jobs = [Job(0, 2, 9), Job(0, 1, 9, profile=1), Job(1, 1, 4, profile=1)]
    traits = demands(*[(1000, 1000, 0, ANY_TYPE)] * 3)
    yard = world(jobs, topology, physics=physics, traits=traits, max_tenants=2)
    assert gantt(play(yard, gandiva(packing=True, slice_s=None)))["C"] == (1, 6, (2,))


def test_a_spread_gang_moves_once_a_server_is_free():
    # A and B share server 0 (single GPUs), C opens server 1. At 3 D finds GPUs 1 and 3: half
    # speed. C ends at 5; at 7, four seconds after D's start, D moves with 2 of its 6 s done.
    topology = cluster(2, 2)
    jobs = [Job(0, 1, 9), Job(0, 1, 2), Job(0, 1, 5), Job(3, 2, 6)]
    physics = physics_of(topology, server_s=(0.0, 0.0, 1.0))
    for every_s, drawing in (
        (4.0, "Aaaaaaaaa Bb.Dddd Ccccc..Dddd ...DdddDddd"),
        (None, "Aaaaaaaaa Bb.Dddddddddddd Ccccc ...Dddddddddddd"),
    ):
        scheduler = gandiva(slice_s=None, migrate_every_s=every_s)
        assert charted(jobs, topology, scheduler, physics=physics) == drawing


def test_what_a_gang_leaves_is_given_to_who_waits_at_once():
    # C holds a GPU of each type. B ends at 5; at the next look, at 6, C moves to its server, and D
    # has the GPU of its type that C leaves.
    old, new, both = ((1000, 0, 0, mask) for mask in (0b01, 0b10, 0b11))
    jobs = [Job(0, 1, 30), Job(0, 1, 5), Job(0, 2, 20), Job(1, 1, 2)]
    topology = cluster(2, 2, types=("x", "y"))
    physics = physics_of(topology, compute_s=(1.0, 1.0))
    yard = world(jobs, topology, physics=physics, traits=demands(new, old, both, new))
    run = play(yard, gandiva(slice_s=None, migrate_every_s=3.0))
    assert run.start_s.tolist() == [0, 0, 0, 6]


def test_a_pair_is_parted_once_a_gpu_is_free_and_nobody_waits():
    # C joins A at 1, both at 1 / 1.25 of their speed; B's GPU is free from 3 on. At 6, five seconds
    # after the start, C moves there with 4 of its 10 s done, and A has 5 of its 10 left.
    topology = cluster(1, 2)
    physics = physics_of(topology, slowdown=((1.25,),))
    jobs = [Job(0, 1, 10), Job(0, 1, 3), Job(1, 1, 10)]
    yard = {"physics": physics, "max_tenants": 2}
    scheduler = gandiva(packing=True, slice_s=None, migrate_every_s=5.0)
    assert charted(jobs, topology, scheduler, **yard) == "Aaaaaaaaaaa+.Ccccc Bbb...Cccccc"
    # D, too large to join anybody, waits from 2 on: packing is for such times.
    waits = [*jobs, Job(2, 2, 4)]
    assert attempts(play(world(waits, topology, **yard), scheduler).log)["C"][0].end_s > 6.0


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


def test_names_show_what_is_not_as_published():
    assert gandiva(packing=True, migrate_every_s=9.0).name == "gandiva"
    assert gandiva(slice_s=None, migrate_every_s=9.0).name == "gandiva_noslice_nopack"
    assert gandiva(packing=True, by_rack=True).name == "gandiva_nomove_byrack"


# Racks of two servers of 2. A and B hold servers 0 and 3 until 3; C, 4 GPUs, starts at 0 on servers
# 1 and 2. Looks at who is spread are 4 s apart: at 4 one rack has room for it.
@pytest.mark.parametrize(("by_rack", "moves"), [(True, True), (False, False)])
def test_a_gang_on_two_racks_moves_to_one_where_racks_count(by_rack: bool, moves: bool):
    jobs = [Job(0, 2, 3), Job(0, 4, 9), Job(0, 2, 3)]
    topology = cluster(4, 2, servers_per_rack=2)
    scheduler = gandiva(slice_s=None, migrate_every_s=4.0, by_rack=by_rack)
    run = play(world(jobs, topology), scheduler)
    gang = [each.gpus for each in attempts(run.log)["B"]]
    assert gang[0] == (2, 3, 4, 5)
    assert gang[1:] == ([(0, 1, 2, 3)] if moves else [])
