"""Communication that costs nothing."""

import numpy as np

from sim.physics.catalogue import Catalogue
from sim.physics.network_tables import NetworkTables
from sim.topology.topology import Topology


class NoNetwork:
    """Zero seconds however far a gang spreads."""

    def tables(self, catalogue: Catalogue, topology: Topology) -> NetworkTables:
        """Zero times, factors of 1."""
        profiles = len(catalogue.names)
        return NetworkTables(
            local_s=np.zeros((profiles, int(topology.gpus_per_server.max()) + 1)),
            server_s=np.zeros((profiles, topology.num_servers + 1)),
            rack_s=np.zeros((profiles, topology.num_racks + 1)),
            nic_factor=np.ones(2),
            uplink_factor=np.ones(2),
        )

    def links(self, catalogue: Catalogue, topology: Topology) -> None:
        """None: the tables are all there is."""
