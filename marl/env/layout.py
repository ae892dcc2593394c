"""What agents may do and see: sizes of an observation, numbers of actions, links as observed."""

import math
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from marl.env.actions import FORWARD, KINDS, MODES, WAIT, Sizes
from sim.arrays import FloatArray, IntArray
from sim.scoring import table
from sim.scoring.features import measure_links
from sim.scoring.scratch import Scratch
from sim.topology.topology import Inside, Topology
from sim.view import ClusterView, Signal

NEEDS = Signal.PREDICTION | Signal.PROFILE | Signal.INTERFERENCE
Observation = dict[str, npt.NDArray[np.float32 | np.int64 | np.int8]]

GANG, WORKER = "gang", "worker"  # what one action places
GRANULARITIES = (GANG, WORKER)


@dataclass(frozen=True)
class CodecRules:
    """What agents may do, beyond the simulator's own rules."""

    window: int  # waiting jobs an agent sees, by predicted work left (see docs/agents.md)
    only_placeable: bool  # forward only to where the gang could start at once
    sharing: bool  # whether agents may share GPUs
    patience_s: float  # who is this old and fits compactly on empty GPUs must not be kept waiting
    # Policies of before know none of these choices.
    alone: bool = False  # see and reach the own partition only
    blind_peers: bool = False  # may send jobs to other partitions, but see nothing of them
    links: bool = False  # observations also hold links: the encoder reads them
    granularity: str = GANG  # worker: one action places one worker, and the gang is completed next
    interval_s: float = 0.0  # agents act at multiples of this; 0: at every event
    suspends: bool = False  # whether agents may suspend running jobs for others
    rest_share: float = 0.0  # of what a job has done, which it is thought to have left at least
    rest_most_s: float | None = None  # the most that `rest_share` makes; None: any
    datacenter: bool = False  # observations also hold the GPUs of all partitions: one graph of all

    def __post_init__(self) -> None:
        """Raise ValueError for a value that is none of the choices."""
        if self.granularity not in GRANULARITIES:
            known = " or ".join(GRANULARITIES)
            raise ValueError(f"rules.granularity is {self.granularity!r}; it must be {known}")
        for key in (each.name for each in fields(self) if each.type is bool):
            value = getattr(self, key)
            if type(value) is not bool:
                raise ValueError(f"rules.{key} is {value!r}; it must be true or false")
        for key in ("interval_s", "rest_share"):
            value = getattr(self, key)
            if not 0.0 <= value < math.inf:
                raise ValueError(f"rules.{key} is {value}; it must be 0 or more")
        most_s = self.rest_most_s
        if not (most_s is None or (isinstance(most_s, int | float) and 0.0 < most_s < math.inf)):
            raise ValueError(f"rules.rest_most_s is {most_s!r}; it must be null, or above 0")


USUAL_GBPS = 100.0  # of a link inside a server; its rate counts as 0
NO_EDGE = -1

Edge = tuple[int, int, int, float]  # two nodes, kind, Gbps


class InsideGraph(NamedTuple):
    """S servers; a server's nodes are its GPUs, its PCIe switches and its sockets.

    GPUs are numbered from 0, switches from the number of GPUs of the largest server, sockets
    after the switches of the server that has most.
    """

    ends: IntArray  # (S, E, 2) nodes; NO_EDGE where a server has fewer edges
    features: FloatArray  # (S, E, OfEdge)


def inside_graph(topology: Topology) -> InsideGraph:
    """The edges inside all servers of the cluster; none where `topology.inside` is None."""
    inside, servers = topology.inside, topology.num_servers
    if inside is None:
        return InsideGraph(
            np.full((servers, 1, 2), NO_EDGE), np.zeros((servers, 1, len(table.OfEdge)))
        )
    gpus = int(topology.gpus_per_server.max())
    first_socket = gpus + int(inside.gpu_switch.max()) + 1
    found = [_edges(topology, inside, server, gpus, first_socket) for server in range(servers)]
    most = max(1, *map(len, found))
    ends = np.full((servers, most, 2), NO_EDGE)
    features = np.zeros((servers, most, len(table.OfEdge)))
    for server, edges in enumerate(found):
        for at, (one, two, kind, gbps) in enumerate(edges):
            ends[server, at] = one, two
            features[server, at, kind] = 1.0
            features[server, at, table.OfEdge.RATE] = np.log(gbps / USUAL_GBPS) / 2.0
    return InsideGraph(ends, features)


def _edges(
    topology: Topology, inside: Inside, server: int, first_switch: int, first_socket: int
) -> list[Edge]:
    """GPU to switch, switch to socket, socket to socket, and NVLink between GPUs of an island."""
    first, last = topology.server_first_gpu[server : server + 2]
    switch, socket = inside.gpu_switch[first:last], inside.gpu_socket[first:last]
    pcie, across = float(inside.pcie_gbps[server]), float(inside.socket_gbps[server])
    above = dict(zip(switch.tolist(), socket.tolist(), strict=True))  # switch -> its socket
    edges: list[Edge] = [
        (k, first_switch + s, table.OfEdge.PCIE, pcie) for k, s in enumerate(switch.tolist())
    ]
    edges += [
        (first_switch + s, first_socket + c, table.OfEdge.SOCKET, across) for s, c in above.items()
    ]
    for one, two in combinations(sorted(set(above.values())), 2):
        edges.append((first_socket + one, first_socket + two, table.OfEdge.SOCKET, across))
    island = inside.gpu_island[first:last]
    for a, b in combinations(range(last - first), 2):
        if island[a] >= 0 and island[a] == island[b]:
            edges.append((a, b, table.OfEdge.NVLINK, float(inside.nvlink_gbps[server])))
    return edges


@dataclass(frozen=True)
class Layout:
    """W jobs in the window, S servers, K GPUs a server, R racks, M partitions: padded sizes.

    Actions: starts (w, s, mode) first, then forwards (w, m), then suspensions (w, m) if agents may,
    then *wait* (`marl.env.actions`).
    """

    window: int
    servers: int
    gpus_per_server: int
    racks: int
    partitions: int
    ruled: tuple[int, ...] = ()  # kinds of actions that there are because of a rule
    graphs: int = 0  # partitions whose GPUs and servers observations hold: M, or none
    edges: int = 0  # E inside a server, padded; 0: observations hold no links

    @cached_property
    def sizes(self) -> Sizes:
        """What actions run over."""
        return Sizes(self.window, self.servers, self.partitions, self.ruled)

    @cached_property
    def starts(self) -> int:
        """Number of start actions."""
        return self.sizes.first(FORWARD)

    @cached_property
    def actions(self) -> int:
        """Number of actions."""
        return self.sizes.first(len(KINDS))

    @cached_property
    def wait(self) -> int:
        """The action *wait*, always the last."""
        return self.sizes.first(WAIT)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of each observation array."""
        w, s, m = self.window, self.servers, self.partitions
        return {
            "jobs": (w, len(table.OfJob)),
            "gpus": (s, self.gpus_per_server, len(table.OfGpu)),
            "servers": (s, len(table.OfServer)),
            "server_rack": (s,),
            "pairs": (w, s, MODES, len(table.OfPair)),
            "peers": (m, len(table.OfPeer)),
            "forwards": (w, m, len(table.OfForward)),
            "context": (len(table.OfContext),),
            "action_mask": (self.actions,),
            **{
                KINDS[kind].rows: (*self.sizes.shape(kind), len(KINDS[kind].columns))
                for kind in self.ruled
            },
            **self.graph_shapes(),
            **self.link_shapes(),
        }

    def graph_shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of what `rules.datacenter` adds, partition by partition; nothing without."""
        if self.graphs == 0:
            return {}
        servers = (self.graphs, self.servers)
        return {
            "all_gpus": (*servers, self.gpus_per_server, len(table.OfGpu)),
            "all_servers": (*servers, len(table.OfServer)),
            "all_racks": servers,
        }

    def link_shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of what `rules.links` adds; nothing without."""
        if self.edges == 0:
            return {}
        return {
            "link_ends": (self.servers, self.edges, 2),
            "link_edges": (self.servers, self.edges, len(table.OfEdge)),
            "server_links": (self.servers, len(table.OfLinks)),
        }


def layout_for(
    topology: Topology, partition_of_server: IntArray, rules: CodecRules, partitions: int = 0
) -> Layout:
    """The smallest layout that holds every partition; `partitions` may leave room for more."""
    graph = inside_graph(topology) if rules.links else None
    servers = np.bincount(partition_of_server)
    racks = [
        len(np.unique(topology.server_rack[partition_of_server == p])) for p in range(len(servers))
    ]
    most = max(partitions, len(servers))
    return Layout(
        window=rules.window,
        servers=int(servers.max()),
        gpus_per_server=int(topology.gpus_per_server.max()),
        racks=max(racks),
        partitions=most,
        ruled=tuple(k for k, kind in enumerate(KINDS) if kind.rule and getattr(rules, kind.rule)),
        graphs=most if rules.datacenter else 0,
        edges=0 if graph is None else graph.ends.shape[1],
    )


USUAL_NIC_GBPS = 10.0  # of a NIC and of an uplink; their rates count as 0


class LinkObserver:
    """The part of observations that only an encoder of links asks for; see `Layout.link_shapes`."""

    def __init__(self, view: ClusterView, layout: Layout) -> None:
        """Read the graphs of one run's cluster."""
        self._graph = inside_graph(view.topology)
        self._shapes = layout.link_shapes()
        uplink_gbps = view.topology.uplink_gbps[view.topology.server_rack]
        rates = np.stack([view.topology.nic_gbps, uplink_gbps], 1)
        self._rates = np.log(rates / USUAL_NIC_GBPS) / 4.0  # (S, 2)

    def observe(
        self, view: ClusterView, scratch: Scratch, agent: int
    ) -> dict[str, npt.NDArray[np.float32]]:
        """The arrays of one agent; a server that is away is padding."""
        nic, uplink = np.zeros(len(scratch.server)), np.zeros(len(scratch.rack_stamp))
        measure_links(scratch, view.running, nic, uplink)
        servers = np.flatnonzero(view.partition_of_server == agent)
        seen = {key: np.zeros(shape, np.float32) for key, shape in self._shapes.items()}
        seen["link_ends"][:] = NO_EDGE
        up = np.flatnonzero(np.asarray(view.server_closed)[servers] == 0)
        here = servers[up]
        seen["link_ends"][up] = self._graph.ends[here]
        seen["link_edges"][up] = self._graph.features[here]
        rows = seen["server_links"]
        rows[up, table.OfLinks.NIC_RATE], rows[up, table.OfLinks.UPLINK_RATE] = self._rates[here].T
        rows[up, table.OfLinks.NIC_LOAD] = nic[here]
        rows[up, table.OfLinks.UPLINK_LOAD] = uplink[view.topology.server_rack[here]]
        return seen
