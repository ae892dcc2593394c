"""Elastic gangs that grow where it helps most."""

from dataclasses import replace

import numpy as np

from sim.placers.by_room import Packed
from sim.schedulers.optimus import Optimus, divide
from sim.schedulers.orders import Srtf
from sim.sharing import NoSharing
from tests.sim.worlds import Job, as_drawn, cluster, elastic, gantt, physics_of, play, world

ONE_TO_FOUR = elastic([1, 1], [4, 4])
SRTF = Srtf(placer=Packed(), sharing=NoSharing())


def optimus(hysteresis_frac: float = 0.0) -> Optimus:
    return Optimus(placer=Packed(), round_s=6.0, hysteresis_frac=hysteresis_frac)


GROWING, RIGID = [Job(0, 2, 24), Job(0, 2, 6)], [Job(0, 2, 10), Job(0, 1, 15)]
CASES = {  # what is seen -> scheduler, jobs, traits, GPUs of the one server, the chart of each GPU
    # n GPUs do n / 2 of the work a second. With one each A has 48 s to go, B 12. A second saves
    # A 24 s, a third 8; a second for B saves 6. So A has 3 (speed 1.5), B 1 (speed 0.5), and at 6,
    # with 15 s and 3 s of work left, they have the same. At 12 B is done, A has 6 s left: 4 GPUs.
    "GPUs go where they shorten the rest most": (
        optimus(), GROWING, ONE_TO_FOUR, 4, "BbbbbbbbbbbbAaa AaaaaaaaaaaaAaa*3"),
    "srtf gives everybody the gang asked for": (
        SRTF, GROWING, ONE_TO_FOUR, 4, "Bbbbbb*2 Aaaaaaaaaaaaaaaaaaaaaaaa*2"),
    # At 12 a fourth GPU would take A from 4 s to 3: a quarter, less than 0.4.
    "hysteresis keeps a job where more would gain little": (
        optimus(0.4), GROWING, ONE_TO_FOUR, 4, "Bbbbbbbbbbbb Aaaaaaaaaaaaaaaa*3"),
    # A has all four GPUs (speed 2) until B comes at 1 and waits for the round at 6. A then has 12 s
    # of work left, B 6: with one GPU each 24 s and 12. A second saves A 12 s, a third 4; B's second
    # saves 6, its third 2. So two each (speed 1), and B is done at 12, where A has 6 s left and
    # takes four GPUs again.
    "a newcomer takes the least at the next round": (
        optimus(), [Job(0, 2, 24), Job(1, 2, 6)], ONE_TO_FOUR, 4,
        "AaaaaaBbbbbbAaa*2 AaaaaaAaaaaaAaa*2"),
    # B needs 15 GPU-seconds, A 20. SRTF, which counts seconds, starts A.
    "rigid gangs come in order of GPU-seconds": (
        optimus(), RIGID, {}, 2, "BbbbbbbbbbbbbbbAaaaaaaaaa ...............Aaaaaaaaaa"),
    "srtf's come in that of seconds": (SRTF, RIGID, {}, 2, "AaaaaaaaaaBbbbbbbbbbbbbbb Aaaaaaaaaa"),
}  # fmt: skip
test_the_chart_is_as_drawn = as_drawn(CASES, "traits", "gpus")


def test_a_profile_that_does_not_scale_gets_no_more_than_its_least():
    # A's profile is no faster on more GPUs, B's is so in proportion: B has three of the four.
    topology = cluster(1, 4)
    known = physics_of(topology, slowdown=((1.0, 1.0), (1.0, 1.0)))
    flat, straight = [np.nan, 1.0, 1.0, 1.0, 1.0], [np.nan, 1.0, 2.0, 3.0, 4.0]
    catalogue = replace(known.catalogue, speedup=np.array([flat, straight]))
    jobs = [Job(0, 1, 60), Job(0, 1, 18, profile=1)]
    yard = world(jobs, topology, physics=replace(known, catalogue=catalogue), traits=ONE_TO_FOUR)
    assert gantt(play(yard, optimus())) == {"A": (0, 60, (3,)), "B": (0, 6, (0, 1, 2))}


def test_several_gpus_at_once_where_one_more_does_not_help():
    # Only the fourth GPU helps: from 12 s to 3, 3 s a GPU; the other's second GPU saves 2 s.
    time_s = np.array([[0.0, 12, 12, 12, 3], [0.0, 4, 2, 2, 2]])
    limits, whole = np.array([[1, 4], [1, 4]]), np.array([1000, 1000])
    nobody = np.zeros(2, dtype=np.int64)
    assert divide(time_s, limits, nobody, whole, 5000, 0.0).tolist() == [4, 1]
    # With one GPU less the three are not to be had, and the other gets its second.
    assert divide(time_s, limits, nobody, whole, 4000, 0.0).tolist() == [1, 2]


def test_parts_of_gpus_count_as_parts():
    time_s = np.array([[0.0, 9.0, 9.0]] * 3)
    limits, half = np.array([[2, 2]] * 3), np.array([500] * 3)
    given = divide(time_s, limits, np.zeros(3, dtype=np.int64), half, 2000, 0.0)
    assert given.tolist() == [2, 2, 0]
