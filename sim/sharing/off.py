"""No sharing: only empty GPUs."""

import numpy as np

from sim.arrays import IntArray
from sim.occupancy import Occupancy
from sim.protocols import Placer
from sim.signals import Signal
from sim.view import ClusterView


class NoSharing:
    """A GPU holds one job at a time."""

    name = "off"
    needs = Signal.NONE

    def place(
        self, view: ClusterView, occupancy: Occupancy, job: int, placer: Placer,
        rng: np.random.Generator,
    ) -> IntArray | None:  # fmt: skip
        """The placer's choice among empty GPUs."""
        return placer.place(int(view.jobs.num_gpus[job]), occupancy.exclusive(view), rng)
