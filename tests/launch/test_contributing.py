"""The scheduler that CONTRIBUTING shows works as it stands there."""

import re
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
import yaml

import gpuyard
from sim.jobs import JobTable
from sim.physics.catalogue import Catalogue
from sim.physics.networks import NoNetwork
from sim.physics.physics import Physics
from sim.physics.shipped_files import NoInterference
from sim.placers.by_room import FirstFit
from sim.run import Kind
from sim.schedulers.orders import Fifo
from sim.sharing import NoSharing
from sim.simulator import Simulator, simulate
from sim.topology.generators import leaf_spine
from sim.topology.outages import NO_OUTAGES
from sim.topology.topology import Topology
from tests.sim.worlds import rules_of

ROOT = Path(__file__).resolve().parents[2]


def shown(language: str, number: int = 0) -> tuple[str, str]:
    """File name and text of a block in that language."""
    pattern = rf"`([\w/]+\.\w+)`\n\n```{language}\n(.*?)```"
    found = re.findall(pattern, (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL)
    assert len(found) > number, f"CONTRIBUTING.md shows no {language} file"
    name, text = found[number]
    return name, text


def one_server(gpus: int) -> Topology:
    return leaf_spine(
        name="one", servers=1, gpus_per_server=gpus, servers_per_rack=1, gpu_types=["p100"],
        intra_gbps=80.0, nic_gbps=10.0, oversubscription=1.0,
    )  # fmt: skip


def table(num_gpus: list[int], duration_s: list[float]) -> JobTable:
    """Jobs that all arrive at 0."""
    count = len(num_gpus)
    return JobTable(
        job_id=np.array([f"job-{row}" for row in range(count)], dtype=object),
        submit_s=np.zeros(count),
        num_gpus=np.array(num_gpus),
        duration_s=np.array(duration_s),
        estimate_s=np.full(count, np.nan),
        profile=np.zeros(count, dtype=np.int64),
        home=np.zeros(count, dtype=np.int64),
        measured=np.ones(count, dtype=np.bool_),
    )


def plain_physics(topology: Topology) -> Physics:
    """Speed 1 everywhere."""
    catalogue = Catalogue(
        names=("any/0",), gpu_types=("p100",), compute_s=np.ones((1, 1)),
        sync_bytes=np.zeros(1), gang_ok=np.ones(1, dtype=np.bool_), source="by hand",
    )  # fmt: skip
    return Physics(
        catalogue=catalogue,
        pairs=NoInterference().pair_table(catalogue),
        network=NoNetwork().tables(catalogue, topology),
        reference_gpu="p100",
    )


@pytest.fixture
def largest_gang():
    """The scheduler as a user would have it: the class shown, with the values shown."""
    path, code = shown("python")
    module = ModuleType("shown")
    exec(compile(code, path, "exec"), module.__dict__)
    name, text = shown("yaml")
    values = yaml.safe_load(text)
    target, _, cls = values.pop("_target_").rpartition(".")
    assert target.replace(".", "/") + ".py" == path
    assert Path(name).stem == Path(path).stem
    assert (values.pop("placer"), values.pop("sharing")) == ("${placer}", "${sharing}")
    return getattr(module, cls)(placer=FirstFit(), sharing=NoSharing(), **values)


def test_the_scheduler_shown_starts_large_gangs_first(largest_gang):
    """GPUs 0-3: job 2 (4 GPUs) till 5, then jobs 1 (2 GPUs) and 0 (1 GPU) till 8 and 15."""
    topology = one_server(4)
    physics = plain_physics(topology)
    simulator = Simulator(
        jobs=table([1, 2, 4], [10.0, 3.0, 5.0]), topology=topology, physics=physics,
        belief=physics, partition_of_server=np.zeros(1, dtype=np.int64),
        rules=rules_of(max_forwards=0), outages=NO_OUTAGES,
    )  # fmt: skip
    run = simulate(simulator, largest_gang, 0, None)
    assert run.scheduler == "largest_gang+first_fit"
    assert run.start_s.tolist() == [5.0, 5.0, 0.0]
    assert run.finish_s.tolist() == [15.0, 8.0, 5.0]


def test_the_whole_scheduler_shown_preempts_for_shorter_jobs():
    """4 GPUs: B and C stop A at 2, of which 8 s are left; B ends at 5, C at 4, A at 13."""
    path, code = shown("python", 1)
    module = ModuleType("shown_scheduler")
    exec(compile(code, path, "exec"), module.__dict__)
    jobs = pd.DataFrame({"job_id": list("ABC"), "submit_s": [0, 2, 2], "num_gpus": [4, 2, 1]})
    run = gpuyard.simulate(
        jobs.assign(duration_s=[10, 3, 2]), one_server(4), module.ShortestRemaining(),
        overrides=["estimator=oracle", "interference=none", "network=none", "restart_s=0"],
    ).raw  # fmt: skip
    assert run.finish_s.tolist() == [13.0, 5.0, 4.0]
    assert run.decides == "python (shortest_remaining has rounds or placements of its own)"


def test_the_placer_shown_takes_the_tightest_rack():
    """Racks of 4 GPUs: A takes 3 of one, so that B fits there and C does not; D takes both."""
    path, code = shown("python", 2)
    module = ModuleType("shown_placer")
    exec(compile(code, path, "exec"), module.__dict__)
    jobs = pd.DataFrame({"job_id": list("ABCD"), "submit_s": range(4), "duration_s": 100.0})
    topology = leaf_spine(
        name="racks", servers=4, gpus_per_server=2, servers_per_rack=2, gpu_types=["p100"],
        intra_gbps=80.0, nic_gbps=10.0, oversubscription=1.0,
    )  # fmt: skip
    order = Fifo(placer=module.TightestRack(), sharing=NoSharing(), skip_blocked=False)
    run = gpuyard.simulate(
        jobs.assign(num_gpus=[3, 1, 2, 8]), topology, order,
        overrides=["interference=none", "network=none"],
    ).raw  # fmt: skip
    starts = {int(run.log.job[at]): run.log.gpus[at].tolist() for at in np.flatnonzero(
        run.log.kind == Kind.START)}  # fmt: skip
    assert starts == {0: [0, 1, 2], 1: [3], 2: [4, 5], 3: list(range(8))}
