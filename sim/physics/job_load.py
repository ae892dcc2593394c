"""Bytes that one job puts on every directed link, and what it costs inside its servers."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from sim.arrays import IntArray, RowArray
from sim.handle import Handle
from sim.jit import kernel
from sim.physics.laws import ring_bytes
from sim.physics.link_network import BYTES_PER_GBIT, LinkNetwork, server_flows
from sim.physics.max_min import sort_up
from sim.physics.traffic import (
    FLOW,
    GANG,
    LINK_BYTES,
    PARAMETER_SERVER,
    RING,
    mix_shape,
    shard_host,
)
from sim.topology.links import route
from sim.topology.topology import slowest_hop_gbps


@kernel
def _mix(
    row: Any, shape: tuple[int, int, int], tensor: int, data: int, paired: bool
) -> tuple[float, int]:
    """Load of a mix.

    Args:
        row: TRAFFIC of the job's profile.
        shape: tensor width, stages, copies.
        tensor: most members of one tensor group on the server.
        data: most members of one gradient ring there.
        paired: both ends of a stage boundary stand there.
    """
    width, depth, _ = shape
    num_bytes = ring_bytes(tensor, row.tensor_bytes / depth)
    num_bytes += ring_bytes(data, row.grad_bytes / (width * depth))
    steps = 2 * (tensor - 1) + 2 * (data - 1)
    if paired:
        num_bytes += 2.0 * row.activation_bytes / width
        steps += 2
    return num_bytes, steps


@kernel
def _most_alike(gang: RowArray, first: int, here: int, copies: int, width: int) -> tuple[int, int]:
    """Most members of one tensor group, and of one gradient ring, among a server's workers.

    The `here` workers begin at row `first` of `worker`.
    """
    tensor, data, group, together, size = 1, 1, -1, 0, copies * width
    for k in range(first, first + here):  # a ring's workers stand apart, so each ring has a tally
        worker = gang[k].worker
        if worker // width != group:  # workers ascend: groups stand together
            group, together = worker // width, 0
        together += 1
        tensor = max(tensor, together)
        ring = worker // size * width + worker % width
        gang[ring].tally += 1
        data = max(data, gang[ring].tally)
    for k in range(first, first + here):  # only the tallies used: the next server finds zeros
        worker = gang[k].worker
        gang[worker // size * width + worker % width].tally = 0
    return tensor, data


@kernel
def _any_pair(gang: RowArray, position: int, first: int, size: int, workers: int) -> bool:
    """Whether a worker of one server and its partner of the next stage both stand there."""
    for k in range(first, first + gang[position].gpus_on):
        partner = gang[k].worker + size
        if partner < workers and gang[partner].at == position:
            return True
    return False


@kernel
def _shards_on(gang: RowArray, position: int, shards: int, workers: int) -> tuple[int, int]:
    """Parameter-server shards on one server of a placement; most beside one of its workers."""
    here, most, beside, worker = 0, 0, 0, -1
    for shard in range(shards):  # all of the job: only a shard's host says on which server it is
        host = shard_host(shard, shards, workers)
        beside = beside + 1 if host == worker else 1  # hosts ascend: a worker's stand together
        worker = host
        if gang[host].at == position:
            here += 1
            most = max(most, beside)
    return here, most


@kernel
def local_load(
    row: Any, gang: RowArray, workers: int, position: int, first: int
) -> tuple[float, int]:
    """Bytes of the busiest GPU, and message steps, inside one server of a placement.

    Rings count the ring of the members on this server. A worker and the shards of a parameter
    server beside it share the GPU's link, as a server's share its NIC: it carries what the worker
    pushes into all shards here, its own included, and what the other workers here fetch from its
    own. So no spread over links of one rate is faster than one server, and a worker a server is as
    fast. A mix adds its parts (an upper bound: one GPU need not be the busiest of all three).

    Args:
        row: TRAFFIC of the job's profile.
        gang: as `measure_placement` left it; `tally` is scratch.
        workers: of the whole job.
        position: of the server in the placement.
        first: row of `gang.worker` with the server's first worker.
    """
    here = gang[position].gpus_on
    if workers == 1:
        return 0.0, 0
    if row.pattern == RING:
        return ring_bytes(here, row.grad_bytes), 2 * (here - 1)
    if row.pattern == PARAMETER_SERVER:
        hosted, own = _shards_on(gang, position, row.ps_count, workers)
        moves = hosted + own * (here - 1)
        return moves * row.grad_bytes / row.ps_count, 2 if hosted > 0 else 0
    width, depth, copies = mix_shape(row.tensor_width, row.stages, workers)
    tensor, data = _most_alike(gang, first, here, copies, width)
    paired = _any_pair(gang, position, first, copies * width, workers)
    return _mix(row, (width, depth, copies), tensor, data, paired)


@dataclass(frozen=True, eq=False)
class LoadScratch(Handle):
    """Room to measure one placement; `link["num_bytes"]` is 0 between calls."""

    gang: RowArray  # (largest gang,) GANG
    flow: RowArray  # (most flows of one,) FLOW
    path: IntArray  # (longest route,)
    link: RowArray  # (D,) LINK_BYTES


def make_load_scratch(network: LinkNetwork, largest_gang: int) -> LoadScratch:
    """Room for gangs up to `largest_gang`."""
    workers = max(1, largest_gang)
    return LoadScratch(
        gang=np.zeros(workers, dtype=GANG),
        flow=np.zeros(workers * network.flows_per_worker, dtype=FLOW),
        path=np.zeros(network.longest_route, dtype=np.int64),
        link=np.zeros(len(network.capacity), dtype=LINK_BYTES),
    )


@kernel
def measure_placement(gpus: IntArray, gpu_server: IntArray, gang: RowArray) -> int:
    """Fill a gang's rows from its GPUs, on the i-th of which worker i runs.

    `server`, `gpus_on`, `gpu`, `worker`, `at` and `host`: see `GANG`.

    Returns:
        Number of servers.
    """
    count = 0
    for k in range(len(gpus)):  # in order of workers: rings pass the servers as first named
        server = gpu_server[gpus[k]]
        position = count - 1
        while position >= 0 and gang[position].server != server:  # back: GPUs mostly come by server
            position -= 1
        if position < 0:
            position = count
            gang[position].server = server
            gang[position].gpus_on = 0
            count += 1
        gang[position].gpus_on += 1
        gang[k].at = position
        gang[k].host = server
    first = 0
    for position in range(count):  # rows of a server follow those of the servers named before it
        gang[position].next = first
        first += gang[position].gpus_on
    for k in range(len(gpus)):  # ascending, so that the workers of each server ascend, too
        position = gang[k].at
        gang[gang[position].next].gpu = gpus[k]
        gang[gang[position].next].worker = k
        gang[position].next += 1
    return count


@kernel
def _inside_gbps(network: LinkNetwork, gang: RowArray, position: int, first: int) -> float:
    """Rate between the GPUs of one server of a placement; `first`: its first row of `gpu`."""
    server, here = gang[position].server, gang[position].gpus_on
    rates = network.server[server]
    if network.inside_described == 0:
        return float(rates.intra_gbps)
    if here == 1:  # a worker and the shard beside it meet in host memory
        return float(rates.socket_gbps)
    return slowest_hop_gbps(
        network.gpu["switch"], network.gpu["island"], network.server["nvlink_gbps"],
        network.server["pcie_gbps"], network.server["socket_gbps"], server,
        gang["gpu"][first : first + here],
    )  # fmt: skip


@kernel
def local_seconds(network: LinkNetwork, profile: int, servers: int, gang: RowArray) -> float:
    """Seconds inside the slowest server of the placement that `measure_placement` left behind."""
    workers = 0
    for position in range(servers):  # nothing else says how many workers there are
        workers += gang[position].gpus_on
    row = network.profile[profile]
    worst_s, first = 0.0, 0
    for position in range(servers):  # in order: a server's rows begin where the last one's end
        num_bytes, steps = local_load(row, gang, workers, position, first)
        if num_bytes > 0.0 or steps > 0:
            rate = _inside_gbps(network, gang, position, first) * BYTES_PER_GBIT
            worst_s = max(worst_s, num_bytes / rate + steps * network.alpha_local_s)
        first += gang[position].gpus_on
    return worst_s


@kernel
def exposed_seconds(network: LinkNetwork, local_s: float, spread_s: float) -> float:
    """Communication that compute does not hide: the comm_s of a step."""
    return (1.0 - network.overlap_frac) * (local_s + spread_s)


@kernel
def _load_links(network: LinkNetwork, scratch: LoadScratch, flows: int) -> int:
    """Add the flows to the links of their routes; the number of links with bytes, ascending."""
    count = 0
    for flow in range(flows):  # in the order written, so bytes on a link add up alike
        row = scratch.flow[flow]
        hops = route(
            network.first_up, network.up_link, network.link_ends, network.route_kind,
            network.rule, row.source, row.target, scratch.path,
        )  # fmt: skip
        for hop in range(hops):  # every link of the route carries the whole flow
            on = scratch.path[hop]
            if scratch.link[on].num_bytes == 0.0:
                scratch.link[count].used = on
                count += 1
            scratch.link[on].num_bytes += row.num_bytes
    sort_up(scratch.link["used"], count)
    return count


@kernel
def link_weights(
    network: LinkNetwork, profile: int, servers: int, scratch: LoadScratch, entry: RowArray,
    first: int,
) -> tuple[int, float, int]:  # fmt: skip
    """Write the directed links that a job uses, ascending, and its weight on each.

    Args:
        network: graph and traffic.
        profile: of the job.
        servers: number of its servers; placement: see `server_flows`.
        scratch: for gangs of this size, with the placement in `gang`.
        entry: LOAD_ENTRY; `link` and `weight` are written, the latter bytes on the link / bytes on
            the job's heaviest link, in (0, 1].
        first: entry to begin at; needs room for every link that the job can touch.

    Returns:
        Number of links (0: nothing leaves a server), bytes on the heaviest one, message steps.
    """
    flows, steps = server_flows(network.profile[profile], scratch.gang, servers, scratch.flow)
    count = _load_links(network, scratch, flows)
    heaviest = 0.0
    for k in range(count):  # weights are relative to it, so it is found first
        heaviest = max(heaviest, scratch.link[scratch.link[k].used].num_bytes)
    for k in range(count):  # ascending, as entries of a job stand
        on = scratch.link[k].used
        entry[first + k].link = on
        entry[first + k].weight = scratch.link[on].num_bytes / heaviest
        scratch.link[on].num_bytes = 0.0
    return count, heaviest, steps
