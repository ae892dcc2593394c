"""What the jobs of each profile send in one iteration: a pattern and its sizes, or a graph.

A communication graph holds the bytes that worker i sends to worker j in one iteration, for
whoever maps workers to servers (heavy-edge mappings cut this graph) and for jobs that follow no
pattern. The kernel uses patterns, whose rings it folds by server (`server_flows`); worker i is the
same in both, so that a mapping of this graph is a placement in order of workers.

Rows of the link network stand here too: the kernel's state holds them, and every array in it costs
something at each call; fields that are read together also stand together. `rows["field"]` is the
column of a field.
"""

from dataclasses import dataclass
from typing import NamedTuple, get_type_hints

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.arrays import RowArray as RowArray
from sim.errors import PhysicsError
from sim.jit import kernel
from sim.physics.laws import ring_share

INT, FLOAT = np.int64, np.float64

# --- Fixed -----------------------------------------------------------------------------------

# The inside of each server; all but intra_gbps is read where it is described.
SERVER_INSIDE = np.dtype(
    [("intra_gbps", FLOAT), ("nvlink_gbps", FLOAT), ("pcie_gbps", FLOAT), ("socket_gbps", FLOAT)],
    align=True,
)

GPU_INSIDE = np.dtype([("switch", INT), ("island", INT)], align=True)

# --- Who puts what on which link ---------------------------------------------------------------

LOAD_JOB = np.dtype(
    [
        ("local_s", FLOAT),  # seconds inside its slowest server an iteration
        ("spread_s", FLOAT),  # seconds between servers, latency included; 0 on one server
        ("latency_s", FLOAT),
        ("heavy_bytes", FLOAT),  # on its heaviest link
        ("step_s", FLOAT),  # whole step when it has its links to itself
        ("first", INT),  # its entries are [first, first + number)
        ("number", INT),
        ("spans", INT),  # 1: it runs on several servers
        # Of the last filling (max-min).
        ("rate", FLOAT),  # bytes a second on its heaviest link; UNKNOWN: it has just come
        ("batch", INT),  # when it stopped among those with this rate, from 1
        # Scratch of `resettle`.
        ("is_member", INT),
        ("phase", INT),
    ],
    align=True,
)

# One job on one link; those of a job stand together, links ascending.
LOAD_ENTRY = np.dtype(
    [
        ("link", INT),
        ("weight", FLOAT),  # bytes here / bytes on the job's heaviest link
        ("job", INT),
        ("after", INT),  # next entry of the same link, or NOBODY
        ("before", INT),
    ],
    align=True,
)

LOAD_LINK = np.dtype(
    [
        ("head", INT),  # first entry of the link's list, or NOBODY
        ("sharers", INT),  # jobs on the link
        ("busy", INT),  # their summed `busy_parts`
        ("touched", INT),  # list: links whose jobs have changed since the last `resettle`
        ("is_touched", INT),
        ("full_rate", FLOAT),  # when it was full in the last filling; inf: never
        ("full_batch", INT),
        ("is_active", INT),  # scratch of `refill`
    ],
    align=True,
)

COUNTS = np.dtype(
    [
        ("pool_used", INT),
        ("num_touched", INT),
        # Scratch of `refill`: lengths of lists and heaps.
        ("num_active", INT),
        ("num_filling", INT),
        ("num_seen", INT),
        ("num_due", INT),
    ],
    align=True,
)

# --- Scratch -----------------------------------------------------------------------------------

# Lists over the workers of one gang, or over its servers.
GANG = np.dtype(
    [
        ("server", INT),  # servers of the placement, in its order
        ("gpus_on", INT),  # workers on each
        ("gpu", INT),  # the placement's GPUs, server by server
        ("worker", INT),  # the worker on each of these GPUs
        ("at", INT),  # position in `server` of each worker's server
        ("host", INT),  # server of each worker
        ("next", INT),  # scratch of `measure_placement`
        ("hosted", INT),  # parameter-server shards on each server
        ("hosts", INT),  # positions of the servers with shards
        ("ring", INT),  # number of the last ring that came by each server
        ("stop", INT),  # servers of the present ring
        ("tally", INT),  # workers of each gradient ring on the present server; 0 between calls
    ],
    align=True,
)

FLOW = np.dtype([("source", INT), ("target", INT), ("num_bytes", FLOAT)], align=True)

LINK_BYTES = np.dtype([("num_bytes", FLOAT), ("used", INT)], align=True)  # used: list of links

# Jobs that are settled together, their entries side by side.
PART_JOB = np.dtype(
    [
        ("job", INT),  # row of the job table
        ("first", INT),  # entries of job k are [first of k, first of k + 1)
        ("heavy_bytes", FLOAT),
        ("step_s", FLOAT),
        ("seconds", FLOAT),  # between servers, latency apart
        ("stopping", INT),  # list: jobs that stop at the present rate
        ("heap_at", INT),  # place of job k among those that are due
    ],
    align=True,
)

PART_ENTRY = np.dtype(
    [
        ("link", INT),
        ("weight", FLOAT),
        ("order", INT),  # list: entries of a link that are being sorted
    ],
    align=True,
)

PART_LINK = np.dtype(
    [
        ("left", FLOAT),  # capacity that stopped jobs leave
        ("weight", FLOAT),  # summed weights of the jobs still rising
        ("rising", INT),  # their number
        ("floor", FLOAT),  # rate at which the last job on the link stopped
        ("is_changed", INT),  # 0 between calls
        ("heap_at", INT),  # place among those that fill, or OUT
        ("changed", INT),  # list: links that a stop at the present rate has changed
        ("active", INT),  # list: links that `refill` looks at
    ],
    align=True,
)


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


# What a job of each profile sends, its fields as those of `Traffic`.
TRAFFIC = np.dtype(
    [(name, INT if hint == IntArray else FLOAT) for name, hint in get_type_hints(Traffic).items()],
    align=True,
)


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
    while b > 0:  # Euclid's algorithm: few turns even for large gangs
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
    """All-reduce of `buffer_bytes`, a part of it over every hop."""
    number = len(members)
    for k, member in enumerate(members):
        hop_bytes = ring_share(number) * buffer_bytes
        _add(edges, member, members[(k + 1) % number], hop_bytes)


def _mix(edges: Edges, traffic: Traffic, profile: int, gang: int) -> None:
    """Gradient rings, tensor rings, stage boundaries; workers as in `sim.physics.link_network`."""
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
