"""View and GPUs chosen so far -> observation; a gang's GPUs -> its decision and its cost."""

import numpy as np

from marl.topdrl.codec import Observation
from marl.topdrl.proximity.spec import ProximitySpec
from marl.topdrl.spec import TopDrlError
from sim.arrays import BoolArray, IntArray
from sim.engine.occupancy import Occupancy
from sim.signals import Signal
from sim.topology.topology import Topology
from sim.view import ClusterView

NEEDS = Signal.PREDICTION


class Choosing:
    """One gang being placed: the head of the queue, GPU by GPU."""

    def __init__(self, view: ClusterView, spec: ProximitySpec) -> None:
        """Nothing is chosen yet; somebody waits.

        Raises:
            TopDrlError: the policy is for another number of GPUs.
        """
        if view.topology.num_gpus != spec.gpus:
            raise TopDrlError(
                f"the cluster has {view.topology.num_gpus} GPUs, this policy is for {spec.gpus}; "
                "train one for this cluster"
            )
        self._view, self._spec = view, spec
        self.job = int(view.queued[0])
        self.gang = int(view.jobs.num_gpus[self.job])
        self.chosen: list[int] = []
        self.usable: BoolArray = Occupancy(view).exclusive(view, self.job).usable.copy()

    @property
    def fits(self) -> bool:
        """Whether enough GPUs are usable for what is not chosen yet."""
        return int(self.usable.sum()) >= self.gang - len(self.chosen)

    @property
    def whole(self) -> bool:
        """Whether all GPUs are chosen."""
        return len(self.chosen) == self.gang

    def choose(self, gpu: int) -> None:
        """One more GPU; it must be usable."""
        self.chosen.append(gpu)
        self.usable[gpu] = False

    def observation(self) -> Observation:
        """`seen` (2 G + 2,): chosen flags, time until each GPU is free, length, request; mask.

        Idling, the last action, is legal only before the first GPU and while something runs.
        """
        view, spec = self._view, self._spec
        seen = np.zeros(2 * spec.gpus + 2, dtype=np.float32)
        seen[self.chosen] = 1.0
        for job in view.running.tolist():
            seen[spec.gpus + view.gpus_of(job)] = self._rows(job)
        seen[-2] = self._rows(self.job)
        seen[-1] = min(self.gang / spec.most_gang, 1.0)
        mask = np.zeros(spec.gpus + 1, dtype=np.float32)
        mask[:-1] = self.usable
        mask[-1] = not self.chosen and len(view.running) > 0
        return {"seen": seen, "action_mask": mask}

    def _rows(self, job: int) -> float:
        rows = float(self._view.jobs.predicted_remaining_s[job]) / self._spec.row_s
        return min(rows, self._spec.most_rows) / self._spec.most_rows


def compactness(gpus: IntArray, topology: Topology, spec: ProximitySpec) -> float:
    """1 for the most compact placement of a gang, 0 for the widest, even in between."""
    servers = np.unique(topology.gpu_server[gpus])
    cost = _cost(len(servers), len(np.unique(topology.server_rack[servers])), spec)
    gang = len(gpus)
    least = -(-gang // int(topology.gpus_per_server.max()))
    in_rack = int(np.bincount(topology.server_rack).max())
    best = _cost(least, -(-least // in_rack), spec)
    worst = _cost(min(gang, topology.num_servers), min(gang, topology.num_racks), spec)
    return 1.0 if worst == best else 1.0 - (cost - best) / (worst - best)


def _cost(servers: int, racks: int, spec: ProximitySpec) -> float:
    return spec.server_weight * servers + spec.rack_weight * racks


def empty_queue_observation(spec: ProximitySpec) -> Observation:
    """What is seen when nobody waits: nothing, and idling is legal."""
    mask = np.zeros(spec.gpus + 1, dtype=np.float32)
    mask[-1] = 1.0
    return {"seen": np.zeros(2 * spec.gpus + 2, dtype=np.float32), "action_mask": mask}
