"""Mean waits and JCTs that are known: in closed form, and from other simulators of FIFO."""

import math
import os
import runpy
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sim.placers.by_room import Consolidated, Packed
from tests.sim.worlds import Job, cluster, fifo, job_table, play, world

JOBS, WARM, BATCHES = 164_000, 4_000, 20
T_999 = 3.883  # two-sided 99.9 % quantile of Student's t with BATCHES - 1 degrees of freedom


@cache
def same_jobs() -> dict[str, Any]:
    """Columns of a table of jobs of one GPU, each to be given times of its own."""
    return vars(job_table([Job(0.0, 1, 1.0)] * JOBS))


Service = Callable[[np.random.Generator, int], np.ndarray]  # of mean 1
SERVICES: dict[str, tuple[Service, float]] = {  # with E[S^2]
    "exponential": (lambda rng, n: rng.exponential(1.0, n), 2.0),
    "deterministic": (lambda _, n: np.ones(n), 1.0),
    "uniform": (lambda rng, n: rng.uniform(0.0, 2.0, n), 4.0 / 3.0),
    "lognormal": (lambda rng, n: rng.lognormal(-0.125, 0.5, n), math.exp(0.25)),
    "two_speeds": (lambda rng, n: rng.choice([0.5, 3.0], n, p=[0.8, 0.2]), 2.0),
}


def mean_wait(servers: int, load: float, service: Service, seed: int) -> tuple[float, float]:
    """Mean time in the queue and the half-width of its 99.9 % interval (batch means)."""
    rng = np.random.default_rng(seed)
    submit_s = np.cumsum(rng.exponential(1.0 / (load * servers), JOBS))
    lengths_s = service(rng, JOBS)
    times = {"submit_s": submit_s, "duration_s": lengths_s, "estimate_s": lengths_s}
    scheduler = fifo(skip_blocked=False)
    setting = world([Job(0.0, 1, 1.0)], cluster(servers, 1), traits=same_jobs() | times)
    run = play(setting, scheduler)
    wait_s = (run.start_s - run.jobs.submit_s)[WARM:]
    means = wait_s.reshape(BATCHES, -1).mean(axis=1)
    return float(means.mean()), T_999 * float(means.std(ddof=1)) / math.sqrt(BATCHES)


def erlang_c(servers: int, load: float) -> float:
    """Probability that a job waits in M/M/c; by Erlang B's recursion."""
    offered, blocked = servers * load, 1.0
    for c in range(1, servers + 1):
        blocked = offered * blocked / (c + offered * blocked)
    return blocked / (1.0 - load * (1.0 - blocked))


def check(wait_s: float, half_s: float, theory_s: float) -> None:
    assert half_s < 0.25 * theory_s, "the interval is too wide to say anything"
    assert abs(wait_s - theory_s) < half_s, (wait_s, half_s, theory_s)


@pytest.mark.parametrize("load", [0.3, 0.5, 0.7])
@pytest.mark.parametrize("servers", [1, 2, 4])
def test_m_m_c_waits_as_erlang_c_says(servers: int, load: float):
    # Erlang (1917): W = C(c, c rho) / (c (1 - rho)) service times.
    wait_s, half_s = mean_wait(servers, load, SERVICES["exponential"][0], seed=17 + servers)
    check(wait_s, half_s, erlang_c(servers, load) / (servers * (1.0 - load)))


@pytest.mark.parametrize("load", [0.4, 0.7])
@pytest.mark.parametrize("service", SERVICES)
def test_m_g_1_waits_as_pollaczek_and_khinchine_say(service: str, load: float):
    # W = rho E[S^2] / (2 (1 - rho)) for E[S] = 1.
    draw, second_moment = SERVICES[service]
    wait_s, half_s = mean_wait(1, load, draw, seed=5)
    check(wait_s, half_s, load * second_moment / (2.0 * (1.0 - load)))


ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("GPUYARD_DATA", "../shared/data"))
SCRIPT = (ROOT / DATA).parent / "bench" / "common_traces.py"
TRACES = {"S": (1_000, 64, 0.9, 7), "M": (10_000, 512, 0.9, 7), "L": (10_000, 2_496, 0.9, 7),
          "H": (10_000, 64, 0.95, 11)}  # fmt: skip
MEAN_JCT_S = {
    "consolidated": {"S": 31_611.8, "M": 4_815.3, "L": 3_746.5, "H": 499_051.8},
    "packed": {"S": 7_966.5, "M": 3_831.5, "L": 3_746.5, "H": 98_764.5},
}
PLACERS = {"consolidated": Consolidated(), "packed": Packed()}


@pytest.fixture(scope="module")
def generator():
    if not SCRIPT.is_file():
        pytest.skip("the common traces' generator is not there; point GPUYARD_DATA beside `bench/`")
    return runpy.run_path(str(SCRIPT))["jobs"]


@pytest.mark.parametrize("placer", PLACERS)
@pytest.mark.parametrize("name", TRACES)
def test_mean_jct_of_strict_fifo(generator, name: str, placer: str):
    count, gpus, load, seed = TRACES[name]
    rows = generator(count, gpus, load=load, seed=seed)
    jobs = [Job(float(submit_s), gang, float(length_s)) for _, submit_s, gang, length_s in rows]
    scheduler = fifo(PLACERS[placer], skip_blocked=False)
    run = play(world(jobs, cluster(gpus // 8, 8)), scheduler)
    assert float(np.mean(run.finish_s - run.jobs.submit_s)) == pytest.approx(
        MEAN_JCT_S[placer][name], abs=0.05
    )
