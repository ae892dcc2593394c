"""Delay: one server, after a while one rack, after longer anything."""

import math

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.errors import GpuYardError
from sim.placing.compactness import best_fit_server
from sim.placing.filling import fill_servers
from sim.signals import Signal
from sim.slots import Slots
from sim.view import ClusterView


class Delay:
    """Delay scheduling with fixed timers, after Dally (Sharma et al., arXiv 2401.16492).

    A gang takes one server whenever one has room: the one with the fewest sufficient GPUs. Once it
    has waited `rack_wait_s` it also takes one rack: that with the fewest sufficient GPUs, servers
    with most of them first. Once it has waited `anywhere_wait_s` it takes what there is: racks
    with most usable GPUs first, servers with most of them first. A gang that no server (rack)
    could ever hold does not wait for one. Ties go to the lowest index.

    Dally waits since a job was last assigned GPUs, takes the first fit on each level and tunes its
    timers by history; that is the scheduler of that name, this is its rule for any order. A view
    does not say when a job lost its GPUs, so a job's wait here is all the time since submission
    less its time of service (attained GPU-seconds by its gang size): just the wait of a job that
    never ran, and for others the sum of their waits, restarts included.
    """

    name = "delay"
    needs = Signal.NONE

    def __init__(self, *, rack_wait_s: float, anywhere_wait_s: float) -> None:
        """`rack_wait_s`: wait for a server; `anywhere_wait_s`: for a rack. Infinite: for ever.

        Raises:
            GpuYardError: one is below 0, or a rack is given up before a server.
        """
        if not rack_wait_s >= 0:
            raise GpuYardError(f"placer.rack_wait_s is {rack_wait_s}; it must be 0 or more seconds")
        if not anywhere_wait_s >= rack_wait_s:
            raise GpuYardError(
                f"placer.anywhere_wait_s is {anywhere_wait_s}; it must be at least rack_wait_s, "
                f"which is {rack_wait_s}"
            )
        self.rack_wait_s = rack_wait_s
        self.anywhere_wait_s = anywhere_wait_s

    def place(self, gang: int, slots: Slots, rng: np.random.Generator) -> IntArray | None:
        """GPUs on the best level there is, or None if the job should wait for a better one."""
        del rng
        usable = slots.usable_per_server
        rack_usable = _by_rack(slots, usable)
        if rack_usable.sum() < gang:
            return None
        topology, none = slots.topology, np.zeros_like(usable)
        server = int(best_fit_server(slots.servers, usable, gang, none))
        servers = np.array([server]) if server >= 0 else self._spread(gang, slots, rack_usable)
        first, take = topology.server_first_gpu, usable[servers]
        if take.sum() < gang:
            return None
        return fill_servers(servers, take, first, slots.usable, slots.tenants, gang)

    def wake_s(self, view: ClusterView, job: int) -> float | None:
        """When the next timer of a waiting job runs out."""
        since_s = _waits_since_s(view, job)
        times = (since_s + self.rack_wait_s, since_s + self.anywhere_wait_s)
        return next((at_s for at_s in times if view.now_s < at_s < math.inf), None)

    def _spread(self, gang: int, slots: Slots, rack_usable: FloatArray) -> IntArray:
        """Servers to fill in this order, too few for the gang where it should wait."""
        usable, most = slots.usable_per_server, slots.most_per_server
        mine, rack = slots.servers, slots.topology.server_rack
        here: IntArray = mine[:0]
        no_server = most[mine].max() < gang
        no_rack = _by_rack(slots, most).max() < gang
        if no_server or self._over(slots, self.rack_wait_s):
            fits = rack_usable >= gang
            if fits.any():
                best = int(np.argmin(np.where(fits, rack_usable, np.inf)))
                here = mine[rack[mine] == best]
                return here[np.argsort(-usable[here], kind="stable")]
        if no_rack or self._over(slots, self.anywhere_wait_s):
            here = mine[np.lexsort((-usable[mine], rack[mine], -rack_usable[rack[mine]]))]
        return here

    def _over(self, slots: Slots, timer_s: float) -> bool:
        """Whether the job has waited this long; the sum is that of `wake_s`, to the last bit."""
        return slots.view.now_s >= _waits_since_s(slots.view, slots.job) + timer_s


def _by_rack(slots: Slots, per_server: IntArray) -> FloatArray:
    """(R,) sums over the owned servers of each rack."""
    topology, mine = slots.topology, slots.servers
    rack = topology.server_rack[mine]
    sums = np.bincount(rack, weights=per_server[mine], minlength=topology.num_racks)
    return sums.astype(np.float64)


def _waits_since_s(view: ClusterView, job: int) -> float:
    """When the job would have been submitted had it waited without a break."""
    jobs = view.jobs
    return float(jobs.submit_s[job] + jobs.attained_gpu_s[job] / jobs.num_gpus[job])
