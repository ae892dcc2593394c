"""Shared links of the reference simulator: the plain-Python network, asked anew for everybody."""

from sim.physics.link_network import LinkNetwork
from sim.physics.traffic import PARAMETER_SERVER, RING
from sim.topology.topology import Topology
from tests.oracle.reference_job import ReferenceJob
from tests.physics.network_twin import NetworkTwin, TwinJob


class WorkerTwin(NetworkTwin):
    """The plain-Python network with worker i on the i-th GPU of each placement."""

    def hosts(self, job: TwinJob) -> list[int]:
        """Server of each worker."""
        return [self.gpu_server[gpu] for gpu in job.gpus]

    def inside_s(self, job: TwinJob) -> float:
        """Seconds inside the slowest server."""
        hosts, seconds = self.hosts(job), []
        for server, gpus in self.servers(job).items():
            workers = [worker for worker, host in enumerate(hosts) if host == server]
            num_bytes, steps = self.inside_of(job, workers)
            rate = self.inside_gbps(server, gpus) * (1e9 / 8.0)
            seconds.append(num_bytes / rate + steps * self.network.alpha_local_s)
        return max(seconds)

    def inside_of(self, job: TwinJob, workers: list[int]) -> tuple[float, int]:
        """Bytes of the busiest GPU and message steps among these workers of one server."""
        row, gang, here = self.network.profile[job.profile], len(job.gpus), len(workers)
        grad = float(row["grad_bytes"])
        if gang == 1:
            return 0.0, 0
        if row["pattern"] == RING:
            return _ring_bytes(here, grad), 2 * (here - 1)
        if row["pattern"] == PARAMETER_SERVER:
            shards = int(row["ps_count"])
            hosted = sum(shard * gang // shards in workers for shard in range(shards))
            return here * hosted * grad / shards, 2 if hosted else 0
        width, depth, copies = self.shape(job)
        groups = [worker // width for worker in workers]
        rings = [(worker // (copies * width), worker % width) for worker in workers]
        tensor, data = max(map(groups.count, groups)), max(map(rings.count, rings))
        num_bytes = _ring_bytes(tensor, float(row["tensor_bytes"]) / depth)
        num_bytes += _ring_bytes(data, grad / (width * depth))
        steps = 2 * (tensor - 1) + 2 * (data - 1)
        if any(worker + copies * width in workers for worker in workers):
            num_bytes += 2.0 * float(row["activation_bytes"]) / width
            steps += 2
        return num_bytes, steps


class ReferenceLinks:
    """docs/clusters.md."""

    def __init__(self, network: LinkNetwork, topology: Topology, compute_s: list[list[float]],
                 kind_of_server: list[int]) -> None:  # fmt: skip
        graph = topology.links
        self._server_of = topology.gpu_server.tolist()
        self._rack_of = topology.server_rack.tolist()
        self._twin = WorkerTwin(network, self._server_of, lambda a, b: graph.path(a, b).tolist())
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


def _ring_bytes(members: int, buffer_bytes: float) -> float:
    return 2.0 * (members - 1.0) / members * buffer_bytes if members > 1 else 0.0
