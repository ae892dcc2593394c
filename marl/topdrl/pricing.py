"""What a job is worth, and how fast it would run on given GPUs, by the belief's tables."""

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.physics.communication import Spread, told_s
from sim.physics.gang_catalogue import GangCatalogue
from sim.physics.physics import Physics
from sim.physics.reference import reference_steps_s
from sim.topology.topology import Topology


class Pricing:
    """Tables of one cluster and one set of gang sizes."""

    def __init__(self, *, topology: Topology, belief: Physics, gangs: IntArray) -> None:
        """`gangs`: the sizes that occur."""
        self._topology, self._belief = topology, belief
        self._type = belief.server_types(topology)
        self._best_s = reference_steps_s(np.unique(gangs), topology, belief)
        self._unit_tflop = self._peak()

    def worth(self, profile: IntArray, gang: IntArray) -> FloatArray:
        """(n,) worth a second at full speed, as a share of what its GPUs could at most be worth.

        TFLOP/s where profiles are for gangs; all jobs are worth 1 a GPU elsewhere.
        """
        if self._unit_tflop is None:
            return np.ones(len(profile))
        assert isinstance(self._belief.catalogue, GangCatalogue)
        share = self._belief.catalogue.tflop[profile] / self._best_s[profile, gang] / gang
        return np.asarray(share / self._unit_tflop)

    def speed(self, profile: int, gang: int, gpus: IntArray) -> float:
        """Work a second on these GPUs alone; 1 on the most compact ones of the reference type."""
        topology = self._topology
        servers, on = np.unique(topology.gpu_server[gpus], return_counts=True)
        compute_s = self._belief.catalogue.compute_s[profile, self._type[servers]].max()
        racks = len(np.unique(topology.server_rack[servers]))
        spread = Spread(int(on.max()), len(servers), racks)
        step_s = compute_s + told_s(self._belief.network, profile, spread)
        return float(self._best_s[profile, gang] / step_s)

    def _peak(self) -> float | None:
        catalogue = self._belief.catalogue
        if not isinstance(catalogue, GangCatalogue):
            return None
        rows = np.flatnonzero(catalogue.gang < self._best_s.shape[1])
        gang = catalogue.gang[rows]
        return float(np.nanmax(catalogue.tflop[rows] / self._best_s[rows, gang] / gang))
