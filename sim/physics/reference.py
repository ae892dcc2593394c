"""Steps on the placement that work is counted on (most compact, alone), and on given GPUs."""

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.physics.heavy_edge import mapping_of_job
from sim.physics.job_load import exposed_seconds, local_seconds, measure_placement
from sim.physics.laws import Spread, busy_s, columns_s, comm_of
from sim.physics.link_loads import enter, leave, make_link_loads
from sim.physics.link_network import LinkNetwork
from sim.physics.physics import Physics
from sim.physics.refill import resettle
from sim.topology.topology import Topology


def compact_gpus(topology: Topology, gang: int) -> IntArray:
    """GPUs of the most compact placement of `gang` on an empty cluster.

    Largest servers first; among equals those of the rack with most such servers, so that few racks
    are crossed; then in order. A gang larger than the cluster gets all of it.
    """
    size = topology.gpus_per_server
    alike = size == size.max(initial=0)
    in_rack = np.bincount(topology.server_rack, weights=alike, minlength=topology.num_racks)
    rack = topology.server_rack
    order = np.lexsort((np.arange(len(size)), rack, -in_rack[rack], -size))
    first = topology.server_first_gpu
    gpus: list[int] = []
    for server in order:
        if len(gpus) >= gang:
            break
        gpus.extend(range(first[server], first[server + 1]))
    return np.array(gpus[:gang], dtype=np.int64)


class LoneJob:
    """Measures placements of one job that has the cluster to itself."""

    def __init__(self, network: LinkNetwork, topology: Topology, largest_gang: int) -> None:
        """Room for gangs up to `largest_gang`."""
        self._network = network
        self._gpu_server = topology.gpu_server
        self._loads = make_link_loads(
            network=network, jobs=1, worker_slots=largest_gang, largest_gang=largest_gang
        )

    def seconds(self, profile: int, gpus: IntArray) -> tuple[float, float]:
        """Seconds inside servers and between servers of an iteration, `overlap_frac` apart."""
        network, loads = self._network, self._loads
        gang = loads.load.gang
        count = int(measure_placement(gpus, self._gpu_server, gang))
        local_s = float(local_seconds(network, profile, count, gang))
        if count == 1:
            return local_s, 0.0
        enter(loads, network, 0, profile, count, 0.0)  # elsewhere_s matters only beside others
        resettle(loads, network)
        spread_s = float(loads.job["spread_s"][0])
        leave(loads, network, 0)
        resettle(loads, network)
        return local_s, spread_s


def reference_comm_s(
    network: LinkNetwork, topology: Topology, profiles: int, gangs: IntArray
) -> FloatArray:
    """(profiles, len(gangs)) comm_s of each profile, alone on its most compact placement."""
    placed = [compact_gpus(topology, gang) for gang in gangs.tolist()]
    alone = LoneJob(network, topology, max(map(len, placed)))
    return np.array(
        [
            [exposed_seconds(network, *alone.seconds(profile, gpus)) for gpus in placed]
            for profile in range(profiles)
        ]
    )


def compact_spread(num_gpus: IntArray, topology: Topology) -> tuple[IntArray, IntArray, IntArray]:
    """Most GPUs on one server, servers and racks of the most compact placement of each gang."""
    largest = int(topology.gpus_per_server.max())
    rack_servers = int(np.bincount(topology.server_rack).max())
    servers = -(-num_gpus // largest)
    return np.minimum(num_gpus, largest), servers, -(-servers // rack_servers)


def reference_steps_s(gangs: IntArray, topology: Topology, physics: Physics) -> FloatArray:
    """(P, N + 1) step of each profile with n GPUs, alone, most compact, reference type.

    N is the most of `gangs`. Where links are shared, each placement has to be measured: columns
    that neither `gangs` nor a measured speed-up asks for are then NaN.
    """
    compute_s = physics.catalogue.compute_s[:, [physics.type_index(physics.reference_gpu)]]
    if physics.links is not None:
        return np.asarray(compute_s + _links_comm_s(gangs, topology, physics))
    spread = compact_spread(np.arange(int(gangs.max()) + 1), topology)
    return np.asarray(compute_s + columns_s(physics.network, slice(None), *spread))


def _links_comm_s(gangs: IntArray, topology: Topology, physics: Physics) -> FloatArray:
    assert physics.links is not None
    profiles, largest = len(physics.catalogue.names), int(gangs.max())
    speedup = physics.catalogue.speedup
    measured = 1 if speedup is None else speedup.shape[1] - 1
    asked = np.union1d(gangs, np.arange(1, min(measured, largest) + 1))
    comm_s = np.full((profiles, largest + 1), np.nan)
    comm_s[:, asked] = reference_comm_s(physics.links, topology, profiles, asked)
    return comm_s


class AloneStep:
    """alpha of placements, after the physics given; what is asked for again is remembered.

    alpha = step of the slowest worker's GPU type + exposed communication alone, in seconds:

    - with links (`network=max_min`, `kway`, `duty`) as the links measure the placement;
    - else from `NetworkTables`, which know how far a gang spreads and not what it sends.
    """

    def __init__(self, physics: Physics, topology: Topology) -> None:
        """Measure after `physics`, as a rule what a scheduler believes."""
        self._physics = physics
        self._topology = topology
        self._types = physics.server_types(topology)
        # Made at the first question: it holds room for a gang as large as the cluster.
        self._lone: LoneJob | None = None
        self._least: dict[tuple[int, int], float] = {}
        self._most: dict[tuple[int, int], float] = {}

    def step_s(self, profile: int, gpus: IntArray) -> float:
        """Alpha of a gang of `profile` on `gpus`, as a placement names them."""
        return self.compute_s(profile, gpus) + self.comm_s(profile, gpus)

    def compute_s(self, profile: int, gpus: IntArray) -> float:
        """Its part on the slowest worker's GPU type."""
        types = self._types[self._topology.gpu_server[gpus]]
        return float(self._physics.catalogue.compute_s[profile, types].max())

    def comm_s(self, profile: int, gpus: IntArray) -> float:
        """Its part in communication, on whatever types."""
        links = self._physics.links
        if links is None:
            spread = spread_of(self._topology, self._topology.gpu_server[gpus])
            return float(busy_s(comm_of(self._physics.network, profile, spread)))
        if self._lone is None:
            self._lone = LoneJob(links, self._topology, self._topology.num_gpus)
        local_s, spread_s = self._lone.seconds(profile, gpus)
        return float(exposed_seconds(links, local_s, spread_s))

    def least_comm_s(self, profile: int, gang: int) -> float:
        """On the fewest servers of an empty cluster, mapped by heavy edges or in order.

        The better of the two: heavy edges leave few bytes between servers, but a step waits for
        the heaviest link and for the slowest server inside.
        """
        key = profile, gang
        if key not in self._least:
            gpus = compact_gpus(self._topology, gang)
            least_s = self.comm_s(profile, gpus)
            if self._physics.links is not None and len(gpus) == gang:
                least_s = min(least_s, self.comm_s(profile, self._mapped(profile, gpus)))
            self._least[key] = least_s
        return self._least[key]

    def most_comm_s(self, profile: int, gang: int) -> float:
        """With every worker on a server of its own, as far as there are servers."""
        key = profile, gang
        if key not in self._most:
            self._most[key] = self.comm_s(profile, scattered_gpus(self._topology, gang))
        return self._most[key]

    def _mapped(self, profile: int, gpus: IntArray) -> IntArray:
        """The same GPUs, in the order of the workers that heavy-edge mapping puts there."""
        server, count = np.unique(self._topology.gpu_server[gpus], return_counts=True)
        host = server[mapping_of_job(self._physics, profile, len(gpus), count)]
        mapped = np.empty_like(gpus)
        mapped[np.argsort(host, kind="stable")] = np.sort(gpus)  # ids ascend with servers
        return mapped


def spread_of(topology: Topology, servers: IntArray) -> Spread:
    """How far a gang spreads whose workers run on `servers` (gang,)."""
    count = np.bincount(servers)
    racks = len(set(topology.server_rack[servers].tolist()))
    return Spread(int(count.max()), int(np.count_nonzero(count)), racks)


def scattered_gpus(topology: Topology, gang: int) -> IntArray:
    """GPUs of the widest spread of `gang`: one on each server, evenly over the list of servers.

    More workers than servers come in layers, one more GPU of each server that has one; a gang
    larger than the cluster gets all of it.
    """
    first, size = topology.server_first_gpu, topology.gpus_per_server
    gpus: list[int] = []
    for layer in range(int(size.max(initial=0))):
        servers = np.flatnonzero(size > layer)
        wanted = min(gang - len(gpus), len(servers))
        if wanted <= 0:
            break
        chosen = servers[np.arange(wanted) * len(servers) // wanted]
        gpus.extend((first[chosen] + layer).tolist())
    return np.array(gpus, dtype=np.int64)
