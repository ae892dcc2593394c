"""No outages: every server is up all the time."""

from sim.outages.changes import NO_OUTAGES, Outages
from sim.topology.topology import Topology


class NoOutages:
    """Nothing ever goes away."""

    def outages(self, topology: Topology, seed: int) -> Outages:
        """None."""
        del topology, seed
        return NO_OUTAGES
