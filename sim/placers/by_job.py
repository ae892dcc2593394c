"""Placers that look at the job: its communication, its graph, the work its neighbours have left."""

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.codes import COMPACT_WAIT, HEAVY_EDGE, LWF
from sim.errors import GpuYardError, check_numbers
from sim.jit import array_kernel
from sim.physics.heavy_edge import mapping_of_job
from sim.placers.filling import filled, workload_s
from sim.placers.placement_search import Law, Offer, Site, cheapest_placement, least_comm_s
from sim.view import ClusterView, Signal, Slots


class CompactWait:
    """The placement predicted to slow down least; waits for a compact one.

    The placements looked at are those of `sim.placers.placement_search`: the best single server,
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
        """`most_slowdown`: predicted exclusive slow-down, 1 or more, from which a job waits."""
        check_numbers("placer", "1 or more", most_slowdown=most_slowdown)
        self.most_slowdown = most_slowdown
        self.name = "compact_wait"

    def place(self, gang: int, slots: Slots, rng: np.random.Generator) -> IntArray | None:
        """GPUs in order of ids, or None if the job should wait."""
        del rng
        mine, usable = slots.servers, slots.usable_per_server
        if usable[mine].sum() < gang:
            return None
        view = slots.view
        law = Law(view.belief.network, int(view.jobs.profile[slots.job]))
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


class HeavyEdge:
    """Few servers, workers that send each other most on the same one.

    The Heavy-Edge GPU mapping of A-SRPT (Luo, Liu, Lee and Shroff, arXiv 2501.05563). The servers
    with most usable GPUs, as few as hold the gang, lowest index on ties; onto these the job's
    communication graph is mapped (`sim.physics.heavy_edge`). GPUs are named in order of workers:
    worker i runs on the i-th. Without a link network nobody knows what jobs send: then the graph is
    a ring of equal weights, and workers fill servers in order. Never waits.

    Link networks charge the mapping as it is.
    """

    name = "heavy_edge"
    needs = Signal.PROFILE | Signal.INTERFERENCE
    engine_code = HEAVY_EDGE

    def place(self, gang: int, slots: Slots, rng: np.random.Generator) -> IntArray | None:
        """GPUs in order of workers, or None if fewer than `gang` are usable."""
        del rng
        view = slots.view
        profile = int(view.jobs.profile[slots.job])
        usable = slots.usable_per_server[slots.servers]
        order = np.argsort(-usable, kind="stable")
        room = np.cumsum(usable[order])
        if len(room) == 0 or room[-1] < gang:
            return None
        chosen = order[: int(np.searchsorted(room, gang)) + 1]
        servers = slots.servers[chosen]
        host = mapping_of_job(view.belief, profile, gang, usable[chosen])
        take = np.bincount(host, minlength=len(servers))
        gpus = filled(slots, servers, gang, take)
        # `gpus` stand server by server; the workers of each in ascending order.
        by_worker = np.empty(gang, dtype=np.int64)
        by_worker[np.argsort(host, kind="stable")] = gpus
        return by_worker


class Lwf:
    """Gangs up to `kappa` on the GPUs with least predicted work left, larger ones on such servers.

    LWF-kappa of Wang, Shi, Wang and Chu (arXiv 2002.10105). The workload of a GPU is the predicted
    work left of the jobs on it. A gang of at most `kappa` takes the usable GPUs with least
    workload, wherever they are. A larger one fills servers in the order of their total workload,
    least first, so that it stays together; kappa = 1 was best there.

    Left open and chosen here: in the paper jobs share GPUs, and nearly every server has room.
    Where they do not, one with little work may have no room, so servers with room for the whole
    gang come before the others. Work left is predicted seconds at speed 1 (the paper adds expected
    communication to compute; a prediction here is of the whole job). Ties go to the lowest server
    and GPU; on a server the GPUs with least workload come first. A rule is not told who started or
    stopped on a GPU earlier in the same decision, only how many are on it: those that have come
    count the mean work left of waiting jobs, those that went their share of the GPU's. Never waits.
    """

    name = "lwf"
    needs = Signal.PREDICTION
    engine_code = LWF

    def __init__(self, *, kappa: int) -> None:
        """`kappa`: largest gang, a whole number of 0 or more, that need not stay together."""
        if not (isinstance(kappa, int) and kappa >= 0):
            raise GpuYardError(f"placer.kappa is {kappa!r}; it must be a whole number, 0 or more")
        self.kappa = kappa

    def place(self, gang: int, slots: Slots, rng: np.random.Generator) -> IntArray | None:
        """GPUs, or None if fewer than `gang` are usable."""
        del rng
        if slots.usable_per_server[slots.servers].sum() < gang:
            return None
        gpus = np.flatnonzero(slots.usable)
        load_s = gpu_workload_s(slots)
        if gang <= self.kappa:
            return gpus[np.argsort(load_s[gpus], kind="stable")[:gang]]
        topology = slots.topology
        server = topology.gpu_server[gpus]
        total_s = np.bincount(topology.gpu_server, weights=load_s, minlength=topology.num_servers)
        short = slots.usable_per_server[server] < gang
        return gpus[np.lexsort((load_s[gpus], server, total_s[server], short))[:gang]]


def gpu_workload_s(slots: Slots) -> FloatArray:
    """(G,) predicted work left of the jobs on each GPU, in seconds at speed 1."""
    view = slots.view
    left_s = view.jobs.predicted_remaining_s
    # Empty entries are -1: they read the last job, and count nothing.
    load_s: FloatArray = np.where(view.tenant >= 0, left_s[view.tenant], 0.0).sum(axis=1)
    if not np.array_equal(slots.tenants, view.tenants):
        waiting_s = float(left_s[view.queued].mean()) if len(view.queued) > 0 else 0.0
        _follow_changes(load_s, np.array(view.tenants), slots.tenants, waiting_s)
    return load_s


@array_kernel
def _follow_changes(load_s: FloatArray, before: IntArray, now: IntArray, waiting_s: float) -> None:
    """Workloads as of now in place of those as the decision began."""
    for gpu in range(len(load_s)):
        load_s[gpu] = workload_s(load_s[gpu], before[gpu], now[gpu], waiting_s)
