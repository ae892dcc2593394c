"""How busy each partition is: what routing rules look at."""

from dataclasses import dataclass

import numpy as np

from sim.arrays import IntArray
from sim.view import ClusterView


@dataclass(frozen=True)
class Loads:
    """Per partition, jobs that arrived earlier in this instant included."""

    wanted: IntArray  # (M,) GPUs that its waiting and running jobs want
    capacity: IntArray  # (M,) GPUs it has

    def moved(self, gang: int, source: int, target: int) -> "Loads":
        """The loads once `gang` GPUs' worth of work has changed partition."""
        wanted = self.wanted.copy()
        wanted[source] -= gang
        wanted[target] += gang
        return Loads(wanted=wanted, capacity=self.capacity)


def loads_of(view: ClusterView) -> Loads:
    """Loads of all partitions of the cluster."""
    jobs = np.concatenate([view.queued, view.running])
    count = view.num_partitions
    wanted = np.bincount(
        view.jobs.partition[jobs], weights=view.jobs.num_gpus[jobs], minlength=count
    )
    size = view.topology.gpus_per_server
    capacity = np.bincount(view.partition_of_server, weights=size, minlength=count)
    return Loads(wanted=wanted.astype(np.int64), capacity=capacity.astype(np.int64))
