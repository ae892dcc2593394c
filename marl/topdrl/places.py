"""Where the closest free GPUs are for each waiting job of the window."""

from dataclasses import dataclass

import numpy as np

from marl.topdrl.pricing import Pricing
from sim.arrays import IntArray
from sim.engine.demands_room import ask_of
from sim.engine.occupancy import Occupancy
from sim.placers.closest import Closest
from sim.view import ClusterView


@dataclass(frozen=True)
class Place:
    """GPUs for one job, and its speed on them."""

    gpus: IntArray  # (gang,)
    speed: float


class Places:
    """Places on one view; jobs of one kind (gang and demands) share a search."""

    def __init__(self, view: ClusterView, pricing: Pricing) -> None:
        """Nothing is searched yet."""
        self._view, self._pricing = view, pricing
        self._occupancy = Occupancy(view)
        self._room = self._occupancy.most_room(view, False)
        self._placer, self._rng = Closest(), np.random.default_rng(0)  # draws nothing
        self._found: dict[tuple[int, ...], IntArray | None] = {}

    def of(self, job: int) -> Place | None:
        """None where it does not fit now."""
        gang = int(self._view.jobs.num_gpus[job])
        if gang > self._room:
            return None
        kind = (gang, *ask_of(self._view.jobs.demands, job))
        if kind not in self._found:
            slots = self._occupancy.exclusive(self._view, job)
            self._found[kind] = self._placer.place(gang, slots, self._rng)
        gpus = self._found[kind]
        if gpus is None:
            return None
        profile = int(self._view.jobs.profile[job])
        return Place(gpus, self._pricing.speed(profile, gang, gpus))
