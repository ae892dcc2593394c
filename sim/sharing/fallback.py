"""Share only if nothing exclusive fits."""

import numpy as np

from sim.arrays import IntArray
from sim.occupancy import ANY_SPEED, SHARING_NEEDS, Occupancy
from sim.protocols import Placer
from sim.view import ClusterView


class FallbackSharing:
    """Empty GPUs first; where the placer finds none, shared ones are offered too."""

    name = "fallback"
    needs = SHARING_NEEDS

    def place(
        self, view: ClusterView, occupancy: Occupancy, job: int, placer: Placer,
        rng: np.random.Generator,
    ) -> IntArray | None:  # fmt: skip
        """The placer's choice, exclusive before shared."""
        gang = int(view.jobs.num_gpus[job])
        gpus = placer.place(gang, occupancy.exclusive(view), rng)
        if gpus is not None:
            return gpus
        return placer.place(gang, occupancy.shared(view, job, ANY_SPEED), rng)
