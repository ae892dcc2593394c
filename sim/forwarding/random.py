"""Random: a job goes to any partition, each equally likely."""

import numpy as np

from sim.arrays import IntArray
from sim.engine.codes import DRAWN
from sim.loads import Loads


class RandomForwarding:
    """Uniform among partitions large enough for the gang, home included."""

    name = "random"
    steals = False
    engine_code = DRAWN

    def route(
        self, gang: int, home: int, fits_at_home: bool, loads: Loads, rng: np.random.Generator
    ) -> int:
        """A partition drawn at random; home if the gang fits in none."""
        del fits_at_home
        return int(self.drawn(np.array([gang]), np.array([home]), loads.capacity, rng)[0])

    def drawn(
        self, gang: IntArray, home: IntArray, capacity: IntArray, rng: np.random.Generator
    ) -> IntArray:
        """(J,) the same for many jobs, in their order; `capacity` (M,) are the partitions' GPUs."""
        target = home.copy()
        for job, gpus in enumerate(gang.tolist()):
            large_enough = np.flatnonzero(capacity >= gpus)
            if len(large_enough) > 0:
                target[job] = rng.choice(large_enough)
        return target
