"""Runs in lockstep are the runs that the scheduler makes one by one."""

import numpy as np
import torch

from marl.policy.build import PolicySpec, save_policy
from marl.policy.pair_score import best_action
from marl.schedulers.marl import MarlScheduler
from sim.run import Run
from sim.simulator import simulate
from tests.marl.games import RULES, RandomJobs, loud_policy, mixed_game

SPEC = PolicySpec(gpu_dim=4, hidden_dim=8, rounds=1, head_dim=8, prior_scale=0.0)


def events(run: Run) -> bytes:
    log = run.log
    return b"".join(c.tobytes() for c in (log.time_s, log.kind, log.job, log.partition, *log.gpus))


def test_lockstep_plays_what_the_scheduler_plays(tmp_path):
    save_policy(tmp_path, loud_policy(SPEC, 1), SPEC, RULES)
    game = mixed_game(2)
    sizes = (5, 40, 20)  # the runs end at different times
    windows = [
        RandomJobs(count=count, partitions=2, most_gpus=6, span_s=3000.0)(seed)
        for seed, count in enumerate(sizes)
    ]
    scheduler = MarlScheduler(checkpoint=str(tmp_path), untrained=False)
    together = scheduler.play_together([game.simulator(jobs) for jobs in windows], 0)
    for run, jobs in zip(together, windows, strict=True):
        alone = simulate(game.simulator(jobs), scheduler, 0, None)
        assert events(run) == events(alone)
        assert np.isfinite(run.finish_s).all()
    assert len({events(run) for run in together}) == len(sizes)


def test_logits_that_differ_by_rounding_tie():
    logits = torch.tensor([[1.0, 2.0, 2.000001], [0.0, 2.0, 2.1]])
    assert best_action(logits) == [1, 2]
