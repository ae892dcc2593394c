"""When and where a blocked job will run, if running jobs end as predicted."""

from typing import NamedTuple

import numpy as np

from sim.arrays import IntArray
from sim.engine.occupancy import Occupancy
from sim.protocols import Placer, Sharing
from sim.view import ClusterView


class Ending(NamedTuple):
    """A job that holds GPUs, and when it is expected to give them back."""

    end_s: float
    job: int
    gpus: IntArray


class Reservation(NamedTuple):
    """GPUs that a blocked job is to get at `shadow_s`."""

    shadow_s: float
    gpus: IntArray

    def outside(self, occupancy: Occupancy) -> Occupancy:
        """A copy of `occupancy` in which the reserved GPUs are full."""
        rest = occupancy.copy()
        rest.tenants[self.gpus] = rest.tenant.shape[1]
        return rest


class Reserver(NamedTuple):
    """Tries a job on the GPUs that others are expected to leave."""

    view: ClusterView
    placer: Placer
    sharing: Sharing
    rng: np.random.Generator

    def reserve(self, occupancy: Occupancy, endings: list[Ending], job: int) -> Reservation | None:
        """The earliest end at which `job` has a place; None if it has none even after all ends.

        `endings` are in order of time. Bisection: what fits, fits after more ends too.
        """
        gpus = self._after(occupancy, endings, job)[0]
        if gpus is None:
            return None
        low, high = 0, len(endings)  # after `low` ends it has no place, after `high` it has
        while high - low > 1:
            middle = (low + high) // 2
            found, trial = self._after(occupancy, endings[low:middle], job)
            if found is None:
                low, occupancy = middle, trial
            else:
                high, gpus = middle, found
        return Reservation(endings[high - 1].end_s, gpus) if endings else None

    def _after(
        self, occupancy: Occupancy, endings: list[Ending], job: int
    ) -> tuple[IntArray | None, Occupancy]:
        """GPUs for `job` once these have ended, and who holds what then."""
        trial = occupancy.copy()
        for ending in endings:
            trial.release(ending.job, ending.gpus)
        return self.sharing.place(self.view, trial, job, self.placer, self.rng), trial
