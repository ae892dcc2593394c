"""Servers of the reference simulator: which are up, and what is left of their cores and memory."""

from sim.kernel.layout import UNBOUNDED
from sim.topology.outages import Change
from sim.topology.topology import Topology
from tests.oracle.reference_physics import Tenants


class ReferenceServers:
    """Counts reasons to be away; recounts everything else from the tenants."""

    def __init__(self, topology: Topology) -> None:
        self.server_of = topology.gpu_server.tolist()
        self.type_of = topology.server_gpu_type.tolist()
        self.reasons = [0] * topology.num_servers
        self._cpu_milli = self._whole(topology.server_cpu_milli)
        self._memory_mib = self._whole(topology.server_memory_mib)

    def _whole(self, given: object) -> list[int]:
        return [UNBOUNDED] * len(self.reasons) if given is None else given.tolist()

    def is_up(self, server: int) -> bool:
        return self.reasons[server] == 0

    def change(self, server: int, change: int) -> None:
        self.reasons[server] += -1 if change == Change.OPEN else 1

    def gpus_of(self, server: int) -> list[int]:
        return [gpu for gpu, where in enumerate(self.server_of) if where == server]

    def cpu_free_milli(self, server: int, tenants: Tenants) -> int:
        held = [job.cpu_milli for gpu in self.gpus_of(server) for job in tenants[gpu]]
        return self._cpu_milli[server] - sum(held)

    def memory_free_mib(self, server: int, tenants: Tenants) -> int:
        held = [job.memory_mib for gpu in self.gpus_of(server) for job in tenants[gpu]]
        return self._memory_mib[server] - sum(held)

    def free(self, server: int, tenants: Tenants) -> int:
        """GPUs without a tenant; none while it is away."""
        return sum(not tenants[gpu] for gpu in self.gpus_of(server)) * self.is_up(server)
