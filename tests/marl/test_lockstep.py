"""Runs in lockstep, and turns that carry out what they order, are those made one by one."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from marl.policy.build import PolicySpec, save_policy
from marl.policy.pair_score import best_action
from marl.schedulers.marl import MarlScheduler
from sim.run import Run
from sim.simulator import simulate
from tests.marl.worlds import RULES, RandomJobs, loud_policy, mixed_world

SPEC = PolicySpec(gpu_dim=4, hidden_dim=8, rounds=1, head_dim=8, prior_scale=0.0)


def events(run: Run) -> bytes:
    log = run.log
    return b"".join(c.tobytes() for c in (log.time_s, log.kind, log.job, log.partition, *log.gpus))


def test_lockstep_plays_what_the_scheduler_plays(tmp_path):
    save_policy(tmp_path, loud_policy(SPEC, 1), SPEC, RULES)
    world = mixed_world(2)
    sizes = (5, 40, 20)  # the runs end at different times
    windows = [
        RandomJobs(count=count, partitions=2, most_gpus=6, span_s=3000.0)(seed)
        for seed, count in enumerate(sizes)
    ]
    scheduler = MarlScheduler(checkpoint=str(tmp_path), untrained=False)
    together = scheduler.play_together([world.simulator(jobs) for jobs in windows], 0)
    for run, jobs in zip(together, windows, strict=True):
        alone = simulate(world.simulator(jobs), scheduler, 0, None)
        assert events(run) == events(alone)
        assert np.isfinite(run.finish_s).all()
    assert len({events(run) for run in together}) == len(sizes)


@pytest.mark.parametrize("encoder", ["hierarchical", "flat"], ids=["compiled", "torch"])
def test_acting_is_deciding_and_carrying_out(tmp_path: Path, encoder: str):
    spec, rules = replace(SPEC, encoder=encoder), replace(RULES, interval_s=100.0)
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
