"""Throughput and spans, by hand."""

import numpy as np
import pytest

from sim.metrics.job_times import full_speed, spans, throughput
from sim.placers.by_room import FirstFit
from sim.schedulers.orders import Fifo
from sim.sharing import NoSharing
from tests.sim.worlds import Job, cluster, physics_of, play, world


def played():
    # GPU 0   AAAAAAAAAA      one GPU each; C on both from 10 to 14
    # GPU 1   .BBBB.....
    trace = [Job(0, 1, 10), Job(1, 1, 4), Job(2, 2, 4)]
    return play(
        world(trace, cluster(2, 1, servers_per_rack=1)),
        Fifo(placer=FirstFit(), sharing=NoSharing(), skip_blocked=False),
    )


def test_work_in_a_span_counts_and_no_other():
    run = played()
    worth = np.array([1.0, 1.0, 2.0])
    assert throughput(run, worth, 0.0, 14.0) == pytest.approx((10 + 4 + 8) / 14)
    assert throughput(run, worth, 0.0, 2.0) == pytest.approx((2 + 1) / 2)
    assert throughput(run, worth, 11.0, 13.0) == pytest.approx(2.0)


def test_spans_of_placements():
    servers, racks = spans(played())
    assert servers.tolist() == [1, 1, 2]
    assert racks.tolist() == [1, 1, 2]


def test_without_profiles_for_gangs_a_gpu_is_worth_one():
    run = played()
    topology = run.topology
    assert full_speed(run.jobs, topology, physics_of(topology)).tolist() == [1.0, 1.0, 2.0]
