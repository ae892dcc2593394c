"""Communication on the placement that work is counted on: most compact, alone."""

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.physics.link_load import exposed_seconds, local_seconds, measure_placement
from sim.physics.link_loads import enter, leave, make_link_loads
from sim.physics.link_network import LinkNetwork
from sim.physics.spread_rates import resettle
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


def placement_seconds(
    network: LinkNetwork, topology: Topology, profile: int, gpus: IntArray
) -> tuple[float, float]:
    """`LoneJob.seconds` of one placement."""
    return LoneJob(network, topology, len(gpus)).seconds(profile, gpus)


def reference_comm_s(
    network: LinkNetwork, topology: Topology, profile: IntArray, num_gpus: IntArray
) -> FloatArray:
    """(J,) comm_s of J jobs, each alone on its most compact placement."""
    placed = {int(gang): compact_gpus(topology, int(gang)) for gang in np.unique(num_gpus)}
    alone = LoneJob(network, topology, max(map(len, placed.values())))
    known: dict[tuple[int, int], float] = {}
    for pair in zip(profile.tolist(), num_gpus.tolist(), strict=True):
        if pair not in known:
            local_s, spread_s = alone.seconds(pair[0], placed[pair[1]])
            known[pair] = float(exposed_seconds(network, local_s, spread_s))
    pairs = zip(profile.tolist(), num_gpus.tolist(), strict=True)
    return np.array([known[pair] for pair in pairs], dtype=np.float64)
