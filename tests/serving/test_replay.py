"""A trace played against the service gets the simulator's own decisions."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpuyard.evaluation.experiment import composition_of, experiment_of
from gpuyard.serving.serve import ServedScheduler, ServiceError
from sim.decision import Decision
from sim.protocols import Scheduler
from sim.simulator import simulate
from sim.view import ClusterView
from tests.serving.conftest import CLUSTER, Service, served

JOBS = ("workload=venus_like", "workload.num_jobs=100", "workload.load=1.5")


class Both:
    """Asks two schedulers at every decision, and goes on as the first says."""

    name = "both"

    def __init__(self, own: Scheduler, other: Scheduler) -> None:
        self.own, self.other = own, other
        self.needs = own.needs | other.needs
        self.orders = 0

    def reset(self, seed: int) -> None:
        self.own.reset(seed)
        self.other.reset(seed)

    def decide(self, view: ClusterView) -> Decision:
        own, other = self.own.decide(view), self.other.decide(view)
        assert plain(own) == plain(other), f"at t={view.now_s}"
        self.orders += len(own.starts) + len(own.preempts) + len(own.forwards)
        return own


def plain(decision: Decision) -> Any:
    starts = [(each.job, each.gpus.tolist(), each.lease_s) for each in decision.starts]
    return starts, decision.preempts, decision.forwards, decision.wake_s, decision.again


def played(config: dict[str, Any], url: str) -> Both:
    """The jobs, many submitted at one time, to their end; the service decides, too."""
    experiment = experiment_of(config)
    own = composition_of(config, experiment.world.partitions)
    both = Both(own, ServedScheduler(url=url, token_file=None, timeout_s=60.0))
    jobs = experiment.whole()
    jobs = replace(jobs, submit_s=np.floor(jobs.submit_s / 20_000.0) * 20_000.0)
    simulator = experiment.world.simulator(jobs)
    run = simulate(simulator, both, experiment.seed, None, compiled=False)
    assert (run.finish_s > 0).all()
    return both


def test_sjf_decides_as_in_the_simulator(service: Service, configured: Callable[..., Any]):
    assert played(configured(*CLUSTER, *JOBS), service.url).orders >= 40


def test_parts_of_gpus_cores_and_memory_reach_the_service(tmp_path: Path, configured: Any):
    words = ("topology=dgx_leaf_spine", "topology.servers=2", "scheduler=fifo")
    jobs = ("workload=openb_like", "workload.num_jobs=100", "workload.load=1.5")
    config = configured(*words, *jobs, "workload.rules.unknown_gpu_types=any")
    assert experiment_of(config).whole().demands is not None
    with served(tmp_path, *words) as service:
        assert played(config, service.url).orders >= 40


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("scheduler=marl", "checkpoint=pretrained", "agents.count=4"),
        ("scheduler=marl", "checkpoint=pretrained_suspending", "agents.count=4"),
        ("scheduler=las", "scheduler.quantum_gpu_s=57600"),
        ("scheduler=sjf", "sharing=selective", "forwarding=steal", "agents.count=4"),
    ],
    ids=["agents", "suspending", "las", "sharing"],
)
def test_policies_and_others_decide_as_in_the_simulator(
    words: tuple[str, ...], configured: Callable[..., Any], tmp_path: Path
):
    words = ("topology=small_leaf_spine", *words)
    with served(tmp_path, *words) as service:
        assert played(configured(*words, *JOBS), service.url).orders >= 40


def test_the_client_refuses_silence_and_another_cluster(service: Service, configured: Any):
    with pytest.raises(ServiceError, match="give both the same topology"):
        played(configured("topology=dgx_leaf_spine", "scheduler=sjf", *JOBS), service.url)
    with pytest.raises(ServiceError, match="does `gpuyard serve` run"):
        ServedScheduler(url="http://127.0.0.1:9", token_file=None, timeout_s=1.0)
    with pytest.raises(ServiceError, match="must be like http"):
        ServedScheduler(url="127.0.0.1:8023", token_file=None, timeout_s=1.0)
