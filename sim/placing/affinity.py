"""Servers given over to one size of gang each, and the placement that follows from it.

Placing a job where it gets what it asks for undisturbed; shared by the sharing rules.
"""

import numpy as np

from sim.arrays import IntArray
from sim.engine.occupancy import Occupancy
from sim.placing.filling import fill_servers
from sim.protocols import Placer
from sim.signals import Signal
from sim.slots import Slots
from sim.topology.topology import Topology
from sim.view import ClusterView

NO_CLASS = 0
SAME, UNCLAIMED, OTHERS = 0, 1, 2  # in order of preference


class Affinity:
    """A placer that remembers which size of gang each server is for.

    An empty server is for nobody; the first gang placed on it claims it for its size until it is
    empty again. A gang goes to one server if one has room: of its own size, else unclaimed, else
    any; of these to the one with most usable GPUs, lowest index on ties. If none has room it
    spreads over the servers with most usable GPUs, and never waits for a better place.
    """

    name = "affinity"
    needs = Signal.NONE

    def __init__(self, topology: Topology) -> None:
        """No server is claimed."""
        self._claimed = np.full(topology.num_servers, NO_CLASS, dtype=np.int64)  # (S,) gang size
        self._topology = topology

    def forget_empty(self, occupancy: Occupancy) -> None:
        """Give up the claims on servers without a tenant."""
        servers = self._topology.gpu_server[occupancy.tenants > 0]
        held = np.bincount(servers, minlength=self._topology.num_servers)
        self._claimed[held == 0] = NO_CLASS

    def claim(self, gang: int, gpus: IntArray) -> None:
        """Claim the servers of a gang that was placed, where nobody has."""
        servers = np.unique(self._topology.gpu_server[gpus])
        self._claimed[servers[self._claimed[servers] == NO_CLASS]] = gang

    def place(self, gang: int, slots: Slots, rng: np.random.Generator) -> IntArray | None:
        """GPUs, or None if fewer than `gang` are usable."""
        del rng
        usable = slots.usable_per_server[slots.servers]
        if usable.sum() < gang:
            return None
        claimed = self._claimed[slots.servers]
        rank = np.where(claimed == gang, SAME, np.where(claimed == NO_CLASS, UNCLAIMED, OTHERS))
        rank[usable < gang] = OTHERS + 1
        # Where no server has room for all of it the ranks are equal: most usable GPUs first.
        servers = slots.servers[np.lexsort((-usable, rank))]
        return fill_servers(
            servers, slots.usable_per_server[servers], slots.topology.server_first_gpu,
            slots.usable, slots.tenants, gang,
        )  # fmt: skip


def place_alone(
    view: ClusterView, occupancy: Occupancy, job: int, placer: Placer, rng: np.random.Generator
) -> IntArray | None:
    """The placer's choice among GPUs that the job has to itself, or the part it asks for.

    A job that asks for part of a GPU goes where least is left over (best fit), and opens an empty
    GPU only where no other has room. None if the job should wait.
    """
    gang = int(view.jobs.num_gpus[job])
    tight = occupancy.tightest(view, job)
    gpus = None if tight is None else placer.place(gang, tight, rng)
    return placer.place(gang, occupancy.exclusive(view, job), rng) if gpus is None else gpus
