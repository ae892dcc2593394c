"""Delay: one server, after a while one rack, after longer anything."""

import math

import numpy as np

from sim.arrays import IntArray
from sim.engine.codes import DELAY
from sim.errors import GpuYardError
from sim.jit import array_kernel
from sim.placing.filling import fill_servers
from sim.signals import Signal
from sim.slots import Slots
from sim.view import ClusterView

NONE = -1


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
    engine_code = DELAY

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
        topology, usable = slots.topology, slots.usable_per_server
        since_s, now_s = _waits_since_s(slots.view, slots.job), slots.view.now_s
        servers = servers_to_fill(
            gang, slots.servers, usable, slots.most_per_server, topology.server_rack,
            topology.num_racks, now_s >= since_s + self.rack_wait_s,
            now_s >= since_s + self.anywhere_wait_s,
        )  # fmt: skip
        if len(servers) == 0:
            return None
        first, take = topology.server_first_gpu, usable[servers]
        return fill_servers(servers, take, first, slots.usable, slots.tenants, gang)

    def wake_s(self, view: ClusterView, job: int) -> float | None:
        """When the next timer of a waiting job runs out."""
        since_s = _waits_since_s(view, job)  # sums are those of `place`, to the last bit
        rack_s, anywhere_s = since_s + self.rack_wait_s, since_s + self.anywhere_wait_s
        if view.now_s < rack_s < math.inf:
            return rack_s
        return anywhere_s if view.now_s < anywhere_s < math.inf else None


@array_kernel
def servers_to_fill(  # noqa: PLR0917 - arrays go by position into compiled code
    gang: int,
    servers: IntArray,  # (s,) owned, ascending
    usable: IntArray,  # (S,)
    most: IntArray,  # (S,) if every server that is up were empty
    rack: IntArray,  # (S,)
    racks: int,
    takes_rack: bool,
    takes_anything: bool,
) -> IntArray:
    """Servers that hold the gang, in the order to fill them; none where it should wait."""
    rack_usable, rack_most = np.zeros(racks, dtype=np.int64), np.zeros(racks, dtype=np.int64)
    total, largest, best = 0, 0, NONE
    for server in servers:
        rack_usable[rack[server]] += usable[server]
        rack_most[rack[server]] += most[server]
        total += usable[server]
        largest = max(largest, most[server])
        if usable[server] >= gang and (best == NONE or usable[server] < usable[best]):
            best = server
    if best != NONE:
        return np.array([best])
    if total >= gang and (takes_rack or largest < gang):
        for each in range(racks):
            fits = rack_usable[each] >= gang
            if fits and (best == NONE or rack_usable[each] < rack_usable[best]):
                best = each
        if best != NONE:
            return _fullest_first(servers[rack[servers] == best], usable)
    if total >= gang and (takes_anything or rack_most.max() < gang):
        by_room = _fullest_first(servers, usable)
        by_rack = by_room[np.argsort(rack[by_room], kind="mergesort")]
        return _fullest_first(by_rack, rack_usable[rack])
    return servers[:0].copy()


@array_kernel
def _fullest_first(servers: IntArray, room: IntArray) -> IntArray:
    order: IntArray = servers[np.argsort(-room[servers], kind="mergesort")]
    return order


def _waits_since_s(view: ClusterView, job: int) -> float:
    """When the job would have been submitted had it waited without a break."""
    jobs = view.jobs
    return float(jobs.submit_s[job] + jobs.attained_gpu_s[job] / jobs.num_gpus[job])
