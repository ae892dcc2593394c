"""What the jobs of each profile send in one iteration: a pattern and its sizes, no edge lists."""

from typing import NamedTuple

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.jit import kernel
from sim.physics.link_rows import TRAFFIC, RowArray

RING, PARAMETER_SERVER, MIX = 0, 1, 2  # values of Traffic.pattern


class Traffic(NamedTuple):
    """P profiles; sizes are those of one iteration of one job, all micro-batches together.

    RING: hierarchical ring all-reduce of the gradient, a ring in each server and one of servers.
    PARAMETER_SERVER: every worker sends its gradient to the shards of the model, and fetches them.
    MIX: `tensor_width` x `stages` workers hold one copy of the model, in as many copies as the
    gang has room for; pure pipeline, tensor and data parallel jobs are mixes with ones.
    """

    pattern: IntArray  # (P,)
    grad_bytes: FloatArray  # (P,) gradient of the whole model
    ps_count: IntArray  # (P,) shards, >= 1
    stages: IntArray  # (P,) pipeline stages, >= 1
    tensor_width: IntArray  # (P,) workers of one tensor-parallel group, >= 1
    activation_bytes: FloatArray  # (P,) over one stage boundary of one copy, one direction
    tensor_bytes: FloatArray  # (P,) all-reduced by the tensor groups of one copy, all stages


def traffic_rows(traffic: Traffic) -> RowArray:
    """(P,) TRAFFIC, for compiled code."""
    rows = np.zeros(len(traffic.pattern), dtype=TRAFFIC)
    for name, column in traffic._asdict().items():
        rows[name] = column
    return rows


def flows_per_worker(traffic: Traffic) -> int:
    """Most flows between servers that one worker of any profile accounts for."""
    most = np.where(traffic.pattern == MIX, 4, 1)
    most = np.where(traffic.pattern == PARAMETER_SERVER, 2 * traffic.ps_count, most)
    return int(most.max(initial=1))


@kernel
def _common_divisor(a: int, b: int) -> int:
    while b > 0:
        a, b = b, a % b
    return a


@kernel
def mix_shape(tensor_width: int, stages: int, gang: int) -> tuple[int, int, int]:
    """Tensor width t, stages p and copies d of a gang, with t p d = gang.

    A width or depth that does not divide the gang shrinks to its largest divisor that does, so
    that every gang size has a shape; the freed workers hold further copies.
    """
    width = _common_divisor(tensor_width, gang)
    depth = _common_divisor(stages, gang // width)
    return width, depth, gang // (width * depth)


@kernel
def shard_host(shard: int, shards: int, gang: int) -> int:
    """Worker beside which a parameter-server shard runs: shards are spread evenly over workers."""
    return shard * gang // shards
