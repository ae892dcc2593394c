"""A saved policy is the policy: it plays as it did, on any number of agents."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from marl.policy.build import load_policy, save_policy
from marl.schedulers.marl import MarlScheduler
from sim.run import Run
from sim.simulator import simulate
from tests.marl.worlds import MIXED_JOBS, RULES, SMALL, RandomJobs, events, loud_policy, mixed_world


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_policy(tmp_path / "policy", loud_policy(SMALL, 0), SMALL, RULES)
    return tmp_path / "policy"


def deployed(folder: Path, seed: int, partitions: int = 2, untrained: bool = False) -> Run:
    jobs = replace(MIXED_JOBS, partitions=partitions)(seed)
    scheduler = MarlScheduler(checkpoint=str(folder), untrained=untrained)
    return simulate(mixed_world(partitions).simulator(jobs), scheduler, seed, None)


def test_a_saved_policy_decides_the_same(folder: Path, tmp_path: Path):
    loaded, spec, rules = load_policy(folder, 2)
    assert (spec, rules) == (SMALL, RULES)
    save_policy(tmp_path / "again", loaded, spec, rules)
    runs = [deployed(place, 1) for place in (folder, folder, tmp_path / "again")]
    assert len({events(run) for run in runs}) == 1
    save_policy(tmp_path / "other", loud_policy(SMALL, 5), SMALL, RULES)
    assert events(deployed(tmp_path / "other", 1)) != events(runs[0])


@pytest.mark.parametrize("partitions", [1, 2, 4])
def test_one_set_of_weights_runs_on_any_number_of_agents(folder: Path, partitions: int):
    jobs = RandomJobs(count=20, partitions=partitions, most_gpus=3, span_s=2000.0)(0)
    scheduler = MarlScheduler(checkpoint=str(folder), untrained=False)
    run = simulate(mixed_world(partitions).simulator(jobs), scheduler, 0, None)
    assert np.isfinite(run.finish_s).all()
    assert scheduler.name == "marl"


def test_untrained_takes_sizes_only_and_draws_weights_from_the_seed(folder: Path):
    torch.manual_seed(123)
    one, again = (deployed(folder, 1, untrained=True) for _ in range(2))
    assert one.scheduler == "marl_untrained"
    assert events(one) == events(again)
    assert events(one) != events(deployed(folder, 1))
    before = torch.random.get_rng_state()
    deployed(folder, 2, untrained=True)
    assert torch.equal(before, torch.random.get_rng_state())  # nobody else's draws change


def test_rules_travel_with_the_policy(tmp_path: Path):
    rules = replace(RULES, window=2, only_placeable=False, sharing=False)
    save_policy(tmp_path, loud_policy(SMALL, 0), SMALL, rules)
    assert load_policy(tmp_path, 2)[2] == rules
    run = deployed(tmp_path, 1)
    held: dict[int, int] = {}
    for kind, gpus in zip(run.log.kind.tolist(), run.log.gpus, strict=True):
        for gpu in gpus.tolist():
            held[gpu] = held.get(gpu, 0) + (1 if kind == 4 else -1)
        assert all(count <= 1 for count in held.values())  # sharing was forbidden in training
