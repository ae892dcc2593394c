"""A saved policy plays as it did: on any number of agents, in lockstep, carrying out its orders."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from marl.env.layout import WORKER
from marl.policy.build import load_policy, save_policy
from marl.policy.pair_score import best_action
from marl.schedulers.marl import MarlScheduler
from marl.training.episodes import greedy
from sim.run import Run
from sim.simulator import simulate
from tests.marl.worlds import (
    MIXED_JOBS,
    RULES,
    SMALL,
    RandomJobs,
    env_of,
    events,
    loud_policy,
    mixed_world,
    total_rewards,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_policy(tmp_path / "policy", loud_policy(SMALL, 0), SMALL, RULES)
    return tmp_path / "policy"


def deployed(folder: Path, seed: int, partitions: int = 2) -> Run:
    jobs = replace(MIXED_JOBS, partitions=partitions)(seed)
    scheduler = MarlScheduler(checkpoint=str(folder))
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
    scheduler = MarlScheduler(checkpoint=str(folder))
    run = simulate(mixed_world(partitions).simulator(jobs), scheduler, 0, None)
    assert np.isfinite(run.finish_s).all()
    assert scheduler.name == "marl"


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


EVERY_TEN = replace(RULES, interval_s=10.0)


@pytest.mark.parametrize(
    "rules",
    [RULES, EVERY_TEN, replace(RULES, granularity=WORKER), replace(EVERY_TEN, granularity=WORKER)],
    ids=["events", "interval", "workers", "workers of an interval"],
)
def test_lockstep_the_scheduler_and_the_environment_play_the_same(tmp_path, rules):
    save_policy(tmp_path, loud_policy(SMALL, 1), SMALL, rules)
    scheduler = MarlScheduler(checkpoint=str(tmp_path))
    world, counts = mixed_world(2), (5, 40, 20)  # the runs end at different times
    windows = [replace(MIXED_JOBS, count=count)(seed) for seed, count in enumerate(counts)]
    together = scheduler.play_together([world.simulator(jobs) for jobs in windows], 0)
    teacher = greedy(load_policy(tmp_path, 2)[0])
    for run, jobs in zip(together, windows, strict=True):
        assert events(run) == events(simulate(world.simulator(jobs), scheduler, 0, None))
        assert np.isfinite(run.finish_s).all()
        if rules.interval_s > 0:
            assert (run.start_s % rules.interval_s == 0).all()
        for everyone in (False, True) if rules is RULES else (False,):
            env = env_of(world, lambda _, jobs=jobs: jobs, everyone=everyone, rules=rules)
            total_rewards(env, lambda _, seen: teacher(seen), 0)
            assert events(env.turns.simulator.outcome("env", 0, 0.0, 0.0)) == events(run)
    assert len({events(run) for run in together}) == len(counts)


@pytest.mark.parametrize("encoder", ["hierarchical", "flat"], ids=["compiled", "torch"])
def test_acting_is_deciding_and_carrying_out(tmp_path: Path, encoder: str):
    spec, rules = replace(SMALL, encoder=encoder), replace(RULES, interval_s=100.0)
    save_policy(tmp_path, loud_policy(spec, 1), spec, rules)
    jobs = RandomJobs(count=20, partitions=2, most_gpus=6, span_s=3000.0)(3)
    scheduler = MarlScheduler(checkpoint=str(tmp_path))
    decided = simulate(mixed_world(2).simulator(jobs), scheduler, 0, None, compiled=False)
    simulator = mixed_world(2).simulator(jobs)
    views = simulator.views(scheduler.needs)
    scheduler.reset(0)
    carried_out = 0
    while simulator.advance():
        again = True
        while again:
            decision, is_done = scheduler.act(views)
            if not is_done:
                simulator.apply(decision)
            carried_out += is_done and decision.again
            again = decision.again
    acted = simulator.outcome(scheduler.name, 0, np.nan, np.nan)
    assert events(acted) == events(decided)
    assert (carried_out > len(jobs)) == (encoder == "hierarchical")


def test_logits_that_differ_by_rounding_tie():
    logits = torch.tensor([[1.0, 2.0, 2.000001], [0.0, 2.0, 2.1]])
    assert best_action(logits) == [1, 2]
