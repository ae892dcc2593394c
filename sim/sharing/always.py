"""Always share: shared and empty GPUs are offered alike."""

import numpy as np

from sim.arrays import IntArray
from sim.engine.codes import ALIKE
from sim.engine.occupancy import ANY_SPEED, SHARING_NEEDS, Occupancy
from sim.protocols import Placer
from sim.view import ClusterView


class AlwaysShare:
    """The placer sees every GPU with room for one more tenant, and prefers as its rule says."""

    name = "always"
    needs = SHARING_NEEDS
    engine_code = ALIKE
    shares = True
    least_speed = ANY_SPEED

    def place(
        self, view: ClusterView, occupancy: Occupancy, job: int, placer: Placer,
        rng: np.random.Generator,
    ) -> IntArray | None:  # fmt: skip
        """The placer's choice among all GPUs that fit."""
        return placer.place(
            int(view.jobs.num_gpus[job]), occupancy.shared(view, job, ANY_SPEED), rng
        )
