"""Speeds and servers of the reference simulator: measured anew, from the lists of tenants."""

import math
from collections.abc import Callable
from functools import cache
from itertools import combinations, combinations_with_replacement

from sim.kernel.layout import UNBOUNDED
from sim.physics.link_network import LinkNetwork
from sim.physics.mix_table import MixTable
from sim.physics.physics import Physics
from sim.run import Rules
from sim.topology.outages import Change
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


class ReferenceMixes:
    """docs/reference/semantics.md, the section on mixes."""

    def __init__(self, table: MixTable) -> None:
        self.most = table.most_aggressors
        profiles = range(table.slowdown.shape[1])
        sizes = range(1, self.most + 1)
        mixes = [mix for n in sizes for mix in combinations_with_replacement(profiles, n)]
        # The columns' order: by size, then by the last profile, then the one before, ...
        ordered = sorted(mixes, key=lambda mix: (len(mix), mix[::-1]))
        self.column = {mix: number for number, mix in enumerate(ordered)}
        self.slowdown = table.slowdown.tolist()

    def slow(
        self, kind: int, victim: int, pairs: list[float], others: list[tuple[int, int]]
    ) -> float:
        """Of the victim beside `others`, (profile, thousandths of the GPU) in order of start."""
        slow, below = 1.0, 0
        for milli in sorted({milli for _, milli in others}):
            there = [profile for profile, theirs in others if theirs >= milli]
            excess = self._excess(kind, victim, pairs, there)
            slow += excess * ((milli - below) / 1000.0)
            below = milli
        return slow

    def _excess(self, kind: int, victim: int, pairs: list[float], there: list[int]) -> float:
        if len(there) <= self.most:
            return self._told(kind, victim, there)
        whole = _sum(pairs, there)
        worst = 0.0
        for part in combinations(there, self.most):
            alone = _sum(pairs, part)
            excess = self._told(kind, victim, part)
            worst = max(worst, excess * (whole / alone) if alone > 0.0 else excess)
        return worst

    def _told(self, kind: int, victim: int, there: list[int] | tuple[int, ...]) -> float:
        return self.slowdown[kind][victim][self.column[tuple(sorted(there))]] - 1.0


def _sum(pairs: list[float], there: list[int] | tuple[int, ...]) -> float:
    total = 0.0
    for profile in there:
        total += pairs[profile] - 1.0
    return total


Tenants = list[list[ReferenceJob]]  # of each GPU, in order of start


def entry(row: list[float], index: int) -> float:
    """Tables go on for ever with their last entry."""
    return row[min(index, len(row) - 1)]


class ReferencePhysics:
    """docs/reference/semantics.md, the section on work."""

    def __init__(self, topology: Topology, physics: Physics, rules: Rules) -> None:
        self.compute_s = physics.catalogue.compute_s.tolist()
        self.speedup = physics.catalogue.speedup
        self.slowdown = physics.pairs.slowdown.tolist()
        self.mixes = None if physics.mixes is None else ReferenceMixes(physics.mixes)
        self.network = physics.network
        self.host = physics.host
        names = physics.catalogue.gpu_types
        self.kind_of_server = [
            names.index(topology.gpu_types[kind]) for kind in topology.server_gpu_type.tolist()
        ]
        self.reference_kind = names.index(physics.reference_gpu)
        self.server_of = topology.gpu_server.tolist()
        self.rack_of = topology.server_rack.tolist()
        self.links = None
        if physics.links is not None:
            self.links = ReferenceLinks(
                physics.links, topology, self.compute_s, self.kind_of_server
            )
        every_s = rules.checkpoint_work_s
        self.pace = 1.0 if every_s is None else every_s / (every_s + rules.checkpoint_s)
        self.reference_step_s = cache(self._reference_step_s)  # asked again and again
        self.throughput = cache(self._throughput)

    # --- What work is counted on ------------------------------------------------------------

    def _reference_step_s(self, profile: int, gpus: int) -> float:
        """The most compact placement that the largest server and rack allow, alone."""
        largest = max(self.server_of.count(server) for server in set(self.server_of))
        servers = math.ceil(gpus / largest)
        racks = math.ceil(servers / max(self.rack_of.count(rack) for rack in set(self.rack_of)))
        if self.links is not None:
            comm_s = self.links.reference_comm_s(profile, gpus)
        else:
            comm_s = self._comm_s(profile, min(gpus, largest), servers, racks, 1, 1)
        return float(self.compute_s[profile][self.reference_kind] + comm_s)

    def _throughput(self, profile: int, gpus: int) -> float:
        """Of `gpus` GPUs over that of one: as measured; beyond that by the reference steps."""
        if self.speedup is None:
            return self._modelled(profile, gpus)
        measured = self.speedup[profile].tolist()
        known = [n for n, value in enumerate(measured) if n >= 1 and not math.isnan(value)]
        if gpus in known:
            return float(measured[gpus])
        below = [n for n in known if n < gpus]
        if not below:
            return self._modelled(profile, gpus)
        anchor = below[-1]
        onwards = self._modelled(profile, gpus) / self._modelled(profile, anchor)
        return float(measured[anchor] * onwards)

    def _modelled(self, profile: int, gpus: int) -> float:
        one_s = self.reference_step_s(profile, 1)
        return gpus * one_s / self.reference_step_s(profile, gpus)

    # --- What it runs at --------------------------------------------------------------------

    def speed(
        self, job: ReferenceJob, tenants: Tenants, running: list[ReferenceJob]
    ) -> tuple[float, float, float]:
        """Work seconds a second; shares of its time: communication, co-location."""
        worst_s, alone_s = 0.0, 0.0
        for gpu in job.gpus:
            kind = self.kind_of_server[self.server_of[gpu]]
            own_s = self.compute_s[job.profile][kind]
            slow_s = own_s * self._slow(job, tenants[gpu], kind)
            worst_s = max(worst_s, slow_s * self._host(job, self.server_of[gpu], running))
            alone_s = max(alone_s, own_s)
        comm_s = self._comm_s_of(job, running)
        step_s = worst_s + comm_s
        gpus, pace = len(job.gpus), self.pace
        gain = self.throughput(job.profile, gpus) / self.throughput(job.profile, job.gang)
        speed = self.reference_step_s(job.profile, gpus) / step_s * gain * pace
        return speed, comm_s / step_s * pace, (worst_s - alone_s) / step_s * pace

    def _slow(self, job: ReferenceJob, tenants: list[ReferenceJob], kind: int) -> float:
        pairs = self.slowdown[kind][job.profile]
        others = [(other.profile, other.gpu_milli) for other in tenants if other is not job]
        if self.mixes is not None and len(others) > 1:
            return self.mixes.slow(kind, job.profile, pairs, others)
        slow = 1.0
        for profile, milli in others:
            slow += (pairs[profile] - 1.0) * (milli / 1000.0)
        return slow

    def _host(self, job: ReferenceJob, server: int, running: list[ReferenceJob]) -> float:
        """How much longer a scarce host makes the compute step."""
        if self.host is None:
            return 1.0
        needs, busy_milli, moved_mbs = self.host.needs, 0, 0
        for other in running:
            workers = sum(1 for gpu in other.gpus if self.server_of[gpu] == server)
            busy_milli += workers * int(needs.cpu_milli[other.profile])
            moved_mbs += workers * int(needs.pcie_mbs[other.profile])
        cores = busy_milli / int(self.host.server_cpu_milli[server])
        pcie = moved_mbs / int(self.host.server_pcie_mbs[server])
        return 1.0 + float(needs.wait_frac[job.profile]) * (max(1.0, cores, pcie) - 1.0)

    def _comm_s_of(self, job: ReferenceJob, running: list[ReferenceJob]) -> float:
        if self.links is not None:
            return self.links.comm_s(job, running)
        servers = [self.server_of[gpu] for gpu in job.gpus]
        local = max(servers.count(server) for server in servers)
        return self._comm_s(
            job.profile, local, len(self.servers(job)), len(self.racks(job)),
            self._sharers(self.servers, job, running), self._sharers(self.racks, job, running),
        )  # fmt: skip

    def _comm_s(
        self, profile: int, local: int, servers: int, racks: int, on_nic: int, on_uplink: int
    ) -> float:
        tables = self.network
        local_s = entry(tables.local_s[profile].tolist(), local)
        server_s = entry(tables.server_s[profile].tolist(), servers)
        rack_s = entry(tables.rack_s[profile].tolist(), racks)
        nic, uplink = tables.nic_factor.tolist(), tables.uplink_factor.tolist()
        return local_s + server_s * entry(nic, on_nic) + rack_s * entry(uplink, on_uplink)

    # --- Where it runs ----------------------------------------------------------------------

    def servers(self, job: ReferenceJob) -> set[int]:
        return {self.server_of[gpu] for gpu in job.gpus}

    def racks(self, job: ReferenceJob) -> set[int]:
        return {self.rack_of[server] for server in self.servers(job)}

    def _sharers(
        self, places: Callable[[ReferenceJob], set[int]], job: ReferenceJob,
        running: list[ReferenceJob],
    ) -> int:  # fmt: skip
        """Jobs that span several of these places, on the busiest one of `job`."""
        wide = [places(other) for other in running if len(places(other)) > 1]
        return max(1, *(sum(1 for spans in wide if place in spans) for place in places(job)))


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
