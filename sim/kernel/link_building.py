"""Makes the part of a run's state that shares links."""

import numpy as np

from sim.arrays import IntArray
from sim.errors import PhysicsError
from sim.kernel.layout import RowArray
from sim.physics.link_loads import LinkLoads, make_link_loads
from sim.physics.link_network import LinkNetwork, no_link_network
from sim.physics.physics import Physics
from sim.topology.topology import Topology


def make_links(
    job: RowArray, topology: Topology, physics: Physics, max_tenants: int
) -> tuple[LinkNetwork, LinkLoads]:
    """The link network and its empty loads; stand-ins of no size where links are not shared.

    Raises:
        PhysicsError: the link network is that of another cluster.
    """
    network = physics.links
    if network is None:
        network = no_link_network()
        return network, make_link_loads(network=network, jobs=1, worker_slots=1, largest_gang=1)
    if len(network.server) != topology.num_servers:
        raise PhysicsError(
            f"the link network has {len(network.server)} servers, the topology {topology.name} "
            f"{topology.num_servers}; build both from the same topology"
        )
    return network, make_link_loads(
        network=network,
        jobs=len(job),
        worker_slots=topology.num_gpus * max_tenants,
        largest_gang=min(int(job["most_gpus"].max()), topology.num_gpus),
    )


def gang_sizes(job: RowArray) -> IntArray:
    """Numbers of GPUs that some job can hold, ascending."""
    most = int(job["most_gpus"].max())
    begins = np.bincount(job["least_gpus"], minlength=most + 2)
    ends = np.bincount(job["most_gpus"] + 1, minlength=most + 2)
    return np.flatnonzero(np.cumsum(begins - ends) > 0)
