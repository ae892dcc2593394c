"""Speed of a gang alone on given GPUs, as the belief's tables tell it."""

from dataclasses import replace

import numpy as np

from sim.arrays import IntArray
from sim.physics.communication import Spread, comm_told
from sim.physics.reference import reference_steps_s
from sim.view import ClusterView


class LoneSpeed:
    """Work a second of jobs that share neither their GPUs nor links; needs INTERFERENCE.

    Where links are shared the belief's tables stand for them.
    """

    def __init__(self, view: ClusterView) -> None:
        """Tabulate the reference steps of every gang that the cluster can hold."""
        self._belief = replace(view.belief, links=None)
        self._topology = view.topology
        self._server_type = view.server_type
        gangs = np.arange(1, view.topology.num_gpus + 1)
        self._reference_s = reference_steps_s(gangs, view.topology, self._belief)

    def of(self, profile: int, gpus: IntArray) -> float:
        """Speed of a gang of `profile` with all it asked for, on `gpus`; 1 on the reference."""
        servers = self._topology.gpu_server[gpus]
        count = np.bincount(servers)
        racks = len(np.unique(self._topology.server_rack[servers]))
        spread = Spread(int(count.max()), int(np.count_nonzero(count)), racks)
        comm = comm_told(self._belief.network, profile, spread)
        compute_s = self._belief.catalogue.compute_s[profile, self._server_type[servers]].max()
        step_s = float(compute_s) + comm.local_s + comm.server_s + comm.rack_s
        return float(self._reference_s[profile, len(gpus)] / step_s)
