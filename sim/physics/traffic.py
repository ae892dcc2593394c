"""What the jobs of each profile send in one iteration: a pattern and its sizes, or a graph.

A communication graph holds the bytes that worker i sends to worker j in one iteration, for
whoever maps workers to servers (heavy-edge mappings cut this graph) and for jobs that follow no
pattern. The kernel uses patterns, whose rings it folds by server (`sim.physics.flows`); worker i
is the same in both, so that a mapping of this graph is a placement in order of workers.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.errors import PhysicsError
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


Edges = dict[tuple[int, int], float]


@dataclass(frozen=True)
class CommGraph:
    """E directed edges among the workers of one gang; a pair stands once, in ascending order."""

    workers: int  # gang size
    source: IntArray  # (E,)
    target: IntArray  # (E,)
    num_bytes: FloatArray  # (E,) above 0

    def __post_init__(self) -> None:
        """Check ends and sizes."""
        for ends in (self.source, self.target):
            if len(ends) != len(self.num_bytes):
                raise PhysicsError("communication graph: its columns differ in length")
            if np.any((ends < 0) | (ends >= self.workers)):
                raise PhysicsError(
                    f"communication graph: an edge leaves the workers 0 to {self.workers - 1}"
                )
        if not np.all(np.isfinite(self.num_bytes) & (self.num_bytes > 0)):
            raise PhysicsError("communication graph: bytes of an edge are not a number above 0")

    def between_servers(self, host: IntArray, servers: int) -> FloatArray:
        """(servers, servers) bytes from server to server; `host` (workers,) is where each runs."""
        matrix = np.zeros((servers, servers))
        np.add.at(matrix, (host[self.source], host[self.target]), self.num_bytes)
        np.fill_diagonal(matrix, 0.0)
        return matrix


def comm_graph(traffic: Traffic, profile: int, gang: int) -> CommGraph:
    """Graph of a gang of `profile`: rings are flat, in order of workers; shards are their hosts."""
    pattern, grad_bytes = traffic.pattern[profile], float(traffic.grad_bytes[profile])
    edges: Edges = {}
    if pattern == RING:
        _ring(edges, list(range(gang)), grad_bytes)
    elif pattern == PARAMETER_SERVER:
        shards = int(traffic.ps_count[profile])
        for shard in range(shards):
            host = int(shard_host(shard, shards, gang))
            for worker in range(gang):
                _add(edges, worker, host, grad_bytes / shards)
                _add(edges, host, worker, grad_bytes / shards)
    else:
        _mix(edges, traffic, profile, gang)
    pairs = sorted(edges)
    return CommGraph(
        workers=gang,
        source=np.array([pair[0] for pair in pairs], dtype=np.int64),
        target=np.array([pair[1] for pair in pairs], dtype=np.int64),
        num_bytes=np.array([edges[pair] for pair in pairs], dtype=np.float64),
    )


def _add(edges: Edges, source: int, target: int, num_bytes: float) -> None:
    if source != target and num_bytes > 0.0:
        edges[source, target] = edges.get((source, target), 0.0) + num_bytes


def _ring(edges: Edges, members: list[int], buffer_bytes: float) -> None:
    """All-reduce of `buffer_bytes`: 2 (n - 1) / n of it over every hop."""
    number = len(members)
    for k, member in enumerate(members):
        hop_bytes = 2.0 * (number - 1.0) / number * buffer_bytes
        _add(edges, member, members[(k + 1) % number], hop_bytes)


def _mix(edges: Edges, traffic: Traffic, profile: int, gang: int) -> None:
    """Gradient rings, tensor rings, stage boundaries; workers as in `sim.physics.flows`."""
    shape = mix_shape(traffic.tensor_width[profile], traffic.stages[profile], gang)
    width, depth, copies = (int(n) for n in shape)
    stage_size = copies * width
    grad_bytes = float(traffic.grad_bytes[profile]) / (width * depth)
    tensor_bytes = float(traffic.tensor_bytes[profile]) / depth
    boundary_bytes = float(traffic.activation_bytes[profile]) / width
    for stage in range(depth):
        first = stage * stage_size
        for rank in range(width):
            _ring(edges, list(range(first + rank, first + stage_size, width)), grad_bytes)
        for copy in range(copies):
            start = first + copy * width
            _ring(edges, list(range(start, start + width)), tensor_bytes)
        if stage + 1 < depth:
            for worker in range(first, first + stage_size):
                _add(edges, worker, worker + stage_size, boundary_bytes)
                _add(edges, worker + stage_size, worker, boundary_bytes)
