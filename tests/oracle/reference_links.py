"""Shared links of the reference simulator: the plain-Python network, asked anew for everybody."""

from sim.physics.link_network import LinkNetwork
from sim.topology.topology import Topology
from tests.oracle.reference_job import ReferenceJob
from tests.physics.network_twin import NetworkTwin, TwinJob


class ReferenceLinks:
    """docs/clusters.md."""

    def __init__(self, network: LinkNetwork, topology: Topology, compute_s: list[list[float]],
                 kind_of_server: list[int]) -> None:  # fmt: skip
        graph = topology.links
        self._server_of = topology.gpu_server.tolist()
        self._rack_of = topology.server_rack.tolist()
        self._twin = NetworkTwin(network, self._server_of, lambda a, b: graph.path(a, b).tolist())
        self._compute_s, self._kind_of_server = compute_s, kind_of_server
        self._asked: list[tuple[int, tuple[int, ...]]] = []
        self._answer: dict[int, float] = {}

    def comm_s(self, job: ReferenceJob, running: list[ReferenceJob]) -> float:
        """Of `job` while these jobs run, in ascending order of rows."""
        asked = [(each.row, tuple(each.gpus)) for each in running]
        if asked != self._asked:
            seconds = self._twin.comm_seconds([self._twin_job(each) for each in running])
            self._asked = asked
            self._answer = {each.row: s for each, s in zip(running, seconds, strict=True)}
        return self._answer[job.row]

    def _twin_job(self, job: ReferenceJob) -> TwinJob:
        kinds = {self._kind_of_server[self._server_of[gpu]] for gpu in job.gpus}
        compute_s = max(self._compute_s[job.profile][kind] for kind in kinds)
        return TwinJob(job.profile, tuple(job.gpus), compute_s)

    def reference_comm_s(self, profile: int, gpus: int) -> float:
        """Alone on the most compact placement."""
        return self._twin.comm_seconds([TwinJob(profile, self._compact(gpus))])[0]

    def _compact(self, gpus: int) -> tuple[int, ...]:
        """Largest servers first; of these, those in the rack that has most of them; in order."""
        size = {server: self._server_of.count(server) for server in set(self._server_of)}
        largest = [server for server in size if size[server] == max(size.values())]
        alike = [self._rack_of[server] for server in largest]
        order = sorted(size, key=lambda server: (
            -size[server], -alike.count(self._rack_of[server]), self._rack_of[server], server
        ))  # fmt: skip
        found = [gpu for server in order for gpu, at in enumerate(self._server_of) if at == server]
        return tuple(found[:gpus])
