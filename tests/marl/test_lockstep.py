"""Runs in lockstep, and turns that carry out what they order, are those made one by one."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from marl.env.layout import WORKER, CodecRules
from marl.policy.build import load_policy, save_policy
from marl.policy.pair_score import best_action
from marl.schedulers.marl import MarlScheduler
from marl.training.plan import greedy
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
)

EVERY_TEN = replace(RULES, interval_s=10.0)


@pytest.mark.parametrize(
    "rules",
    [RULES, EVERY_TEN, replace(RULES, granularity=WORKER), replace(EVERY_TEN, granularity=WORKER)],
    ids=["events", "interval", "workers", "workers of an interval"],
)
def test_lockstep_the_scheduler_and_the_environment_play_the_same(
    tmp_path: Path, rules: CodecRules
):
    save_policy(tmp_path, loud_policy(SMALL, 1), SMALL, rules)
    scheduler = MarlScheduler(checkpoint=str(tmp_path), untrained=False)
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
            observations, _ = env.reset(seed=0)
            while env.agents:
                chosen = {agent: teacher(seen) for agent, seen in observations.items()}
                observations, *_ = env.step(chosen)
            assert events(env.turns.simulator.outcome("env", 0, 0.0, 0.0)) == events(run)
    assert len({events(run) for run in together}) == len(counts)


@pytest.mark.parametrize("encoder", ["hierarchical", "flat"], ids=["compiled", "torch"])
def test_acting_is_deciding_and_carrying_out(tmp_path: Path, encoder: str):
    spec, rules = replace(SMALL, encoder=encoder), replace(RULES, interval_s=100.0)
    save_policy(tmp_path, loud_policy(spec, 1), spec, rules)
    jobs = RandomJobs(count=20, partitions=2, most_gpus=6, span_s=3000.0)(3)
    scheduler = MarlScheduler(checkpoint=str(tmp_path), untrained=False)
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
