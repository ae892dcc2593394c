"""HEFT again and again with noise on its ranks: what a list scheduler gains by chance alone."""

import numpy as np

from sim.dag.list_scheduling import placed
from sim.dag.priority import order_of
from sim.dag.search.protocol import Meter, Start

NOISE_LOG10 = (-2.0, -0.5)  # relative, drawn evenly on a log scale for each plan


class RandomRankSearch:
    """Restarts without memory: the first start plan's times to go, each time with fresh noise.

    Shows what the whales add to trying many orders. Every task may go to any GPU.
    """

    name = "random_ranks"

    def search(self, starts: list[Start], meter: Meter, rng: np.random.Generator) -> None:
        """See `Search`."""
        problem, first = meter.problem, starts[0]
        meter.judge(first.plan)
        while meter.left:
            noise = 10.0 ** rng.uniform(*NOISE_LOG10) * rng.standard_normal(problem.num_tasks)
            order = order_of(problem.arrays, first.to_go_s * (1.0 + noise))
            meter.judge(placed(problem, order))
