"""What a job moves between GPUs of one server in an iteration: bytes of its busiest GPU there.

Worker i runs on the i-th GPU of the placement. Where the workers of each server stand side by side,
which is the rule, `local_load` needs their first and their number alone; `strewn_load` takes any.
"""

from typing import Any

from sim.jit import kernel
from sim.physics.link_rows import RowArray
from sim.physics.traffic import PARAMETER_SERVER, RING, mix_shape, shard_host


@kernel
def _ring_bytes(members: int, buffer_bytes: float) -> float:
    return 2.0 * (members - 1.0) / members * buffer_bytes if members > 1 else 0.0


@kernel
def _shards(row: Any, here: int, hosted: int) -> tuple[float, int]:
    """Load of `here` workers beside `hosted` shards."""
    return here * hosted * row.grad_bytes / row.ps_count, 2 if hosted > 0 else 0


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
    num_bytes = _ring_bytes(tensor, row.tensor_bytes / depth)
    num_bytes += _ring_bytes(data, row.grad_bytes / (width * depth))
    steps = 2 * (tensor - 1) + 2 * (data - 1)
    if paired:
        num_bytes += 2.0 * row.activation_bytes / width
        steps += 2
    return num_bytes, steps


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
def local_load(row: Any, workers: int, first: int, here: int) -> tuple[float, int]:
    """Bytes of the busiest GPU and message steps inside one server whose workers are neighbours.

    Args:
        row: TRAFFIC of the job's profile.
        workers: of the whole job.
        first: number of the server's first worker.
        here: workers on the server: first, first + 1, ...

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
        return _shards(row, here, hosted)
    width, depth, copies = mix_shape(row.tensor_width, row.stages, workers)
    tensor, data = _most_alike(first, first + here, copies, width)
    paired = depth > 1 and here > copies * width  # two stages stand on this server
    return _mix(row, (width, depth, copies), tensor, data, paired)


@kernel
def _strewn_alike(
    gang: RowArray, first: int, here: int, copies: int, width: int
) -> tuple[int, int]:
    """`_most_alike` of the `here` workers of one server, which begin at row `first` of `worker`."""
    tensor, data, group, together, size = 1, 1, -1, 0, copies * width
    for k in range(first, first + here):
        worker = gang[k].worker
        if worker // width != group:  # workers ascend: groups stand together
            group, together = worker // width, 0
        together += 1
        tensor = max(tensor, together)
        ring = worker // size * width + worker % width
        gang[ring].tally += 1
        data = max(data, gang[ring].tally)
    for k in range(first, first + here):
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
def strewn_load(
    row: Any, gang: RowArray, workers: int, position: int, first: int
) -> tuple[float, int]:
    """`local_load` of a server whose workers have any numbers.

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
        return _ring_bytes(here, row.grad_bytes), 2 * (here - 1)
    if row.pattern == PARAMETER_SERVER:
        shards, hosted = row.ps_count, 0
        for shard in range(shards):
            if gang[shard_host(shard, shards, workers)].at == position:
                hosted += 1
        return _shards(row, here, hosted)
    width, depth, copies = mix_shape(row.tensor_width, row.stages, workers)
    tensor, data = _strewn_alike(gang, first, here, copies, width)
    paired = _any_pair(gang, position, first, copies * width, workers)
    return _mix(row, (width, depth, copies), tensor, data, paired)
