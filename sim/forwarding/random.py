"""Random: a job goes to any partition, each equally likely."""

import numpy as np

from sim.loads import Loads


class RandomForwarding:
    """Uniform among partitions large enough for the gang, home included."""

    name = "random"
    steals = False

    def route(
        self, gang: int, home: int, fits_at_home: bool, loads: Loads, rng: np.random.Generator
    ) -> int:
        """A partition drawn at random; home if the gang fits in none."""
        del fits_at_home
        large_enough = np.flatnonzero(loads.capacity >= gang)
        return int(rng.choice(large_enough)) if len(large_enough) else home
