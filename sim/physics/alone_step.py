"""Step time of a job that has the cluster to itself, on given GPUs: A-SRPT's alpha.

As the kernel charges it: worker i runs on the i-th GPU of the placement.
"""

import numpy as np

from sim.arrays import IntArray
from sim.physics.communication import Spread, told_s
from sim.physics.link_load import exposed_seconds
from sim.physics.link_reference import LoneJob, compact_gpus
from sim.physics.physics import Physics
from sim.placing.heavy_edge import mapping_of_job
from sim.topology.topology import Topology


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
        servers = self._topology.gpu_server[gpus]
        compute_s = self._physics.catalogue.compute_s[profile, self._types[servers]].max()
        return float(compute_s) + self._comm_s(profile, gpus, servers)

    def least_s(self, profile: int, gang: int) -> float:
        """alpha_min: on the fewest servers of an empty cluster, mapped by heavy edges or in order.

        The better of the two: heavy edges leave few bytes between servers, but a step waits for
        the heaviest link and for the slowest server inside.
        """
        key = profile, gang
        if key not in self._least:
            gpus = compact_gpus(self._topology, gang)
            least_s = self.step_s(profile, gpus)
            if self._physics.links is not None and len(gpus) == gang:
                least_s = min(least_s, self.step_s(profile, self._mapped(profile, gpus)))
            self._least[key] = least_s
        return self._least[key]

    def most_s(self, profile: int, gang: int) -> float:
        """alpha_max: every worker on a server of its own, as far as there are servers."""
        key = profile, gang
        if key not in self._most:
            self._most[key] = self.step_s(profile, scattered_gpus(self._topology, gang))
        return self._most[key]

    def _mapped(self, profile: int, gpus: IntArray) -> IntArray:
        """The same GPUs, in the order of the workers that heavy-edge mapping puts there."""
        server, count = np.unique(self._topology.gpu_server[gpus], return_counts=True)
        host = server[mapping_of_job(self._physics, profile, len(gpus), count)]
        mapped = np.empty_like(gpus)
        mapped[np.argsort(host, kind="stable")] = np.sort(gpus)  # ids ascend with servers
        return mapped

    def _comm_s(self, profile: int, gpus: IntArray, servers: IntArray) -> float:
        links = self._physics.links
        if links is None:
            return self._table_s(profile, servers)
        if self._lone is None:
            self._lone = LoneJob(links, self._topology, self._topology.num_gpus)
        local_s, spread_s = self._lone.seconds(profile, gpus)
        return float(exposed_seconds(links, local_s, spread_s))

    def _table_s(self, profile: int, servers: IntArray) -> float:
        count = np.bincount(servers)
        racks = np.unique(self._topology.server_rack[servers])
        spread = Spread(int(count.max()), int(np.count_nonzero(count)), len(racks))
        return told_s(self._physics.network, profile, spread)


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
