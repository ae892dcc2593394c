"""Co-location without any slow-down."""

import numpy as np

from sim.physics.catalogue import Catalogue
from sim.physics.pair_table import PairTable


class NoInterference:
    """Every pair fits and runs at full speed."""

    def pair_table(self, catalogue: Catalogue) -> PairTable:
        """All ones, feasible everywhere, source "none"."""
        shape = (len(catalogue.gpu_types), len(catalogue.names), len(catalogue.names))
        return PairTable(slowdown=np.ones(shape), feasible=np.ones(shape, np.bool_), source="none")
