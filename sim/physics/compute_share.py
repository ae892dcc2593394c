"""How much of a step is compute where communication is least."""

from sim.arrays import FloatArray, IntArray
from sim.physics.physics import Physics
from sim.physics.reference import reference_steps_s
from sim.topology.topology import Topology


def compute_share(gangs: IntArray, topology: Topology, physics: Physics) -> FloatArray:
    """(P, N + 1) compute over step on the most compact placement, reference type.

    Args:
        gangs: numbers of GPUs that jobs may hold; N is the largest.
        topology: the cluster.
        physics: over it.
    """
    compute_s = physics.catalogue.compute_s[:, [physics.type_index(physics.reference_gpu)]]
    share: FloatArray = compute_s / reference_steps_s(gangs, topology, physics)
    return share
