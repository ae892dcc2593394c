"""Own only: a job stays where it arrived."""

import numpy as np

from sim.engine.codes import OWN_ONLY
from sim.loads import Loads


class OwnOnly:
    """No forwarding at all."""

    name = "own"
    steals = False
    engine_code = OWN_ONLY

    def route(
        self, gang: int, home: int, fits_at_home: bool, loads: Loads, rng: np.random.Generator
    ) -> int:
        """Home."""
        del gang, fits_at_home, loads, rng
        return home
