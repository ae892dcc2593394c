"""The network of docs/clusters.md in plain Python: lists and dictionaries, nothing kept up to date.

`comm_seconds` measures all running jobs anew from their placements. It adds in the order that the
page fixes, so that the compiled network has to agree to the last bit.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

from sim.physics.link_network import DUTY, K_WAY, LinkNetwork
from sim.physics.traffic import PARAMETER_SERVER, RING

Path = Callable[[int, int], list[int]]  # directed links from server to server


@dataclass(frozen=True)
class TwinJob:
    """A running job: profile and GPUs in order of placement."""

    profile: int
    gpus: tuple[int, ...]
    compute_s: float = 0.0


class NetworkTwin:
    """Seconds of communication of jobs that run at once."""

    def __init__(self, network: LinkNetwork, gpu_server: list[int], path: Path) -> None:
        self.network = network
        self.gpu_server = gpu_server
        self.path = path
        self.capacity = network.capacity.tolist()

    def comm_seconds(self, jobs: list[TwinJob]) -> list[float]:
        """Exposed seconds of each job; jobs in ascending order of their rows."""
        between = self.between_seconds([job for job in jobs if len(self.servers(job)) > 1])
        seconds = []
        for job in jobs:
            spread_s = next(between) if len(self.servers(job)) > 1 else 0.0
            seconds.append((1.0 - self.network.overlap_frac) * (self.inside_s(job) + spread_s))
        return seconds

    # --- Placement --------------------------------------------------------------------------

    def servers(self, job: TwinJob) -> dict[int, list[int]]:
        """GPUs by server, servers in order of first appearance."""
        found: dict[int, list[int]] = {}
        for gpu in job.gpus:
            found.setdefault(self.gpu_server[gpu], []).append(gpu)
        return found

    def hosts(self, job: TwinJob) -> list[int]:
        """Server of each worker: worker i runs on the i-th GPU."""
        return [self.gpu_server[gpu] for gpu in job.gpus]

    def shape(self, job: TwinJob) -> tuple[int, int, int]:
        traffic, gang = self.network.profile, len(job.gpus)
        width = math.gcd(int(traffic["tensor_width"][job.profile]), gang)
        depth = math.gcd(int(traffic["stages"][job.profile]), gang // width)
        return width, depth, gang // (width * depth)

    # --- Flows ------------------------------------------------------------------------------

    def flows(self, job: TwinJob) -> tuple[list[tuple[int, int, float]], int]:
        """(source server, target server, bytes) in order, and message steps."""
        traffic, hosts = self.network.profile, self.hosts(job)
        grad = float(traffic["grad_bytes"][job.profile])
        if traffic["pattern"][job.profile] == RING:
            ring = _ring(hosts, grad)
            return ring, 2 * (max(1, len(ring)) - 1)
        if traffic["pattern"][job.profile] == PARAMETER_SERVER:
            return self.parameter_server(job, grad), 2
        return self.mix(job, hosts, grad)

    def parameter_server(self, job: TwinJob, grad: float) -> list[tuple[int, int, float]]:
        hosts, shards = self.hosts(job), int(self.network.profile["ps_count"][job.profile])
        beside = [hosts[shard * len(hosts) // shards] for shard in range(shards)]
        names = list(self.servers(job))
        found = []
        for i in names:
            for j in names:
                moves = hosts.count(i) * beside.count(j) + beside.count(i) * hosts.count(j)
                if i != j and moves and grad:
                    found.append((i, j, moves * grad / shards))
        return found

    def mix(
        self, job: TwinJob, hosts: list[int], grad: float
    ) -> tuple[list[tuple[int, int, float]], int]:
        traffic, (width, depth, copies) = self.network.profile, self.shape(job)
        tensor = float(traffic["tensor_bytes"][job.profile])
        boundary = float(traffic["activation_bytes"][job.profile])
        size = copies * width
        stages = [hosts[k * size : (k + 1) * size] for k in range(depth)]
        data = [_ring(stage[r::width], grad / (width * depth)) for stage in stages
                for r in range(width)]  # fmt: skip
        groups = [_ring(stage[c * width : (c + 1) * width], tensor / depth) for stage in stages
                  for c in range(copies)]  # fmt: skip
        steps = sum(2 * (max([1, *map(len, rings)]) - 1) for rings in (data, groups))
        pipes = []
        for here, there in itertools.pairwise(stages):
            crossing = [(a, b) for a, b in zip(here, there, strict=True) if a != b and boundary]
            for a, b in crossing:
                pipes += [(a, b, boundary / width), (b, a, boundary / width)]
            steps += 2 if crossing else 0
        return [flow for ring in data + groups for flow in ring] + pipes, steps

    # --- Inside servers ---------------------------------------------------------------------

    def inside_s(self, job: TwinJob) -> float:
        """Seconds inside the slowest server."""
        hosts, seconds = self.hosts(job), []
        for server, gpus in self.servers(job).items():
            workers = [worker for worker, host in enumerate(hosts) if host == server]
            num_bytes, steps = self.inside(job, workers)
            rate = self.inside_gbps(server, gpus) * (1e9 / 8.0)
            seconds.append(num_bytes / rate + steps * self.network.alpha_local_s)
        return max(seconds)

    def inside_gbps(self, server: int, gpus: list[int]) -> float:
        rates, gpu = self.network.server[server], self.network.gpu
        if not self.network.inside_described:
            return float(rates["intra_gbps"])
        if len(gpus) == 1:
            return float(rates["socket_gbps"])
        hops = []
        for one in gpus:
            for two in gpus:
                if one == two:
                    continue
                if gpu["island"][one] == gpu["island"][two] >= 0:
                    hops.append(rates["nvlink_gbps"])
                elif gpu["switch"][one] == gpu["switch"][two]:
                    hops.append(rates["pcie_gbps"])
                else:
                    hops.append(rates["socket_gbps"])
        return float(min(hops))

    def inside(self, job: TwinJob, workers: list[int]) -> tuple[float, int]:
        """Bytes of the busiest GPU and message steps among these workers of one server."""
        traffic, gang, here = self.network.profile, len(job.gpus), len(workers)
        grad = float(traffic["grad_bytes"][job.profile])
        if gang == 1:
            return 0.0, 0
        if traffic["pattern"][job.profile] == RING:
            return _ring_bytes(here, grad), 2 * (here - 1)
        if traffic["pattern"][job.profile] == PARAMETER_SERVER:
            shards = int(traffic["ps_count"][job.profile])
            beside = [shard * gang // shards for shard in range(shards)]
            hosted = sum(map(workers.__contains__, beside))
            moves = [hosted + beside.count(worker) * (here - 1) for worker in workers]
            return (max(moves) if hosted else 0) * grad / shards, 2 if hosted else 0
        width, depth, copies = self.shape(job)
        groups = [worker // width for worker in workers]
        rings = [(worker // (copies * width), worker % width) for worker in workers]
        tensor, data = max(map(groups.count, groups)), max(map(rings.count, rings))
        num_bytes = _ring_bytes(tensor, float(traffic["tensor_bytes"][job.profile]) / depth)
        num_bytes += _ring_bytes(data, grad / (width * depth))
        steps = 2 * (tensor - 1) + 2 * (data - 1)
        if any(worker + copies * width in workers for worker in workers):
            num_bytes += 2.0 * float(traffic["activation_bytes"][job.profile]) / width
            steps += 2
        return num_bytes, steps

    # --- Between servers --------------------------------------------------------------------

    def between_seconds(self, jobs: list[TwinJob]):
        """Seconds between servers of each job, latency included."""
        loads: list[dict[int, float]] = []
        latency_s = []
        for job in jobs:
            load: dict[int, float] = {}
            flows, steps = self.flows(job)
            for source, target, num_bytes in flows:
                for link in self.path(source, target):
                    load[link] = load.get(link, 0.0) + num_bytes
            loads.append(dict(sorted(load.items())))
            latency_s.append(steps * self.network.alpha_server_s)
        if self.network.sharing == K_WAY:
            shared = self.k_way(loads)
        elif self.network.sharing == DUTY:
            shared = self.duty(jobs, loads, latency_s)
        else:
            shared = self.max_min(loads)
        return (wait + busy for wait, busy in zip(latency_s, shared, strict=True))

    def k_way(self, loads: list[dict[int, float]]) -> list[float]:
        seconds = []
        for load in loads:
            heavy, worst_s = max(load.values(), default=0.0), 0.0
            for link, num_bytes in load.items():
                k = sum(link in other for other in loads)
                alone_s = num_bytes / heavy * heavy / self.capacity[link]
                worst_s = max(worst_s, alone_s * (k + (k - 1) * self.network.eta_frac))
            seconds.append(worst_s)
        return seconds

    def duty(
        self, jobs: list[TwinJob], loads: list[dict[int, float]], latency_s: list[float]
    ) -> list[float]:
        """The others slow a link down as much as they keep it busy when they are alone."""
        exposed = 1.0 - self.network.overlap_frac
        busy: list[dict[int, int]] = []
        times: list[dict[int, float]] = []
        for job, load, wait_s in zip(jobs, loads, latency_s, strict=True):
            heavy = max(load.values(), default=0.0)
            alone_s = {link: num_bytes / heavy * heavy / self.capacity[link]
                       for link, num_bytes in load.items()}  # fmt: skip
            elsewhere_s = job.compute_s + exposed * self.inside_s(job)
            step_s = elsewhere_s + exposed * (wait_s + max(alone_s.values(), default=0.0))
            busy.append({link: int(min(1.0, time_s / step_s) * 2**40 + 0.5)
                         for link, time_s in alone_s.items()})  # fmt: skip
            times.append(alone_s)
        seconds = []
        for me, alone_s in enumerate(times):
            worst_s = 0.0
            for link, time_s in alone_s.items():
                others = sum(busy[job].get(link, 0) for job in range(len(jobs)) if job != me)
                worst_s = max(worst_s, time_s * (1.0 + others / 2**40))
            seconds.append(worst_s)
        return seconds

    def max_min(self, loads: list[dict[int, float]]) -> list[float]:
        heavy = [max(load.values(), default=0.0) for load in loads]
        weights = [
            {link: num_bytes / most for link, num_bytes in load.items()}
            for load, most in zip(loads, heavy, strict=True)
        ]
        rates = fill(weights, self.capacity)
        pairs = zip(heavy, rates, strict=True)
        return [0.0 if math.isinf(rate) else most / rate for most, rate in pairs]


def fill(weights: list[dict[int, float]], capacity: list[float]) -> list[float]:
    """Progressive filling: rates of jobs, each with a weight a link."""
    rates = [math.inf for _ in weights]
    going = [job for job, weight in enumerate(weights) if weight]
    links = sorted({link for weight in weights for link in weight})
    left = {link: capacity[link] for link in links}
    floor = dict.fromkeys(links, 0.0)
    total = dict.fromkeys(links, 0.0)
    for job in going:
        for link, weight in weights[job].items():
            total[link] += weight
    while going:
        level = {}
        for link in links:
            if any(link in weights[job] for job in going):
                level[link] = (
                    math.inf if total[link] < 1e-9 else max(left[link] / total[link], floor[link])
                )
        least = min(level.values())
        full = {link for link, rate in level.items() if rate == least}
        for job in [job for job in going if full & set(weights[job])]:
            rates[job] = least
            going.remove(job)
            for link, weight in weights[job].items():
                left[link] -= weight * least
                total[link] -= weight
                floor[link] = least
    return rates


def _ring(hosts: list[int], buffer_bytes: float) -> list[tuple[int, int, float]]:
    """Flows of a ring over the distinct servers among `hosts`, in order."""
    servers = list(dict.fromkeys(hosts))
    number = len(servers)
    if number == 1 or buffer_bytes <= 0.0:
        return []
    hop = 2.0 * (number - 1.0) / number * buffer_bytes
    return [(servers[k], servers[(k + 1) % number], hop) for k in range(number)]


def _ring_bytes(members: int, buffer_bytes: float) -> float:
    return 2.0 * (members - 1.0) / members * buffer_bytes if members > 1 else 0.0
