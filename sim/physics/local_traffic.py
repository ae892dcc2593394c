"""What a job moves between GPUs of one server in an iteration: bytes of its busiest GPU there."""

from typing import Any

from sim.jit import kernel
from sim.physics.traffic import PARAMETER_SERVER, RING, mix_shape, shard_host


@kernel
def _ring_bytes(members: int, buffer_bytes: float) -> float:
    return 2.0 * (members - 1.0) / members * buffer_bytes if members > 1 else 0.0


@kernel
def _most_alike(first: int, last: int, copies: int, width: int) -> tuple[int, int]:
    """Most members of one tensor group, and of one gradient ring, among workers [first, last)."""
    tensor, data, size = 1, 1, copies * width
    for group in range(first // width, (last - 1) // width + 1):
        tensor = max(tensor, min(last, (group + 1) * width) - max(first, group * width))
    for stage in range(first // size, (last - 1) // size + 1):
        together = min(last, (stage + 1) * size) - max(first, stage * size)
        data = max(data, (together + width - 1) // width)  # neighbours have ranks by turns
    return tensor, data


@kernel
def _mix(row: Any, workers: int, first: int, here: int) -> tuple[float, int]:
    width, depth, copies = mix_shape(row.tensor_width, row.stages, workers)
    tensor, data = _most_alike(first, first + here, copies, width)
    num_bytes = _ring_bytes(tensor, row.tensor_bytes / depth)
    num_bytes += _ring_bytes(data, row.grad_bytes / (width * depth))
    steps = 2 * (tensor - 1) + 2 * (data - 1)
    if depth > 1 and here > copies * width:  # two stages stand on this server
        num_bytes += 2.0 * row.activation_bytes / width
        steps += 2
    return num_bytes, steps


@kernel
def local_load(row: Any, workers: int, first: int, here: int) -> tuple[float, int]:
    """Bytes of the busiest GPU and message steps inside one server of a placement.

    Args:
        row: TRAFFIC of the job's profile.
        workers: of the whole job.
        first: number of the server's first worker; workers are numbered server by server.
        here: workers on the server.

    Rings count the ring of the members on this server; a parameter server counts what its local
    workers push into the shards beside them; a mix adds its parts (an upper bound: one GPU need
    not be the busiest of all three).
    """
    if workers == 1:
        return 0.0, 0
    if row.pattern == RING:
        return _ring_bytes(here, row.grad_bytes), 2 * (here - 1)
    if row.pattern == PARAMETER_SERVER:
        shards, hosted = row.ps_count, 0
        for shard in range(shards):
            if first <= shard_host(shard, shards, workers) < first + here:
                hosted += 1
        return here * hosted * row.grad_bytes / shards, 2 if hosted > 0 else 0
    return _mix(row, workers, first, here)
