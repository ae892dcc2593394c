"""Shares of time on types of GPU, carried out in rounds."""

from dataclasses import replace

import numpy as np
import pytest

from sim.jobs import ANY_TYPE, Attempts
from sim.physics.physics import Physics
from sim.placers.by_room import FirstFit
from sim.schedulers.gavel import MAX_MIN, TOTAL_THROUGHPUT, Classes, Gavel, time_shares
from sim.schedulers.orders import Las
from sim.sharing import NoSharing
from sim.topology.outages import Change
from sim.topology.topology import Topology
from tests.sim.worlds import (
    Job,
    attempts,
    changes,
    charted,
    cluster,
    demands,
    gantt,
    physics_of,
    play,
    world,
)

RULES = {"placer": FirstFit(), "sharing": NoSharing()}
OLD_AND_NEW = cluster(2, 1, types=("old", "new"))


def gavel(policy: str = MAX_MIN) -> Gavel:
    return Gavel(placer=FirstFit(), round_s=5.0, policy=policy)


def paces(topology: Topology, *fast: float) -> Physics:
    """Profile p is `fast[p]` times as fast on the second type (new) as on the first (old)."""
    known = physics_of(topology, slowdown=np.ones((len(fast), len(fast))).tolist())
    compute_s = np.array([[1.0, 1.0 / pace] for pace in fast])
    return replace(known, catalogue=replace(known.catalogue, compute_s=compute_s))


def classes(speed: list[list[float]], gpus: list[float], jobs: list[int]) -> Classes:
    """Two types, and no mix of them."""
    table = np.column_stack([np.array(speed), np.zeros(len(speed))])
    use = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    return Classes(np.array(jobs), np.array(gpus), table, use)


LAS = Las(**RULES, quantum_gpu_s=5.0)
GAINS = [Job(0, 1, 40), Job(0, 1, 40, profile=1)]
APART = "B" + "b" * 39


@pytest.mark.parametrize(
    ("scheduler", "jobs", "fast", "drawing"),
    [
        # A is four times as fast on the new type, B half as fast. Relative to half of the time on
        # each, A reaches 0.4 on the old and 1.6 on the new, B 1.33 and 0.67.
        (gavel(MAX_MIN), GAINS, (4.0, 0.5), f"{APART} Aaaaaaaaaa"),
        (gavel(TOTAL_THROUGHPUT), GAINS, (4.0, 0.5), f"{APART} Aaaaaaaaaa"),
        # Least attained service takes no notice of types.
        (LAS, GAINS, (4.0, 0.5), f"A{'a' * 39} B{'b' * 79}"),
        # A (1.2 times as fast on the new type) has it until B (4 times) comes at 2 and finds the
        # old one. The round at 5 turns them round: B has done 3 of its 43 and does the rest in
        # 10 s. Then A, which has done 6 + 10, goes back and does its 24 in 20 s.
        (gavel(TOTAL_THROUGHPUT), [Job(0, 1, 40, profile=1), Job(2, 1, 43)], (4.0, 1.2),
         "..BbbAaaaaaaaaa AaaaaBbbbbbbbbbAaaaaaaaaaaaaaaaaaaa"),
    ],
)  # fmt: skip
def test_who_gets_which_type(scheduler, jobs, fast, drawing):
    physics = paces(OLD_AND_NEW, *fast)
    assert charted(jobs, OLD_AND_NEW, scheduler, physics=physics) == drawing


def test_jobs_alike_take_turns():
    # Half of the time each. At 5 A has had 5 s, B nothing; at 10 both 5 of 5; at 15 A 10 of 7.5.
    jobs = [Job(0, 1, 20), Job(0, 1, 20)]
    assert charted(jobs, cluster(1, 1), gavel(), column_s=5.0) == "ABABABAB"
    # Least attained service lets B go on at 10, where it is level with A.
    assert charted(jobs, cluster(1, 1), LAS, column_s=5.0).startswith("ABb")


def test_what_a_failed_or_evicted_job_ran_is_not_forgotten():
    """A fails when it has done 4 and 8: each time it has had 4 s more, and B is next at once.

    At 4 B has had nothing. At 10, due over received, A has 7.5 / 4 and B 7.5 / 6; at 14 A 9.5 / 8
    and B 9.5 / 6. Were only those who run counted, A would have had nothing at 4.
    """
    jobs, drawing = [Job(0, 1, 13), Job(0, 1, 12)], "AaaaBbbbbbAaaaBbbbbbAaaaa"
    fails = Attempts(np.array([0, 2, 2]), np.array([4.0, 8.0]))
    assert charted(jobs, cluster(1, 1), gavel(), traits={"attempts": fails}) == drawing
    # The same where A's server goes away for no time at all: its work is kept.
    away = changes((4, 0, Change.CLOSE), (4, 0, Change.OPEN), (14, 0, Change.CLOSE),
                   (14, 0, Change.OPEN))  # fmt: skip
    assert charted(jobs, cluster(1, 1), gavel(), outages=away) == drawing


# Classes are given by their speed on each type, GPUs of a gang and number of jobs.
ALIKE, UNLIKE = [1.0, 0.0], ([0.4, 1.6], [8 / 9, 10 / 9])
SHARES = {  # what is seen -> policy, GPUs of each type, speeds, gangs, jobs, shares of the time
    # Two GPUs: A wants both, B and C one each. The same GPU-seconds each: A half as much time as
    # the others, a third of it: they have the other two thirds at once.
    "a large gang gets a smaller share of the time": (
        MAX_MIN, [2, 0], [ALIKE] * 2, [2.0, 1.0], [1, 2], [[1 / 3, 0], [2 / 3, 0]]),
    # A reaches 0.4 on one type and 1.6 on the other, B 8/9 and 10/9. With x of its time on the
    # other A has 0.4 + 1.2 x and B 10/9 - 2/9 x: level at x = 1/2, where both have 1.
    "the least throughput is as large as it can be": (
        MAX_MIN, [1, 1], UNLIKE, [1.0] * 2, [1, 1], [[0.5, 0.5]] * 2),
    # The sum is largest, 1.6 + 8/9, with A on the other type all the time.
    "or the sum of all": (
        TOTAL_THROUGHPUT, [1, 1], UNLIKE, [1.0] * 2, [1, 1], [[0, 1], [1, 0]]),
    # Three alike and one other on two GPUs of one type: all four half of the time.
    "classes are worth their number": (
        MAX_MIN, [2, 0], [ALIKE] * 2, [1.0] * 2, [3, 1], [[0.5, 0]] * 2),
    # A can use one type only, B both: A has all of the first, B all of the second.
    "nobody idles where the worst off is served": (
        MAX_MIN, [1, 1], [ALIKE, [0.5, 1.5]], [1.0] * 2, [1, 1], [[1, 0], [0, 1]]),
    # A has all that it can use, 1 of 8 GPUs. B, 4 GPUs, and C, 8, have half of the other 7 each.
    "what the least cannot use is shared alike": (
        MAX_MIN, [8, 0], [ALIKE] * 3, [1.0, 4.0, 8.0], [1] * 3, [[1, 0], [7 / 8, 0], [7 / 16, 0]]),
    # A takes a tenth of the one GPU of the first type, the only one that B can use; C reaches half
    # on the other. With r of its time on the first C has 1/2 + r/2 and B 0.9 - r: level at r =
    # 4/15. The sum alone would be largest at r = 0, where B has 0.9 and C 0.5.
    "also of two types": (
        MAX_MIN, [1, 1], [ALIKE, ALIKE, [1.0, 0.5]], [0.1, 1.0, 1.0], [1] * 3,
        [[1, 0], [19 / 30, 0], [4 / 15, 11 / 15]]),
}  # fmt: skip


@pytest.mark.parametrize("case", SHARES)
def test_the_shares_of_time_are_those_worked_by_hand(case: str):
    policy, there, speed, gang, jobs, expected = SHARES[case]
    shares = time_shares(classes(speed, gang, jobs), np.array(there), policy)
    assert shares[:, :2] == pytest.approx(np.array(expected), abs=1e-4)


def test_a_large_gang_has_its_turn_beside_a_job_that_needs_little():
    # D has a GPU for itself. Of the other 5 A, B and C are to have as many each: A a third of the
    # time, B and C 5/6. Everybody's first round, then due over received: at 10 B 5/6 x 15 / 5, A
    # 1/3 x 15 / 5; at 15 B 1.67, A 1.33; at 20 B 1.39, A 1.67.
    jobs = [Job(0, 5, 10), Job(0, 2, 25), Job(0, 2, 25), Job(0, 1, 35)]
    drawing = "Ddddddd BABbABb*2 CACcACc*2 .A..A"
    assert charted(jobs, cluster(1, 6), gavel(), column_s=5.0) == drawing


def test_a_type_that_a_job_refuses_is_never_its_own():
    # A is faster on the new type, but accepts only the old one (bit 0).
    types = demands((1000, 0, 0, 0b01), (1000, 0, 0, 0b11))
    jobs = [Job(0, 1, 10), Job(0, 1, 10, profile=1)]
    physics = paces(OLD_AND_NEW, 4.0, 2.0)
    run = play(world(jobs, OLD_AND_NEW, physics=physics, traits=types), gavel())
    assert gantt(run) == {"A": (0, 10, (0,)), "B": (0, 5, (1,))}


def test_a_gang_that_no_type_can_hold_runs_across_types():
    jobs = [Job(0, 2, 10), Job(0, 1, 10, profile=1)]
    physics = paces(OLD_AND_NEW, 4.0, 4.0)
    run = play(world(jobs, OLD_AND_NEW, physics=physics), gavel())
    assert np.isfinite(run.finish_s).all()
    assert (0, 1) in [stay.gpus for stay in attempts(run.log)["A"]]


@pytest.mark.parametrize(
    ("gang", "ask"),
    [
        (2, (1000, 1000, 0, ANY_TYPE)),  # a server has cores for one worker
        (3, (500, 0, 0, ANY_TYPE)),  # each worker on a GPU of its own
    ],
)
def test_nor_can_a_type_hold_a_gang_whose_workers_find_no_room_there(gang, ask):
    topology = replace(cluster(2, 2, types=("old", "new")), server_cpu_milli=np.full(2, 1000))
    physics = paces(topology, 4.0)
    yard = world([Job(0, gang, 10)], topology, physics=physics, traits=demands(ask))
    assert gantt(play(yard, gavel()))["A"][0] == 0
