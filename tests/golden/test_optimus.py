"""Elastic gangs that grow where it helps most."""

from dataclasses import replace

import numpy as np
import pytest

from sim.errors import GpuYardError
from sim.jobs import Elastic
from sim.placers.by_room import Packed
from sim.schedulers.optimus import Optimus, divide
from sim.schedulers.orders import Srtf
from sim.sharing import NoSharing
from sim.simulator import Simulator
from tests.sim.worlds import Job, attempts, cluster, gantt, physics_of, play, world

ONE_TO_FOUR = {"elastic": Elastic(np.array([1, 1]), np.array([4, 4]))}


def optimus(hysteresis_frac: float = 0.0, round_s: float = 6.0) -> Optimus:
    return Optimus(placer=Packed(), round_s=round_s, hysteresis_frac=hysteresis_frac)


def elastic_yard() -> Simulator:
    return world([Job(0, 2, 24), Job(0, 2, 6)], cluster(1, 4), traits=ONE_TO_FOUR)


def test_gpus_go_where_they_shorten_the_rest_most():
    # n GPUs do n / 2 of the work a second. With one each A has 48 s to go, B 12. A second saves
    # A 24 s, a third 8; a second for B saves 6. So A has 3 (speed 1.5), B 1 (speed 0.5), and at 6,
    # with 15 s and 3 s of work left, they have the same. At 12 B is done, A has 6 s left: 4 GPUs.
    #            0     6     12 15
    # GPU 0      BBBBBBBBBBBBAAA
    # GPU 1-3    AAAAAAAAAAAAAAA
    run = play(elastic_yard(), optimus())
    assert attempts(run.log) == {
        "A": [(0, 12, (1, 2, 3)), (12, 15, (0, 1, 2, 3))],
        "B": [(0, 12, (0,))],
    }


def test_srtf_differs_since_it_gives_everybody_the_gang_asked_for():
    run = play(elastic_yard(), Srtf(placer=Packed(), sharing=NoSharing()))
    assert gantt(run) == {"A": (0, 24, (2, 3)), "B": (0, 6, (0, 1))}


def test_hysteresis_keeps_a_job_where_more_would_gain_little():
    # At 12 a fourth GPU would take A from 4 s to 3: a quarter, less than 0.4.
    run = play(elastic_yard(), optimus(hysteresis_frac=0.4))
    assert gantt(run) == {"A": (0, 16, (1, 2, 3)), "B": (0, 12, (0,))}


def test_a_newcomer_takes_the_least_at_the_next_round():
    # A has all four GPUs (speed 2) until B comes at 1 and waits for the round at 6. A then has 12 s
    # of work left, B 6: with one GPU each 24 s and 12. A second saves A 12 s, a third 4; B's second
    # saves 6, its third 2. So two each (speed 1), and B is done at 12, where A has 6 s left and
    # takes four GPUs again.
    #            0     6     12 15
    # GPU 0, 1   AAAAAABBBBBBAAA
    # GPU 2, 3   AAAAAAAAAAAAAAA
    run = play(world([Job(0, 2, 24), Job(1, 2, 6)], cluster(1, 4), traits=ONE_TO_FOUR), optimus())
    assert attempts(run.log) == {
        "A": [(0, 6, (0, 1, 2, 3)), (6, 12, (2, 3)), (12, 15, (0, 1, 2, 3))],
        "B": [(6, 12, (0, 1))],
    }


def test_a_profile_that_does_not_scale_gets_no_more_than_its_least():
    # A's profile is no faster on more GPUs, B's is so in proportion: B has three of the four.
    topology = cluster(1, 4)
    known = physics_of(topology, slowdown=((1.0, 1.0), (1.0, 1.0)))
    flat, straight = [np.nan, 1.0, 1.0, 1.0, 1.0], [np.nan, 1.0, 2.0, 3.0, 4.0]
    catalogue = replace(known.catalogue, speedup=np.array([flat, straight]))
    jobs = [Job(0, 1, 60), Job(0, 1, 18, profile=1)]
    yard = world(jobs, topology, physics=replace(known, catalogue=catalogue), traits=ONE_TO_FOUR)
    assert gantt(play(yard, optimus())) == {"A": (0, 60, (3,)), "B": (0, 6, (0, 1, 2))}


def test_rigid_gangs_come_in_order_of_gpu_seconds():
    # B needs 15 GPU-seconds, A 20. SRTF, which counts seconds, starts A.
    jobs = [Job(0, 2, 10), Job(0, 1, 15)]
    run = play(world(jobs, cluster(1, 2)), optimus())
    assert gantt(run) == {"A": (15, 25, (0, 1)), "B": (0, 15, (0,))}
    srtf = play(world(jobs, cluster(1, 2)), Srtf(placer=Packed(), sharing=NoSharing()))
    assert gantt(srtf) == {"A": (0, 10, (0, 1)), "B": (10, 25, (0,))}


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


@pytest.mark.parametrize("frac", [-0.1, 1.0])
def test_a_hysteresis_that_is_no_fraction_is_refused(frac: float):
    with pytest.raises(GpuYardError, match=r"hysteresis_frac is .*from 0 to below 1"):
        optimus(hysteresis_frac=frac)
