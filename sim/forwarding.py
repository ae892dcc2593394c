"""Which partition takes a job: its own, the least loaded, any, or whoever has room."""

import numpy as np

from sim.arrays import IntArray
from sim.codes import DRAWN, OWN_ONLY, OWN_THEN_LEAST_LOADED, STEAL, TO_LEAST_LOADED
from sim.protocols import Loads


class OwnOnly:
    """Jobs stay at home."""

    name = "own"
    steals = False
    engine_code = OWN_ONLY

    def route(
        self, gang: int, home: int, fits_at_home: bool, loads: Loads, rng: np.random.Generator
    ) -> int:
        """Home."""
        del gang, fits_at_home, loads, rng
        return home


class LeastLoadedForwarding:
    """A job goes where the fewest GPUs are wanted for each GPU there is, once, as it first queues.

    Only partitions that could hold it if they were empty count; home wins ties, then the lowest
    index.
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


class OwnThenLeastLoaded:
    """As `least_loaded`, but only jobs that home cannot start at once."""

    name = "own_then_least_loaded"
    steals = False
    engine_code = OWN_THEN_LEAST_LOADED

    def __init__(self) -> None:
        """Compose with least-loaded routing."""
        self._least_loaded = LeastLoadedForwarding()

    def route(
        self, gang: int, home: int, fits_at_home: bool, loads: Loads, rng: np.random.Generator
    ) -> int:
        """Home if the job fits there now."""
        if fits_at_home:
            return home
        return self._least_loaded.route(gang, home, fits_at_home, loads, rng)


class RandomForwarding:
    """Any partition that could hold the job if it were empty, home included, all alike."""

    name = "random"
    steals = False
    engine_code = DRAWN

    def route(
        self, gang: int, home: int, fits_at_home: bool, loads: Loads, rng: np.random.Generator
    ) -> int:
        """A partition drawn at random; home if the gang fits in none."""
        del fits_at_home
        return int(self.drawn(np.array([gang]), np.array([home]), loads.capacity[None], rng)[0])

    def drawn(
        self, gang: IntArray, home: IntArray, capacity: IntArray, rng: np.random.Generator
    ) -> IntArray:
        """(J,) the same for many jobs, in their order; `capacity` is (J, M), as in `Loads`."""
        target = home.copy()
        for job, gpus in enumerate(gang.tolist()):
            large_enough = np.flatnonzero(capacity[job] >= gpus)
            if len(large_enough) > 0:
                target[job] = rng.choice(large_enough)
        return target


class Steal(OwnOnly):
    """Jobs go home; a partition with room after its own queue takes jobs that wait elsewhere."""

    name = "steal"
    steals = True
    engine_code = STEAL
