"""The rules of the game that all episodes share."""

from dataclasses import dataclass

import numpy as np

from sim.arrays import IntArray
from sim.jobs import JobTable
from sim.outages.changes import Outages
from sim.physics.physics import Physics
from sim.rules import Rules
from sim.simulator import Simulator
from sim.topology.topology import Topology


@dataclass(frozen=True)
class Game:
    """A cluster, its physics, what agents are told of it, and the limits on decisions."""

    topology: Topology
    physics: Physics  # what happens: in training usually the learned interference model
    belief: Physics  # what agents are told
    partition_of_server: IntArray  # (S,)
    rules: Rules
    outages: Outages

    @property
    def partitions(self) -> int:
        """Number of partitions, and so of agents."""
        return int(np.max(self.partition_of_server)) + 1

    def simulator(self, jobs: JobTable) -> Simulator:
        """A fresh run over `jobs`."""
        return Simulator(
            jobs=jobs,
            topology=self.topology,
            physics=self.physics,
            belief=self.belief,
            partition_of_server=self.partition_of_server,
            rules=self.rules,
            outages=self.outages,
        )
