"""The placement that work is counted on: most compact, alone, on the trace's GPU type."""

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.physics.link_reference import reference_comm_s
from sim.physics.physics import Physics
from sim.topology.topology import Topology


def compact_spread(num_gpus: IntArray, topology: Topology) -> tuple[IntArray, IntArray, IntArray]:
    """Most GPUs on one server, servers and racks of the most compact placement of each gang."""
    largest = int(topology.gpus_per_server.max())
    rack_servers = int(np.bincount(topology.server_rack).max())
    servers = -(-num_gpus // largest)
    return np.minimum(num_gpus, largest), servers, -(-servers // rack_servers)


def reference_steps_s(gangs: IntArray, topology: Topology, physics: Physics) -> FloatArray:
    """(P, N + 1) step of each profile with n GPUs, alone, most compact, reference type.

    Args:
        gangs: numbers of GPUs that jobs may hold; N is the largest.
        topology: the cluster.
        physics: over it. Where links are shared, each placement has to be measured: columns that
            neither `gangs` nor a measured speed-up asks for are then NaN.
    """
    compute_s = physics.catalogue.compute_s[:, [physics.type_index(physics.reference_gpu)]]
    total: FloatArray = compute_s + _comm_s(gangs, topology, physics)
    return total


def _comm_s(gangs: IntArray, topology: Topology, physics: Physics) -> FloatArray:
    """(P, N + 1) seconds of exposed communication of the same."""
    largest, network = int(gangs.max()), physics.network
    if physics.links is not None:
        return _links_comm_s(gangs, topology, physics)
    local, servers, racks = compact_spread(np.arange(largest + 1), topology)

    def at(table: FloatArray, index: IntArray) -> FloatArray:
        picked: FloatArray = table[:, np.minimum(index, table.shape[1] - 1)]
        return picked

    # Added in the kernel's order, so that the reference placement has rate 1.0 to the last bit.
    comm_s = at(network.local_s, local) + at(network.server_s, servers) * network.nic_factor[1]
    total: FloatArray = comm_s + at(network.rack_s, racks) * network.uplink_factor[1]
    return total


def _links_comm_s(gangs: IntArray, topology: Topology, physics: Physics) -> FloatArray:
    assert physics.links is not None
    profiles, largest = len(physics.catalogue.names), int(gangs.max())
    speedup = physics.catalogue.speedup
    measured = 1 if speedup is None else speedup.shape[1] - 1
    asked = np.union1d(gangs, np.arange(1, min(measured, largest) + 1))
    pairs = np.meshgrid(np.arange(profiles), asked, indexing="ij")
    comm_s = np.full((profiles, largest + 1), np.nan)
    comm_s[:, asked] = reference_comm_s(
        physics.links, topology, pairs[0].ravel(), pairs[1].ravel()
    ).reshape(profiles, len(asked))
    return comm_s
