"""The schedulers and the placer that CONTRIBUTING shows work as they stand there."""

import re
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import yaml

import gpuyard
from sim.placers.by_room import FirstFit
from sim.run import Kind, Run
from sim.schedulers.orders import Fifo
from sim.sharing import NoSharing
from sim.topology.generators import leaf_spine
from sim.topology.topology import Topology

ROOT = Path(__file__).resolve().parents[2]
OFF = ["estimator=oracle", "interference=none", "network=none", "restart_s=0"]


def shown(language: str, number: int = 0) -> tuple[str, str]:
    """File name and text of a block in that language."""
    pattern = rf"`([\w/]+\.\w+)`\n\n```{language}\n(.*?)```"
    found = re.findall(pattern, (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL)
    assert len(found) > number, f"CONTRIBUTING.md shows no {language} file"
    return found[number]


def module_shown(number: int = 0) -> tuple[str, ModuleType]:
    path, code = shown("python", number)
    module = ModuleType(f"shown_{number}")
    exec(compile(code, path, "exec"), module.__dict__)
    return path, module


def racks(servers: int, gpus: int, servers_per_rack: int = 1) -> Topology:
    return leaf_spine(
        name="own", servers=servers, gpus_per_server=gpus, servers_per_rack=servers_per_rack,
        gpu_types=["p100"], intra_gbps=80.0, nic_gbps=10.0, oversubscription=1.0,
    )  # fmt: skip


def played(scheduler: object, topology: Topology, **columns: object) -> Run:
    jobs = pd.DataFrame({"job_id": [f"j{n}" for n in range(len(columns["num_gpus"]))], **columns})
    return gpuyard.simulate(jobs, topology, scheduler, overrides=OFF).raw


def test_the_scheduler_shown_starts_large_gangs_first():
    """GPUs 0-3: job 2 (4 GPUs) till 5, then jobs 1 (2 GPUs) and 0 (1 GPU) till 8 and 15.

    The class has the values shown, as a user would have it.
    """
    path, module = module_shown()
    name, text = shown("yaml")
    values = yaml.safe_load(text)
    target, _, cls = values.pop("_target_").rpartition(".")
    assert target.replace(".", "/") + ".py" == path
    assert Path(name).stem == Path(path).stem
    assert (values.pop("placer"), values.pop("sharing")) == ("${placer}", "${sharing}")
    largest_gang = getattr(module, cls)(placer=FirstFit(), sharing=NoSharing(), **values)
    run = played(largest_gang, racks(1, 4), submit_s=0, num_gpus=[1, 2, 4], duration_s=[10, 3, 5])
    assert run.scheduler == "largest_gang+first_fit"
    assert run.start_s.tolist() == [5.0, 5.0, 0.0]
    assert run.finish_s.tolist() == [15.0, 8.0, 5.0]


def test_the_whole_scheduler_shown_preempts_for_shorter_jobs():
    """4 GPUs: B and C stop A at 2, of which 8 s are left; B ends at 5, C at 4, A at 13."""
    run = played(
        module_shown(1)[1].ShortestRemaining(), racks(1, 4),
        submit_s=[0, 2, 2], num_gpus=[4, 2, 1], duration_s=[10, 3, 2],
    )  # fmt: skip
    assert run.finish_s.tolist() == [13.0, 5.0, 4.0]
    assert run.decides == "python (shortest_remaining has rounds or placements of its own)"


def test_the_placer_shown_takes_the_tightest_rack():
    """Racks of 4 GPUs: A takes 3 of one, so that B fits there and C does not; D takes both."""
    placer = module_shown(2)[1].TightestRack()
    order = Fifo(placer=placer, sharing=NoSharing(), skip_blocked=False)
    run = played(order, racks(4, 2, 2), submit_s=range(4), num_gpus=[3, 1, 2, 8], duration_s=100.0)
    starts = np.flatnonzero(run.log.kind == Kind.START)
    assert {int(run.log.job[at]): run.log.gpus[at].tolist() for at in starts} == {
        0: [0, 1, 2], 1: [3], 2: [4, 5], 3: list(range(8)),
    }  # fmt: skip
