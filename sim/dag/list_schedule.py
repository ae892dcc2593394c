"""List schedulers under the protocol of searches, once or again and again with noise on ranks."""

import numpy as np

from sim.dag.graph import DagError
from sim.dag.list_scheduling import cpop, heft, peft, placed
from sim.dag.protocol import Meter, Start
from sim.dag.ranks import order_of

SCHEDULERS = {"heft": heft, "cpop": cpop, "peft": peft}


class ListSchedule:
    """Judges the one plan of a list scheduler, whatever the start plans and the budget."""

    def __init__(self, *, scheduler: str) -> None:
        """Take `heft`, `cpop` or `peft`.

        Raises:
            DagError: another name.
        """
        if scheduler not in SCHEDULERS:
            known = ", ".join(SCHEDULERS)
            raise DagError(f"list scheduler {scheduler!r} is unknown; use one of {known}")
        self.name = scheduler

    def search(self, starts: list[Start], meter: Meter, rng: np.random.Generator) -> None:  # noqa: ARG002
        """See `Search`."""
        meter.judge(SCHEDULERS[self.name](meter.problem))


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
