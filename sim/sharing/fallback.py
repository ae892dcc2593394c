"""Share only if nothing exclusive fits."""

import numpy as np

from sim.arrays import IntArray
from sim.engine.codes import IF_NOTHING_IS_EMPTY
from sim.engine.occupancy import ANY_SPEED, SHARING_NEEDS, Occupancy
from sim.placing.alone import place_alone
from sim.protocols import Placer
from sim.view import ClusterView


class FallbackSharing:
    """Empty GPUs first; where the placer finds none, shared ones are offered too."""

    name = "fallback"
    needs = SHARING_NEEDS
    engine_code = IF_NOTHING_IS_EMPTY
    shares = True
    least_speed = ANY_SPEED

    def place(
        self, view: ClusterView, occupancy: Occupancy, job: int, placer: Placer,
        rng: np.random.Generator,
    ) -> IntArray | None:  # fmt: skip
        """The placer's choice, exclusive before shared."""
        gpus = place_alone(view, occupancy, job, placer, rng)
        if gpus is not None:
            return gpus
        gang = int(view.jobs.num_gpus[job])
        return placer.place(gang, occupancy.shared(view, job, ANY_SPEED), rng)
