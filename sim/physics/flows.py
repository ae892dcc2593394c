"""From a job's pattern and placement to flows between servers.

Workers are numbered server by server, in the order in which the placement names the servers; of a
mix, worker ((stage * copies) + copy) * width + rank: tensor groups are neighbours, then copies,
then stages (the usual order of Megatron-LM). Rings pass each server once, since the members of a
ring on one server first reduce among themselves (the hierarchical ring).
"""

from typing import Any

from sim.arrays import IntArray
from sim.jit import kernel
from sim.physics.link_rows import RowArray
from sim.physics.traffic import PARAMETER_SERVER, RING, mix_shape, shard_host


@kernel
def _add(flow: RowArray, count: int, source: int, target: int, num_bytes: float) -> int:
    flow[count].source = source
    flow[count].target = target
    flow[count].num_bytes = num_bytes
    return count + 1


@kernel
def _ring(
    flow: RowArray, count: int, host: IntArray, members: tuple[int, int, int], buffer_bytes: float
) -> tuple[int, int]:
    """Ring over the servers of workers first, first + step, ... (members: first, step, number).

    Returns the number of flows so far and of servers in the ring (1: nothing is sent). Workers of
    one server are numbered side by side, so that equal entries of `host` stand together.
    """
    first, step, number = members
    servers = 1
    for k in range(1, number):
        if host[first + k * step] != host[first + (k - 1) * step]:
            servers += 1
    if servers == 1 or buffer_bytes <= 0.0:
        return count, 1
    hop_bytes = 2.0 * (servers - 1.0) / servers * buffer_bytes
    here = host[first]
    for k in range(1, number):
        there = host[first + k * step]
        if there != here:
            count = _add(flow, count, here, there, hop_bytes)
            here = there
    return _add(flow, count, here, host[first], hop_bytes), servers


@kernel
def _spread_shards(gang: RowArray, servers: int, workers: int, shards: int) -> int:
    """Count the shards on each server; list the servers that have some, and return how many."""
    for position in range(servers):
        gang[position].hosted = 0
    position, until, hosts = 0, gang[0].gpus_on, 0
    for shard in range(shards):
        while shard_host(shard, shards, workers) >= until:
            position += 1
            until += gang[position].gpus_on
        if gang[position].hosted == 0:
            gang[hosts].hosts = position
            hosts += 1
        gang[position].hosted += 1
    return hosts


@kernel
def _parameter_server(
    flow: RowArray, gang: RowArray, servers: int, workers: int, row: Any
) -> tuple[int, int]:
    """Pushes and fetches of w_i q_j + q_i w_j shards between servers with w workers, q shards."""
    shards, grad_bytes = row.ps_count, row.grad_bytes
    hosts = _spread_shards(gang, servers, workers, shards)
    count = 0
    if grad_bytes <= 0.0:
        return count, 2
    for i in range(servers):
        mine = gang[i]
        for k in range(servers if mine.hosted > 0 else hosts):
            j = k if mine.hosted > 0 else gang[k].hosts
            moves = mine.gpus_on * gang[j].hosted + mine.hosted * gang[j].gpus_on
            if i != j and moves > 0:
                num_bytes = moves * grad_bytes / shards
                count = _add(flow, count, mine.server, gang[j].server, num_bytes)
    return count, 2


@kernel
def _pipeline(
    flow: RowArray, count: int, host: IntArray, shape: tuple[int, int, int], boundary_bytes: float
) -> tuple[int, int]:
    """Activations to the next stage and gradients back, worker by worker; steps waited for."""
    width, depth, copies = shape
    steps = 0
    for stage in range(depth - 1):
        crosses = False
        for k in range(copies * width):
            here = host[stage * copies * width + k]
            there = host[(stage + 1) * copies * width + k]
            if here != there and boundary_bytes > 0.0:
                crosses = True
                count = _add(flow, count, here, there, boundary_bytes / width)
                count = _add(flow, count, there, here, boundary_bytes / width)
        if crosses:
            steps += 2
    return count, steps


@kernel
def _mix(flow: RowArray, host: IntArray, workers: int, row: Any) -> tuple[int, int]:
    """Gradient rings of each stage and rank, tensor rings of each stage and copy, boundaries."""
    width, depth, copies = mix_shape(row.tensor_width, row.stages, workers)
    shape = (width, depth, copies)
    count, widest_data, widest_tensor = 0, 1, 1
    share_bytes = row.grad_bytes / (width * depth)
    for stage in range(depth):
        for rank in range(width):
            first = stage * copies * width + rank
            count, servers = _ring(flow, count, host, (first, width, copies), share_bytes)
            widest_data = max(widest_data, servers)
    share_bytes = row.tensor_bytes / depth
    for group in range(depth * copies):
        count, servers = _ring(flow, count, host, (group * width, 1, width), share_bytes)
        widest_tensor = max(widest_tensor, servers)
    count, steps = _pipeline(flow, count, host, shape, row.activation_bytes)
    return count, steps + 2 * (widest_data - 1) + 2 * (widest_tensor - 1)


@kernel
def _name_hosts(gang: RowArray, servers: int) -> int:
    """Fill `host`; the number of workers."""
    worker = 0
    for position in range(servers):
        for _ in range(gang[position].gpus_on):
            gang[worker].host = gang[position].server
            worker += 1
    return worker


@kernel
def server_flows(row: Any, gang: RowArray, servers: int, flow: RowArray) -> tuple[int, int]:
    """Write what a job sends between servers in one iteration.

    Args:
        row: TRAFFIC of its profile.
        gang: GANG; `server` and `gpus_on` of its first `servers` rows are the placement: distinct
            servers in its order, and the workers on each, >= 1. The rest is scratch, of at least
            as many rows as there are workers.
        servers: number of servers.
        flow: FLOW, written from its beginning, in a fixed order.

    Returns:
        Number of flows; number of message steps that follow one another (for the latency).
    """
    if servers == 1:
        return 0, 0
    if row.pattern == RING:
        count, around = _ring(flow, 0, gang["server"], (0, 1, servers), row.grad_bytes)
        return count, 2 * (around - 1)
    workers = _name_hosts(gang, servers)
    if row.pattern == PARAMETER_SERVER:
        return _parameter_server(flow, gang, servers, workers, row)
    return _mix(flow, gang["host"], workers, row)
