"""The placement that work is counted on: most compact, alone, on the trace's GPU type."""

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.physics.physics import Physics
from sim.topology.topology import Topology


def compact_spread(num_gpus: IntArray, topology: Topology) -> tuple[IntArray, IntArray, IntArray]:
    """Most GPUs on one server, servers and racks of the most compact placement of each gang."""
    largest = int(topology.gpus_per_server.max())
    rack_servers = int(np.bincount(topology.server_rack).max())
    servers = -(-num_gpus // largest)
    return np.minimum(num_gpus, largest), servers, -(-servers // rack_servers)


def reference_steps_s(largest: int, topology: Topology, physics: Physics) -> FloatArray:
    """(P, largest + 1) step of each profile with n GPUs, alone, most compact, reference type."""
    local, servers, racks = compact_spread(np.arange(largest + 1), topology)
    network = physics.network

    def at(table: FloatArray, index: IntArray) -> FloatArray:
        picked: FloatArray = table[:, np.minimum(index, table.shape[1] - 1)]
        return picked

    compute_s = physics.catalogue.compute_s[:, [physics.type_index(physics.reference_gpu)]]
    # Added in the kernel's order, so that the reference placement has rate 1.0 to the last bit.
    comm_s = at(network.local_s, local) + at(network.server_s, servers) * network.nic_factor[1]
    comm_s = comm_s + at(network.rack_s, racks) * network.uplink_factor[1]
    total: FloatArray = compute_s + comm_s
    return total
