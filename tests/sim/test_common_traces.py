"""The common traces: mean JCTs that other simulators of strict FIFO reach on them too."""

import os
import runpy
from pathlib import Path

import numpy as np
import pytest

from sim.placers.by_room import Consolidated, Packed
from sim.schedulers.orders import Fifo
from sim.sharing import NoSharing
from tests.sim.worlds import Job, cluster, play, world

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
    scheduler = Fifo(placer=PLACERS[placer], sharing=NoSharing(), skip_blocked=False)
    run = play(world(jobs, cluster(gpus // 8, 8)), scheduler)
    assert float(np.mean(run.finish_s - run.jobs.submit_s)) == pytest.approx(
        MEAN_JCT_S[placer][name], abs=0.05
    )
