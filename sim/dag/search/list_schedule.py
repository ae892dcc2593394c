"""List schedulers under the protocol of searches: one plan, one evaluation."""

import numpy as np

from sim.dag.cpop import cpop
from sim.dag.errors import DagError
from sim.dag.heft import heft
from sim.dag.peft import peft
from sim.dag.search.protocol import Meter, Start

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
