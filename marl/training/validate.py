"""Judging a policy while it trains, on windows that training never draws."""

from pathlib import Path

import numpy as np

from marl.env.game import Game
from marl.schedulers.marl import MarlScheduler
from marl.training.windows import Windows
from sim.simulator import simulate


def validation_jct_s(game: Game, folder: Path, windows: Windows, count: int, seed: int) -> float:
    """Geometric mean over windows of mean JCT of measured jobs, acting greedily."""
    scheduler = MarlScheduler(checkpoint=str(folder), untrained=False)
    logs = []
    for index in range(count):
        jobs = windows(index)
        run = simulate(game.simulator(jobs), scheduler, seed, None)
        jct_s = (run.finish_s - jobs.submit_s)[jobs.measured]
        logs.append(np.log(jct_s.mean()))
    return float(np.exp(np.mean(logs)))
