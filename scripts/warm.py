"""Compile the kernels on a tiny trace, so that no measured time contains a compiler."""

import numpy as np

from marl.env.game import Game
from sim.jobs import JobTable
from sim.protocols import Scheduler
from sim.simulator import simulate


def warm_up(game: Game, scheduler: Scheduler) -> None:
    """Run three small jobs through `scheduler` on this cluster, and forget them."""
    count = 3
    jobs = JobTable(
        job_id=np.array([str(i) for i in range(count)], dtype=object),
        submit_s=np.arange(count, dtype=np.float64),
        num_gpus=np.ones(count, dtype=np.int64),
        duration_s=np.full(count, 5.0),
        estimate_s=np.full(count, 5.0),
        profile=np.zeros(count, dtype=np.int64),
        home=np.zeros(count, dtype=np.int64),
        measured=np.ones(count, dtype=np.bool_),
    )
    simulate(game.simulator(jobs), scheduler, 0, None)
