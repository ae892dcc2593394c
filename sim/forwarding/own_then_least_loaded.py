"""Own partition if the job fits there now, else the least loaded one."""

import numpy as np

from sim.engine.codes import OWN_THEN_LEAST_LOADED
from sim.forwarding.least_loaded import LeastLoadedForwarding
from sim.loads import Loads


class OwnThenLeastLoaded:
    """Routes away only what home cannot start at once."""

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
