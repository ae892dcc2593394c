"""From a job's pattern and placement to flows between servers.

Worker i runs on the i-th GPU of the placement; of a mix, worker
((stage * copies) + copy) * width + rank: tensor groups are neighbours, then copies, then stages
(the usual order of Megatron-LM). Rings pass each server once, in the order in which their members
first name it, since the members on one server first reduce among themselves (the hierarchical
ring).
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
    flow: RowArray, count: int, stops: IntArray, servers: int, buffer_bytes: float
) -> tuple[int, int]:
    """Ring over the first `servers` of `stops`, which are distinct.

    Returns the number of flows so far and of servers in the ring (1: nothing is sent).
    """
    if servers == 1 or buffer_bytes <= 0.0:
        return count, 1
    hop_bytes = 2.0 * (servers - 1.0) / servers * buffer_bytes
    for k in range(servers - 1):
        count = _add(flow, count, stops[k], stops[k + 1], hop_bytes)
    return _add(flow, count, stops[servers - 1], stops[0], hop_bytes), servers


@kernel
def _stops(gang: RowArray, ring: int, members: tuple[int, int, int]) -> int:
    """List the servers of workers first, first + step, ... (members: first, step, number).

    Each once in `stop`, as first met. `ring` is above the number of every ring before it.

    Returns:
        Number of servers.
    """
    first, step, number = members
    servers = 0
    for k in range(number):
        at = gang[first + k * step].at
        if gang[at].ring != ring:
            gang[at].ring = ring
            gang[servers].stop = gang[at].server
            servers += 1
    return servers


@kernel
def _spread_shards(gang: RowArray, servers: int, workers: int, shards: int) -> int:
    """Count the shards on each server; list the servers that have some, and return how many."""
    for position in range(servers):
        gang[position].hosted = 0
    for shard in range(shards):
        gang[gang[shard_host(shard, shards, workers)].at].hosted += 1
    hosts = 0
    for position in range(servers):
        if gang[position].hosted > 0:
            gang[hosts].hosts = position
            hosts += 1
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
def _mix(flow: RowArray, gang: RowArray, servers: int, workers: int, row: Any) -> tuple[int, int]:
    """Gradient rings of each stage and rank, tensor rings of each stage and copy, boundaries."""
    width, depth, copies = mix_shape(row.tensor_width, row.stages, workers)
    for position in range(servers):
        gang[position].ring = 0
    stops = gang["stop"]
    count, widest_data, widest_tensor, ring = 0, 1, 1, 0
    share_bytes = row.grad_bytes / (width * depth)
    for stage in range(depth):
        for rank in range(width):
            ring += 1
            passed = _stops(gang, ring, (stage * copies * width + rank, width, copies))
            count, passed = _ring(flow, count, stops, passed, share_bytes)
            widest_data = max(widest_data, passed)
    share_bytes = row.tensor_bytes / depth
    for group in range(depth * copies):
        ring += 1
        passed = _stops(gang, ring, (group * width, 1, width))
        count, passed = _ring(flow, count, stops, passed, share_bytes)
        widest_tensor = max(widest_tensor, passed)
    shape = (width, depth, copies)
    count, steps = _pipeline(flow, count, gang["host"], shape, row.activation_bytes)
    return count, steps + 2 * (widest_data - 1) + 2 * (widest_tensor - 1)


@kernel
def _find_workers(gang: RowArray, servers: int) -> int:
    """Fill `at` and `host`, where `measure_placement` has not; the number of workers."""
    workers = 0
    for position in range(servers):
        first = workers
        workers += gang[position].gpus_on
        if gang[0].strewn == 0:
            for worker in range(first, workers):
                gang[worker].at = position
                gang[worker].host = gang[position].server
    return workers


@kernel
def server_flows(row: Any, gang: RowArray, servers: int, flow: RowArray) -> tuple[int, int]:
    """Write what a job sends between servers in one iteration.

    Args:
        row: TRAFFIC of its profile.
        gang: GANG, of at least as many rows as there are workers; `server` and `gpus_on` of its
            first `servers` rows are the placement: distinct servers in its order, and the workers
            on each, >= 1. With `strewn` of row 0 the `at` and `host` of each worker are given too;
            without it workers stand server by server. The rest is scratch.
        servers: number of servers.
        flow: FLOW, written from its beginning, in a fixed order.

    Returns:
        Number of flows; number of message steps that follow one another (for the latency).
    """
    if servers == 1:
        return 0, 0
    if row.pattern == RING:
        count, around = _ring(flow, 0, gang["server"], servers, row.grad_bytes)
        return count, 2 * (around - 1)
    workers = _find_workers(gang, servers)
    if row.pattern == PARAMETER_SERVER:
        return _parameter_server(flow, gang, servers, workers, row)
    return _mix(flow, gang, servers, workers, row)
