"""Placers that look at how many GPUs each server and rack has to give, or at single GPUs."""

import math
from collections.abc import Sequence

import numpy as np

from sim import codes
from sim.arrays import BoolArray, IntArray
from sim.errors import GpuYardError
from sim.physics.catalogue import Catalogue, plain
from sim.placers import filling
from sim.placers.tiers import NETWORK, needed_tier, offer, servers_to_fill
from sim.view import ClusterView, Signal, Slots


class FirstFit:
    """Lowest GPU ids first, however many servers that touches."""

    name = "first_fit"
    needs = Signal.NONE
    engine_code = codes.FIRST_FIT

    def place(self, gang: int, slots: Slots, rng: np.random.Generator) -> IntArray | None:
        """GPUs, or None if fewer than `gang` are usable."""
        del rng
        gpus = np.flatnonzero(slots.usable)[:gang]
        return gpus if len(gpus) == gang else None


class BestFit:
    """One server if any has room for the gang now: the one with the fewest sufficient GPUs.

    Else the servers with the fewest usable GPUs first, each giving all it has, so that empty
    servers stay empty. Never waits; ties go to the lowest server index. The textbook rule of bin
    packing (Johnson et al., SIAM J. Comput. 1974), which knows no gang larger than a bin: filling
    up the fullest servers is our choice for those.
    """

    name = "best_fit"
    needs = Signal.NONE
    engine_code = codes.BEST_FIT

    def place(self, gang: int, slots: Slots, rng: np.random.Generator) -> IntArray | None:
        """GPUs, or None if fewer than `gang` are usable."""
        del rng
        usable = slots.usable_per_server[slots.servers]
        if usable.sum() < gang:
            return None
        # Servers with too few for the whole gang come last, where one has enough.
        short = (usable < gang) & (usable.max() >= gang)
        servers = slots.servers[np.lexsort((usable, short))]
        return filling.filled(slots, servers, gang)


class WorstFit:
    """Servers with most free GPUs first, however many that touches.

    Tetris's highest dot product of demand and free vector (Grandl et al., SIGCOMM 2014), with GPUs
    as the only resource; each chosen server
    gives all it can before the next; ties go to the lowest index.
    """

    name = "worst_fit"
    needs = Signal.NONE
    engine_code = codes.WORST_FIT

    def place(self, gang: int, slots: Slots, rng: np.random.Generator) -> IntArray | None:
        """GPUs, or None if fewer than `gang` are usable."""
        del rng
        return filling.filled_emptiest_first(slots, gang)


class Packed:
    """`consolidated`'s choice if it exists now, else the servers with most free GPUs first.

    Never waits for compactness; ties go to the lowest server index.
    """

    name = "packed"
    needs = Signal.NONE
    engine_code = codes.PACKED

    def place(self, gang: int, slots: Slots, rng: np.random.Generator) -> IntArray | None:
        """GPUs, or None if fewer than `gang` are usable."""
        gpus = Consolidated().place(gang, slots, rng)
        return filling.filled_emptiest_first(slots, gang) if gpus is None else gpus


class Consolidated:
    """As few servers as could ever hold the gang, the tightest; waits until they are free.

    One server if the gang fits in one: the one with the fewest sufficient free GPUs. Else ⌊g / L⌋
    whole empty servers of the largest size L, lowest index first, and the remainder best-fit on one
    more; lowest index on ties. If that is not there now, the job waits.
    """

    name = "consolidated"
    needs = Signal.NONE
    engine_code = codes.CONSOLIDATED

    def place(self, gang: int, slots: Slots, rng: np.random.Generator) -> IntArray | None:
        """GPUs of the compact placement, or None while it is not there."""
        del rng
        size = slots.most_per_server
        servers = filling.fewest_servers(slots.servers, slots.usable_per_server, size, gang)
        return filling.filled(slots, servers, gang) if len(servers) > 0 else None


class LeastLoaded:
    """Each worker goes to the server with least load: workers on it over its GPUs.

    Ties go to the lowest server index. Inside the server the least shared GPU, lowest id on ties.
    It spreads gangs: that is the rule.
    """

    name = "least_loaded"
    needs = Signal.NONE
    engine_code = codes.LEAST_LOADED

    def place(self, gang: int, slots: Slots, rng: np.random.Generator) -> IntArray | None:
        """GPUs, or None if fewer than `gang` are usable."""
        del rng
        if slots.usable_per_server[slots.servers].sum() < gang:
            return None
        first = slots.topology.server_first_gpu
        return filling.spread_out(
            slots.servers, first, slots.usable, slots.usable_per_server, slots.tenants, gang
        )


class LeastInterference:
    """Workers go to the usable GPUs with the lowest predicted slow-down of self x worst victim.

    A victim's is what the newcomer adds to 1, whoever else slows it. Ties go to the lowest GPU id
    (Harmony's baseline LIF: blind to how far a gang spreads).
    """

    name = "least_interference"
    needs = Signal.PROFILE | Signal.INTERFERENCE
    engine_code = codes.LEAST_INTERFERENCE

    def place(self, gang: int, slots: Slots, rng: np.random.Generator) -> IntArray | None:
        """GPUs, or None if fewer than `gang` are usable."""
        del rng
        gpus = np.flatnonzero(slots.usable)
        if len(gpus) < gang:
            return None
        cheapest = np.argsort(slots.cost[gpus], kind="stable")[:gang]
        return np.sort(gpus[cheapest])


class Random:
    """Any usable GPUs: the floor that every rule has to beat; the only one not compiled."""

    name = "random"
    needs = Signal.NONE

    def place(self, gang: int, slots: Slots, rng: np.random.Generator) -> IntArray | None:
        """GPUs, or None if fewer than `gang` are usable."""
        gpus = np.flatnonzero(slots.usable)
        if len(gpus) < gang:
            return None
        return np.sort(rng.choice(gpus, size=gang, replace=False))


class Closest:
    """A seed server by gang size and racks, then the GPUs nearest to it.

    The placement of TopDRL (Ayadi et al., JPDC 204, 2025), as in its authors' code. The seed: a
    gang larger than a server begins in the rack with most free GPUs, on its server with most. A
    gang of several that fits a server looks in the rack with fewest free GPUs (but some) for
    servers with room for all of it, and takes the tightest; then in the rack with most; there, if
    no server has room, the one with most begins. A single worker goes to the rack with fewest. Then
    GPUs of the seed's server come before those of its rack, those before all others, by id, and the
    first usable ones are taken.

    Left open and chosen here: ties go to the lowest rack and server; a single worker takes the
    tightest server of its rack; on unequal servers, a server's size is that of the largest the
    gang could use. GPUs of a rack that others own do not count as free. Never waits.
    """

    name = "closest"
    needs = Signal.NONE
    engine_code = codes.CLOSEST

    def place(self, gang: int, slots: Slots, rng: np.random.Generator) -> IntArray | None:
        """GPUs, or None if fewer than `gang` are usable."""
        del rng
        topology, usable = slots.topology, slots.usable_per_server
        if usable[slots.servers].sum() < gang:
            return None
        servers = filling.nearest_first(
            slots.servers, usable, topology.server_rack, topology.num_racks, gang
        )
        place = np.zeros(topology.num_servers, dtype=np.int64)
        place[servers] = np.arange(len(servers))
        gpus = np.flatnonzero(slots.usable)
        return gpus[np.argsort(place[topology.gpu_server[gpus]], kind="stable")[:gang]]


class Delay:
    """One server; after `rack_wait_s` one rack, after `anywhere_wait_s` any GPUs.

    Delay scheduling with fixed timers, after Dally (Sharma et al., arXiv 2401.16492). A gang takes
    one server whenever one has room: the one with the fewest sufficient GPUs. Once it has waited
    `rack_wait_s` it also takes one rack: that with the fewest sufficient GPUs, servers with most of
    them first. Once it has waited `anywhere_wait_s` it takes what there is: racks with most usable
    GPUs first, servers with most of them first. A gang that no server (rack) could ever hold does
    not wait for one. Ties go to the lowest index.

    Dally waits since a job was last assigned GPUs, takes the first fit on each level and tunes its
    timers by history; that is the scheduler of that name, this is its rule for any order. A view
    does not say when a job lost its GPUs, so a job's wait here is all the time since submission
    less its time of service (attained GPU-seconds by its gang size): just the wait of a job that
    never ran, and for others the sum of their waits, restarts included.
    """

    name = "delay"
    needs = Signal.NONE
    engine_code = codes.DELAY

    def __init__(self, *, rack_wait_s: float, anywhere_wait_s: float) -> None:
        """`rack_wait_s`: wait for a server; `anywhere_wait_s`: for a rack. Infinite: for ever."""
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
        return filling.filled(slots, servers, gang) if len(servers) > 0 else None

    def wake_s(self, view: ClusterView, job: int) -> float | None:
        """When the next timer of a waiting job runs out."""
        since_s = _waits_since_s(view, job)  # sums are those of `place`, to the last bit
        rack_s, anywhere_s = since_s + self.rack_wait_s, since_s + self.anywhere_wait_s
        if view.now_s < rack_s < math.inf:
            return rack_s
        return anywhere_s if view.now_s < anywhere_s < math.inf else None


def _waits_since_s(view: ClusterView, job: int) -> float:
    """When the job would have been submitted had it waited without a break."""
    jobs = view.jobs
    return float(jobs.submit_s[job] + jobs.attained_gpu_s[job] / jobs.num_gpus[job])


class Skew:
    """A gang of a skewed model waits for one server, or one rack if no server could hold it.

    Other gangs, and those that no rack could hold, prefer a server, then a rack, then take any
    GPUs; the first place found serves. The rule of Tiresias (Gu et al., NSDI 2019) as the
    simulator of Dally's authors has it (Sharma et al., arXiv 2401.16492), which consolidates
    AlexNet, VGG and MobileNetV3 but not ResNet or BERT. Chosen here: of a rack, the servers with
    most usable GPUs go first; a model that the catalogue lacks is not skewed.
    """

    name = "skew"
    needs = Signal.PROFILE | Signal.INTERFERENCE
    engine_code = codes.SKEW

    def __init__(self, *, models: Sequence[str]) -> None:
        """`models`: beginnings of the names of skewed models; only letters and digits count."""
        self._models = tuple(plain(model) for model in models)
        if "" in self._models:
            raise GpuYardError(
                f"placer.models is {list(models)}; every name needs a letter or a digit"
            )
        self._known: tuple[Catalogue, BoolArray] | None = None

    def wake_s(self, view: ClusterView, job: int) -> float | None:
        """None: time alone changes nothing."""
        del view, job
        return None

    def place(self, gang: int, slots: Slots, rng: np.random.Generator) -> IntArray | None:
        """GPUs, or None while the job has to wait."""
        del rng
        view = slots.view
        skewed = self.skewed(view.belief.catalogue)[view.jobs.profile[slots.job]]
        found = offer(slots, gang, needed_tier(slots, gang) if skewed else NETWORK)
        return None if found is None else found[1]

    def skewed(self, catalogue: Catalogue) -> BoolArray:
        """(P,) which profiles are of skewed models."""
        if self._known is None or self._known[0] is not catalogue:
            short = [plain(name.rpartition("/")[0]) for name in catalogue.names]
            hit = [bool(self._models) and name.startswith(self._models) for name in short]
            self._known = catalogue, np.array(hit, dtype=np.bool_)
        return self._known[1]
