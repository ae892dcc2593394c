"""Share if nothing exclusive fits and the predicted combined speed is worth it."""

from dataclasses import replace

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.occupancy import SHARING_NEEDS, Occupancy
from sim.protocols import Placer
from sim.view import ClusterView


class SelectiveSharing:
    """Fallback sharing, only on GPUs where the tenants together are predicted fast enough.

    Combined speed of a pair is 1 / slowdown(self) + 1 / slowdown(other): 1 is what taking turns
    would give. A GPU is offered if it is empty or this sum exceeds `threshold`.
    """

    needs = SHARING_NEEDS

    def __init__(self, *, threshold: float) -> None:
        """`threshold`: least predicted combined speed, typically 1.2 to 1.4."""
        self.threshold = threshold
        self.name = f"selective{threshold:g}"

    def place(
        self, view: ClusterView, occupancy: Occupancy, job: int, placer: Placer,
        rng: np.random.Generator,
    ) -> IntArray | None:  # fmt: skip
        """The placer's choice, exclusive before worthwhile sharing."""
        gang = int(view.jobs.num_gpus[job])
        gpus = placer.place(gang, occupancy.exclusive(view), rng)
        if gpus is not None:
            return gpus
        slots = occupancy.shared(view, job)
        worth = slots.usable & (combined_speed(view, occupancy, job) > self.threshold)
        per_server = np.bincount(
            view.topology.gpu_server[worth], minlength=view.topology.num_servers
        ).astype(np.int64)
        return placer.place(gang, replace(slots, usable=worth, usable_per_server=per_server), rng)


def combined_speed(view: ClusterView, occupancy: Occupancy, job: int) -> FloatArray:
    """(G,) predicted speeds of all tenants of each GPU together if `job` joined; inf if empty."""
    slowdown = view.belief.pairs.slowdown
    profile = view.jobs.profile
    mine = profile[job]
    kind = view.server_type[view.topology.gpu_server]
    own = np.ones(len(kind))
    total = np.zeros(len(kind))
    for k in range(occupancy.tenant.shape[1]):
        here = np.flatnonzero(occupancy.tenants > k)
        theirs = profile[occupancy.tenant[here, k]]
        own[here] += slowdown[kind[here], mine, theirs] - 1.0
        total[here] += 1.0 / slowdown[kind[here], theirs, mine]
    total += 1.0 / own
    total[occupancy.tenants == 0] = np.inf
    return total
