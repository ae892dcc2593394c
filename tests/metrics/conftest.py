"""The hand-made runs, as fixtures."""

import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest


@pytest.fixture(scope="session")
def hand() -> SimpleNamespace:
    """`hand.Job(...)` and `hand.build_run(jobs, servers, gpus_per_server, partitions)`."""
    return SimpleNamespace(**runpy.run_path(str(Path(__file__).parent / "run_builder.py")))


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
    """`eventful(seed)`: a run of the real kernel in which everything happens."""
    return runpy.run_path(str(Path(__file__).parent / "eventful.py"))["eventful_run"]
