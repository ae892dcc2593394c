"""Compact wait: the cheapest predicted placement, if it is not spread too far."""

import numpy as np

from sim.arrays import IntArray
from sim.engine.codes import COMPACT_WAIT
from sim.errors import GpuYardError
from sim.placing.placement_search import Law, Offer, Site, cheapest_placement, least_comm_s
from sim.signals import Signal
from sim.slots import Slots
from sim.view import ClusterView


class CompactWait:
    """Of some placements the one that is predicted to slow down least; waits for a compact one.

    The placements looked at are those of `sim.placing.placement_search`: the best single server,
    the fewest servers ever, the servers with most usable GPUs, the same in each rack, and the
    cheapest GPUs wherever they are. A placement costs its slowest worker (compute x predicted
    slow-down of self and of the worst victim) plus communication by the belief's tables, beside the
    jobs on its NICs and uplinks.

    A placement qualifies if its predicted *exclusive* slow-down, that is without neighbours on its
    GPUs, is at most `most_slowdown` times that of the most compact placement the gang could ever
    get here, on GPUs of the same types: nobody waits for a faster type. Of those that qualify the
    cheapest is taken; if none does, the job waits, however long. Where all is free that the gang
    could ever use, there is nothing to wait for and the cheapest is taken anyway; so nobody starves
    who would not starve under `consolidated`.

    This is the rule that GPUYard's own studies call compW1.3; no paper is its source. Jobs started
    earlier in the same decision count on their GPUs, but not yet on their NICs.
    """

    needs = Signal.PROFILE | Signal.INTERFERENCE
    engine_code = COMPACT_WAIT

    def __init__(self, *, most_slowdown: float) -> None:
        """`most_slowdown`: predicted exclusive slow-down from which a job waits.

        Raises:
            GpuYardError: it is below 1, which nothing could reach.
        """
        if not 1 <= most_slowdown < float("inf"):
            raise GpuYardError(
                f"placer.most_slowdown is {most_slowdown}; it must be a finite number, 1 or more"
            )
        self.most_slowdown = most_slowdown
        self.name = "compact_wait"

    def place(self, gang: int, slots: Slots, rng: np.random.Generator) -> IntArray | None:
        """GPUs in order of ids, or None if the job should wait."""
        del rng
        mine, usable = slots.servers, slots.usable_per_server
        if usable[mine].sum() < gang:
            return None
        view = slots.view
        law = Law.of(view.belief.network, int(view.jobs.profile[slots.job]))
        site = _site(view, slots)
        most = slots.most_per_server
        all_free = bool(np.array_equal(usable[mine], most[mine]))
        limit = np.inf if all_free else self.most_slowdown
        least_s = least_comm_s(gang, mine, most, site, law)
        offer = Offer.of(slots)
        gpus = cheapest_placement(gang, offer, most, site, law, least_s, limit, -np.inf)
        return np.sort(gpus) if len(gpus) == gang else None

    def wake_s(self, view: ClusterView, job: int) -> float | None:
        """None: only what others do changes the answer."""
        del view, job
        return None


def _site(view: ClusterView, slots: Slots) -> Site:
    profile = int(view.jobs.profile[slots.job])
    return Site(
        compute_s=view.belief.catalogue.compute_s[profile][view.server_type],
        rack=slots.topology.server_rack,
        nic_jobs=np.array(view.nic_jobs),
        uplink_jobs=np.array(view.uplink_jobs),
    )
