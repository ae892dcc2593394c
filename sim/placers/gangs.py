"""Closest GPUs: a seed server chosen by gang size, then the GPUs nearest to it.

Skew: Tiresias' placement rule, which keeps only models with one large tensor together.

Heavy edge: as few servers as are free now, workers that talk most on the same one.
"""

from collections.abc import Sequence

import numpy as np

from sim.arrays import BoolArray, IntArray
from sim.engine.codes import CLOSEST, HEAVY_EDGE, SKEW
from sim.errors import GpuYardError
from sim.physics.catalogue import Catalogue
from sim.placing.filling import fill_servers
from sim.placing.heavy_edge import mapping_of_job
from sim.placing.tiers import NETWORK, needed_tier, offer
from sim.signals import Signal
from sim.slots import Slots
from sim.view import ClusterView

SAME_SERVER, SAME_RACK, ELSEWHERE = 0, 1, 2


class Closest:
    """The placement of TopDRL (Ayadi et al., JPDC 204, 2025), as in its authors' code.

    The seed: a gang larger than a server begins in the rack with most free GPUs, on its server
    with most. A gang of several that fits a server looks in the rack with fewest free GPUs (but
    some) for servers with room for all of it, and takes the tightest; then in the rack with most;
    there, if no server has room, the one with most begins. A single worker goes to the rack with
    fewest. Then GPUs of the seed's server come before those of its rack, those before all others,
    by id, and the first usable ones are taken.

    Left open and chosen here: ties go to the lowest rack and server; a single worker takes the
    tightest server of its rack; on unequal servers, a server's size is that of the largest the
    gang could use. GPUs of a rack that others own do not count as free. Never waits.
    """

    name = "closest"
    needs = Signal.NONE
    engine_code = CLOSEST

    def place(self, gang: int, slots: Slots, rng: np.random.Generator) -> IntArray | None:
        """GPUs, or None if fewer than `gang` are usable."""
        del rng
        topology = slots.topology
        if slots.usable_per_server[slots.servers].sum() < gang:
            return None
        seed = _seed_server(gang, slots)
        gpus = np.flatnonzero(slots.usable)
        server = topology.gpu_server[gpus]
        near = topology.server_rack[server] == topology.server_rack[seed]
        distance = np.where(near, SAME_RACK, ELSEWHERE)
        distance[server == seed] = SAME_SERVER
        return gpus[np.argsort(distance, kind="stable")[:gang]]


def _seed_server(gang: int, slots: Slots) -> int:
    """The server to begin with; some GPU is usable."""
    topology, free = slots.topology, slots.usable_per_server
    in_rack = np.bincount(
        topology.server_rack[slots.servers],
        weights=free[slots.servers],
        minlength=topology.num_racks,
    )
    fullest = int(np.argmin(np.where(in_rack > 0, in_rack, np.inf)))
    emptiest = int(np.argmax(in_rack))
    mine: BoolArray = np.zeros(topology.num_servers, dtype=np.bool_)
    mine[slots.servers] = True
    if gang <= slots.most_per_server[slots.servers].max(initial=0):
        for rack in (fullest, emptiest):
            fits = mine & (topology.server_rack == rack) & (free >= gang)
            if fits.any():
                return int(np.argmin(np.where(fits, free, topology.num_gpus + 1)))
    here = mine & (topology.server_rack == emptiest)
    return int(np.argmax(np.where(here, free, -1)))


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
    engine_code = SKEW

    def __init__(self, *, models: Sequence[str]) -> None:
        """`models`: beginnings of the names of skewed models; case and punctuation do not count.

        Raises:
            GpuYardError: a name has neither letter nor digit.
        """
        self._models = tuple(_plain(model) for model in models)
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
            plain = [_plain(name.rpartition("/")[0]) for name in catalogue.names]
            hit = [bool(self._models) and name.startswith(self._models) for name in plain]
            self._known = catalogue, np.array(hit, dtype=np.bool_)
        return self._known[1]


def _plain(name: str) -> str:
    """Letters and digits of a model's name: "MobileNet-V3" and "mobilenet_v3" are one."""
    return "".join(sign for sign in name.lower() if sign.isalnum())


class HeavyEdge:
    """The Heavy-Edge GPU mapping of A-SRPT (Luo, Liu, Lee and Shroff, arXiv 2501.05563).

    The servers with most usable GPUs, as few as hold the gang, lowest index on ties; onto these
    the job's communication graph is mapped (`sim.placing.heavy_edge`). GPUs are named in order of
    workers: worker i runs on the i-th. Without a link network nobody knows what jobs send:
    then the graph is a ring of equal weights, and workers fill servers in order. Never waits.

    Link networks charge the mapping as it is.
    """

    name = "heavy_edge"
    needs = Signal.PROFILE | Signal.INTERFERENCE
    engine_code = HEAVY_EDGE

    def place(self, gang: int, slots: Slots, rng: np.random.Generator) -> IntArray | None:
        """GPUs in order of workers, or None if fewer than `gang` are usable."""
        del rng
        view, first = slots.view, slots.topology.server_first_gpu
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
        gpus = fill_servers(servers, take, first, slots.usable, slots.tenants, gang)
        # `gpus` stand server by server; the workers of each in ascending order.
        by_worker = np.empty(gang, dtype=np.int64)
        by_worker[np.argsort(host, kind="stable")] = gpus
        return by_worker
