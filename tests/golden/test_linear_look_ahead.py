"""The features of the linear score that look ahead, weighed by hand: those not named are 0."""

import math

import pytest

from sim.scoring.ahead import wait_over_loss
from tests.golden.test_linear_score import SPREAD_STEP, linear
from tests.sim.worlds import Job, charted, cluster, gantt, physics_of, play, world


@pytest.mark.parametrize(
    ("predicted_s", "c_s", "share", "stay"),
    [
        # From 400 on C waits 600 s for a whole server; spread it loses half of its work: 100 s of
        # 200, 1500 s of 3000.
        (1000, 200, 0.0, (400, 700, (1, 3))),
        (1000, 3000, 0.0, (1000, 4000, (0, 1))),
        # A and B were to end at 100. At 400 they are about to end (in 60 s) or, as who outlives its
        # prediction may stay as long again, have 400 s left; spread C loses 150 s.
        (100, 300, 0.0, (1000, 1300, (0, 1))),
        (100, 300, 1.0, (400, 850, (1, 3))),
    ],
)
def test_a_gang_starts_spread_if_the_wait_is_longer_than_what_spreading_costs(
    predicted_s, c_s, share, stay
):
    # A and B stand on one server each until 1000.
    topology = cluster(2, 2)
    physics = physics_of(topology, server_s=SPREAD_STEP)
    jobs = [Job(0, 1, 1000, estimate_s=predicted_s)] * 2 + [Job(400, 2, c_s)]
    scheduler = linear({"bias": 0.01, "fragments": 0.5, "wait_over_loss": 1.0}, rest_share=share)
    run = play(world(jobs, topology, physics=physics), scheduler)
    assert gantt(run)["C"] == stay


def test_a_job_joins_the_server_that_it_does_not_keep_from_falling_empty():
    # C ends before B does, so it costs nothing beside B, but keeps A's server from 1000 to 5100.
    # D ends before A does: both places cost nothing, the lower GPU wins.
    jobs = [Job(0, 1, 1000), Job(0, 1, 6000), Job(100, 1, 5000), Job(100, 1, 200)]
    scheduler = linear({"bias": 1.0, "fragments": 1.0, "prolongs": -1.0})
    assert charted(jobs, cluster(2, 2), scheduler, column_s=100.0) == (
        f"Aaaaaaaaaa .Dd B{'b' * 59} .C{'c' * 49}"
    )


@pytest.mark.parametrize(("weight", "gpu", "began_s"), [(0.0, 1, 2020), (-1.0, 3, 1000)])
def test_a_job_keeps_off_the_server_that_a_waiting_gang_will_have(weight, gpu, began_s):
    # C wants a whole server: A's falls empty at 1000. D, 2000 s long, would put that off by 1020 s.
    topology = cluster(2, 2)
    physics = physics_of(topology, server_s=SPREAD_STEP)
    jobs = [Job(0, 1, 1000), Job(0, 1, 3000), Job(10, 2, 500), Job(20, 1, 2000)]
    scheduler = linear({"bias": 1.0, "fragments": 0.5, "spread": -9.0, "holds_up": weight})
    run = play(world(jobs, topology, physics=physics), scheduler)
    assert gantt(run)["D"][:1] + gantt(run)["D"][2:] == (20, (gpu,))
    assert gantt(run)["C"][0] == began_s


BUSY = [Job(0, 1, 1000), Job(0, 1, 300, home=1), Job(10, 1, 100)]


@pytest.mark.parametrize(("weight", "stay"), [(1.0, (300, 400, (1,))), (0.0, (1000, 1100, (0,)))])
def test_a_waiting_job_goes_to_where_it_is_predicted_to_start_sooner(weight, stay):
    # C is handed over at 10 and waits there.
    forward = {"bias": -0.1, "wait_difference": weight}
    run = play(world(BUSY, cluster(2, 1), partitions=2), linear({"bias": 1.0}, forward))
    assert gantt(run)["C"] == stay
    assert run.forwards.tolist() == [0, 0, int(weight)]


@pytest.mark.parametrize(("weight", "stay"), [(1.0, (1000, 1100, (0,))), (0.0, (1200, 1300, (1,)))])
def test_who_waits_elsewhere_counts_if_it_is_shorter(weight, stay):
    # B ends before A does, but C, 300 s long, waits behind it: D starts sooner at home. Without the
    # line of those who wait D goes to where the GPU falls empty first.
    jobs = [Job(0, 1, 1000), Job(0, 1, 900, home=1), Job(10, 1, 300, home=1), Job(20, 1, 400)]
    forward = {"bias": -0.01, "start_difference": weight, "wait_difference": 1.0 - weight}
    scheduler = linear({"bias": 1.0, "duration": -0.1}, forward)
    run = play(world(jobs, cluster(2, 1), partitions=2, max_forwards=1), scheduler)
    assert gantt(run)["C"] == (900, 1200, (1,))
    assert gantt(run)["D"][:1] + gantt(run)["D"][2:] == stay[:1] + stay[2:]


@pytest.mark.parametrize(
    ("forward", "gpu"),
    [({}, 5), ({"prolongs": -1.0}, 9), ({"fragments": -1.0}, 15), ({"puts_off": -1.0}, 9)],
)
def test_what_a_job_would_do_to_the_place_it_would_have_elsewhere_counts(forward, gpu):
    # F has no room at home (GPUs 0 to 3). Of the others, the first falls empty at 1000, the second
    # at 9000, after F; the third at 2000, and has one empty GPU.
    jobs = [Job(0, 4, 9500), Job(0, 1, 1000, home=1), Job(0, 1, 9000, home=2),
            Job(0, 1, 2000, home=3), Job(0, 2, 2000, home=3), Job(10, 1, 8000)]  # fmt: skip
    scheduler = linear({"bias": 1.0}, {"bias": -0.1, "placeable": 1.0} | forward)
    run = play(world(jobs, cluster(4, 4), partitions=4, max_forwards=1), scheduler)
    assert gantt(run)["F"][2] == (gpu,)


def test_a_place_that_makes_a_long_job_faster_still_has_a_score():
    """Steps of 0.9 times the reference gain a job of 10 h 3,600 s: far more than a wait weighs."""
    gains, costs = (wait_over_loss(0.0, math.log(ratio), 36_000.0) for ratio in (0.9, 1.1))
    assert math.isclose(gains, math.log(60.0) / 2.5)
    assert math.isclose(costs, math.log(60.0 / 3_660.0) / 2.5)
