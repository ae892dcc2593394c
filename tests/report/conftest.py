"""A small finished run, its record, and rows of a comparison made by hand."""

from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest

from sim.files import ComparisonRow, Labels
from sim.report.run_folder import collect_record
from sim.report.summary import summarise
from tests.report import run_builder
from tests.report.run_builder import eventful_run


def labels(scheduler="fifo", **changes):
    values = {
        "scheduler": scheduler, "topology": "leaf_spine", "workload": "synthetic", "load": 0.9,
        "agents": 2, "seed": 0, "window": 0, "information": "none", "interference_info": "none",
        "physics": "off", "role": "composite",
    }  # fmt: skip
    return Labels(**(values | changes))


def row(scheduler="fifo", jct_h=1.0, **changes):
    jct_s = jct_h * 3600.0
    metrics = {
        "jobs_finished": 10, "jct_mean_s": jct_s, "jct_p50_s": jct_s / 2, "jct_p95_s": jct_s * 3,
        "jct_p99_s": jct_s * 5, "queue_delay_mean_s": jct_s / 4, "makespan_s": 9e5,
        "gpu_util_frac": 0.75, "decision_ms_mean": 0.1, "loop_wall_s": 0.2, "jobs_unfinished": 0,
        "jobs_withdrawn": 0,
    }  # fmt: skip
    extra = {key: changes.pop(key) for key in list(changes) if key in metrics}
    return ComparisonRow(labels(scheduler, **changes), metrics | extra)


@pytest.fixture
def make():
    """`make.labels(...)` and `make.row(scheduler, jct_h, ...)`."""
    return SimpleNamespace(labels=labels, row=row)


@pytest.fixture(scope="session")
def run():
    """Three jobs on one server of 2 GPUs; the last never starts."""
    job = run_builder.Job
    jobs = [
        job(0.0, 100.0, ((0.0, 100.0, [0, 1]),), gpus=2, measured=False),
        job(10.0, 50.0, ((100.0, 110.0, [0]), (120.0, 160.0, [1]))),
        job(20.0, 50.0),
    ]
    return run_builder.build_run(jobs, servers=1, gpus_per_server=2, partitions=1)


@pytest.fixture(scope="session")
def metrics(run):
    return summarise(run)


@pytest.fixture
def record():
    return collect_record(
        labels=labels("by_hand"), program="simulate", command=["simulate", "seed=0"],
        overrides=["seed=0"], seed=0, config_yaml="seed: 0\n",
    )  # fmt: skip


@pytest.fixture
def three_schedulers():
    """6 windows x 3 schedulers; window w is w + 1 times as hard; ours is 20 % faster than sjf."""
    rng = np.random.default_rng(3)
    rows = []
    for window in range(6):
        noise = np.exp(rng.normal(0, 0.01, size=3))
        hard = window + 1
        rows += [
            row("fifo", 9 * hard * noise[0], window=window),
            row("sjf", 5 * hard * noise[1], window=window, information="predicted"),
            row("agents", 4 * hard * noise[2], window=window, role="ours"),
        ]
    return rows


@pytest.fixture(scope="session")
def hand():
    """`hand.Job(...)` and `hand.build_run(jobs, servers, gpus_per_server, partitions)`."""
    return run_builder


@pytest.fixture(scope="session")
def gantt(hand):
    """Five jobs on 2 servers of 2 GPUs, one partition a server.

    ::

        t (s)     0    10    20    30    40    50    60
        GPU 0     AAAAAAAAAAAABBBBBBCCCCCC            |   A: 2 GPUs, 0-20
        GPU 1     AAAAAAAAAAAA      CCCCCC            |   B: 1 GPU, waits 10-20, runs 20-30
        GPU 2           DDDDDDDDDDDDDDDDDD            |   C: 2 GPUs, 10-15 on 2+3 (preempted),
        GPU 3           EEEEEEEEEEEE                  |      again 30-40 on 0+1
        GPU 2           CCC (10-15, shared with D)        D: 1 GPU, 10-40 (shares GPU 2 with C)
        GPU 3           CCC (10-15), E from 15            E: 1 GPU, waits 10-15, runs 15-35
    """
    job = hand.Job
    jobs = [
        job(0.0, 20.0, ((0.0, 20.0, [0, 1]),), gpus=2),
        job(10.0, 10.0, ((20.0, 30.0, [0]),)),
        job(10.0, 15.0, ((10.0, 15.0, [2, 3]), (30.0, 40.0, [0, 1])), gpus=2, home=1),
        job(10.0, 20.0, ((10.0, 40.0, [2]),), home=1),
        job(10.0, 20.0, ((15.0, 35.0, [3]),), home=1, forwarded_s=(10.0,)),
    ]
    return hand.build_run(jobs, servers=2, gpus_per_server=2, partitions=2)


@pytest.fixture(scope="session")
def eventful():
    """`eventful(seed)`: a run of the real kernel in which everything happens, played once."""
    return cache(eventful_run)


@pytest.fixture(scope="session")
def cut_off(hand):
    """Two jobs on two GPUs; the second, which began at 5, still runs when the run ends at 30."""
    jobs = [
        hand.Job(0.0, 90.0, ((5.0, 90.0, [1]),), finished=False),
        hand.Job(0.0, 10.0, ((0.0, 30.0, [0]),)),
    ]
    return hand.build_run(jobs, 1, 2, 1)
