"""The placement that work is counted on: most compact, alone, on the trace's GPU type."""

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.physics.communication import columns_s
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
    if physics.links is not None:
        return _links_comm_s(gangs, topology, physics)
    spread = compact_spread(np.arange(int(gangs.max()) + 1), topology)
    return columns_s(physics.network, slice(None), *spread)


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
