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
        return self.drawn(gang, home, loads.capacity, rng)

    def drawn(self, gang: int, home: int, capacity: IntArray, rng: np.random.Generator) -> int:
        """The same by the partitions' GPUs (M,) alone."""
        large_enough = np.flatnonzero(capacity >= gang)
        return int(rng.choice(large_enough)) if len(large_enough) else home
