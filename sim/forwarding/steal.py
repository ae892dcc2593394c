"""Work stealing: a partition with room takes waiting jobs of others."""

import numpy as np

from sim.engine.codes import STEAL
from sim.loads import Loads


class Steal:
    """Jobs stay home when they arrive; late binding does the rest."""

    name = "steal"
    steals = True
    engine_code = STEAL

    def route(
        self, gang: int, home: int, fits_at_home: bool, loads: Loads, rng: np.random.Generator
    ) -> int:
        """Home."""
        del gang, fits_at_home, loads, rng
        return home
