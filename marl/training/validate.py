"""Judging a policy while it trains, on windows that training never draws."""

from pathlib import Path

import numpy as np

from marl.env.game import Game
from marl.schedulers.marl import MarlScheduler
from marl.training.windows import Windows
from sim.metrics.job_times import counted, jct_s
from sim.simulator import simulate


def validation_jct_s(game: Game, folder: Path, windows: Windows, count: int, seed: int) -> float:
    """Geometric mean over windows of the reported mean JCT, acting greedily."""
    scheduler = MarlScheduler(checkpoint=str(folder), untrained=False)
    logs = []
    for index in range(count):
        jobs = windows(index)
        run = simulate(game.simulator(jobs), scheduler, seed, None)
        measured_s = jct_s(run)[counted(run)]
        logs.append(np.log(measured_s.mean()))
    return float(np.exp(np.mean(logs)))
