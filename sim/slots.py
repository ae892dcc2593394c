"""GPUs offered to a placer for one gang: what is usable, and what each would cost."""

from dataclasses import dataclass

from sim.arrays import BoolArray, FloatArray, IntArray
from sim.topology.topology import Topology
from sim.view import ClusterView


@dataclass(frozen=True)
class Slots:
    """Usable GPUs of the servers a scheduler owns; GPUs of other servers are never usable."""

    topology: Topology
    servers: IntArray  # (s,) servers owned, ascending
    usable: BoolArray  # (G,) GPU may take this gang's worker
    usable_per_server: IntArray  # (S,) usable GPUs of each server
    most_per_server: IntArray  # (S,) such GPUs if every server that is up were empty
    tenants: IntArray  # (G,) jobs on each GPU now
    cost: (
        FloatArray  # (G,) predicted slow-down (self x worst victim) of a worker there; 1 if unknown
    )
    # For placers that judge the job and not its gang alone. The view is as the decision began:
    # who was started or suspended in it since shows in `usable` and `tenants` alone.
    view: ClusterView
    job: int
