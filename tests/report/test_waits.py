"""What jobs waited for, on hand-made runs."""

from dataclasses import replace

import numpy as np
import pytest

from sim.jobs import Demands, Elastic
from sim.report.waits import waits_of
from sim.run import Kind


def test_what_jobs_wait_for(hand):
    # 2 partitions of 4 GPUs. The first is full until 10; the second is down from 4 to 6.
    job = hand.Job
    jobs = [
        job(0.0, 10.0, ((0.0, 10.0, [0, 1, 2, 3]),), gpus=4),
        job(0.0, 5.0, ((12.0, 17.0, [0, 1]),), gpus=2),  # free in the other until 10, then here
        job(2.0, 5.0, (), gpus=6, finished=False),  # larger than its partition
        job(3.0, 5.0, ((17.0, 22.0, [4]),), home=1, forwarded_s=(5.0,)),
    ]
    down = ((4.0, Kind.SERVER_DOWN, [4, 5, 6, 7]), (6.0, Kind.SERVER_UP, [4, 5, 6, 7]))
    run = hand.build_run(jobs, 2, 4, partitions=2, server_events=down)
    waits = waits_of(run)
    assert waits.job.tolist() == [0, 1, 2, 3, 3]
    assert waits.too_few_s == pytest.approx([0, 2, 8, 1, 1])
    assert waits.elsewhere_s == pytest.approx([0, 8, 12, 0, 0])
    assert waits.held_back_s == pytest.approx([0, 2, 0, 1, 11])
    assert not waits.no_room_s.any()


def test_free_gpus_beside_too_few_cores_or_of_another_type_are_no_room(hand):
    # Servers of 2 GPUs and 4 cores, a v100 and a p100; the job of row 0 takes all cores of the
    # first until 10, and the one of row 1 half of a p100 until 20.
    job = hand.Job
    jobs = [
        job(0.0, 10.0, ((0.0, 10.0, [0]),)),
        job(0.0, 20.0, ((0.0, 20.0, [2]),)),
        job(0.0, 5.0, ((10.0, 15.0, [1]),)),  # a v100 and a core: none left until 10
        job(0.0, 5.0, ((12.0, 17.0, [3]),)),  # a p100 and a core: held back
        job(1.0, 5.0, ((17.0, 22.0, [2]),)),  # half a p100: from 12 to 17 beside row 1
        job(1.0, 5.0, ((20.0, 25.0, [2, 3]),), gpus=2),  # whole p100s, of which one is free: two
        job(1.0, 9.0, (), gpus=4, finished=False),  # too few are free until the end, 25
    ]
    run = hand.build_run(jobs, 2, 2, 1, gpu_types=("v100", "p100"))
    types = [1, 2, 1, 2, 2, 2, -1]
    demands = Demands(*np.array([
        [1000, 500, 1000, 1000, 500, 1000, 1000], [4000, 0, 1000, 1000, 0, 0, 0], [0] * 7, types,
    ]))  # fmt: skip
    topology = replace(run.topology, server_cpu_milli=np.array([4000, 4000]))
    run = replace(run, jobs=replace(run.jobs, demands=demands), topology=topology)
    waits = waits_of(run)
    assert waits.job.tolist() == list(range(7))
    # Row 5 wants 2 of 2 to 3 free GPUs until 12, when row 3 leaves one, until 17.
    assert waits.no_room_s == pytest.approx([0, 0, 10, 0, 0, 11 + 5, 0])
    assert waits.too_few_s == pytest.approx([0, 0, 0, 0, 0, 3, 24])
    assert waits.held_back_s == pytest.approx([0, 0, 0, 12, 16, 0, 0])


def test_an_elastic_job_waits_for_the_gpus_that_it_starts_with(hand):
    job = hand.Job
    jobs = [
        job(0.0, 10.0, ((0.0, 10.0, [0, 1]),), gpus=2),
        job(0.0, 5.0, ((8.0, 13.0, [2, 3]),), gpus=4),  # would take two: held back, none too few
    ]
    run = hand.build_run(jobs, 1, 4, 1)
    least = Elastic(least_gpus=np.array([1, 2]), most_gpus=np.array([2, 4]))
    waits = waits_of(replace(run, jobs=replace(run.jobs, elastic=least)))
    assert waits.held_back_s == pytest.approx([0, 8]) and not waits.too_few_s.any()
