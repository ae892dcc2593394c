"""Least loaded at arrival."""

import numpy as np

from sim.engine.codes import TO_LEAST_LOADED
from sim.loads import Loads


class LeastLoadedForwarding:
    """A job goes where the fewest GPUs are wanted for each GPU there is, once, as it arrives.

    Only partitions large enough for the gang count; home wins ties, then the lowest index.
    """

    name = "least_loaded"
    steals = False
    engine_code = TO_LEAST_LOADED

    def route(
        self, gang: int, home: int, fits_at_home: bool, loads: Loads, rng: np.random.Generator
    ) -> int:
        """The least loaded partition; the job's own demand does not count."""
        del fits_at_home, rng
        without = loads.wanted.astype(np.float64)
        without[home] -= gang
        share = np.full(len(without), np.inf)
        np.divide(without, loads.capacity, out=share, where=loads.capacity >= gang)
        best = int(np.argmin(share))
        return home if share[home] <= share[best] else best
