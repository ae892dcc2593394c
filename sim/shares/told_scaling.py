"""What a scheduler is told of how profiles scale: throughput by number of GPUs."""

from dataclasses import replace

import numpy as np

from sim.arrays import FloatArray
from sim.physics.physics import Physics
from sim.physics.reference import reference_steps_s
from sim.physics.scaling import throughputs
from sim.view import ClusterView


class ToldScaling:
    """The table of a run's belief, made once."""

    def __init__(self) -> None:
        """Nothing is known before the first view."""
        self._belief: Physics | None = None
        self._table: FloatArray = np.zeros((0, 0))

    def throughput(self, view: ClusterView) -> FloatArray:
        """(P, G + 1) work of n of the cluster's G GPUs, most compact, over that of one.

        Measured numbers and, between and beyond them, the network that schedulers are told, which
        where jobs share links is not what the kernel charges by. Needs INTERFERENCE.
        """
        belief = view.belief
        if self._belief is not belief:
            told = replace(belief, links=None)
            numbers = np.arange(1, view.topology.num_gpus + 1)
            steps_s = reference_steps_s(numbers, view.topology, told)
            self._table = throughputs(steps_s, belief.catalogue.speedup)
            self._belief = belief
        return self._table
