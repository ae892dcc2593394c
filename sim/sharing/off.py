"""No sharing: only empty GPUs, or the part of one that a job asks for."""

import numpy as np

from sim.arrays import IntArray
from sim.engine.codes import NEVER
from sim.engine.occupancy import Occupancy
from sim.placing.alone import place_alone
from sim.protocols import Placer
from sim.signals import Signal
from sim.view import ClusterView


class NoSharing:
    """A GPU holds one job at a time, or jobs whose parts together are at most a GPU."""

    name = "off"
    needs = Signal.NONE
    engine_code = NEVER
    shares = False

    def place(
        self, view: ClusterView, occupancy: Occupancy, job: int, placer: Placer,
        rng: np.random.Generator,
    ) -> IntArray | None:  # fmt: skip
        """The placer's choice among GPUs, or parts of GPUs, that nobody holds."""
        return place_alone(view, occupancy, job, placer, rng)
