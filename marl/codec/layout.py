"""Sizes of an observation and the numbering of actions."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from marl.codec.inside_graph import inside_graph
from marl.turns.actions import FORWARD, KINDS, MODES, WAIT, Sizes
from sim.arrays import IntArray
from sim.scoring.table import (
    OfContext,
    OfEdge,
    OfForward,
    OfGpu,
    OfJob,
    OfLinks,
    OfPair,
    OfPeer,
    OfServer,
    OfSuspension,
)
from sim.topology.topology import Topology


@dataclass(frozen=True)
class Layout:
    """W jobs in the window, S servers, K GPUs a server, R racks, M partitions: padded sizes.

    Actions: starts (w, s, mode) first, then forwards (w, m), then suspensions (w, m) if agents may,
    then *wait* (`marl.turns.actions`).
    """

    window: int
    servers: int
    gpus_per_server: int
    racks: int
    partitions: int
    rooms: int = 0  # partitions in which jobs may be suspended for others: M, or none
    edges: int = 0  # E inside a server, padded; 0: observations hold no links

    @cached_property
    def sizes(self) -> Sizes:
        """What actions run over."""
        return Sizes(self.window, self.servers, self.partitions, self.rooms)

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
            "jobs": (w, len(OfJob)),
            "gpus": (s, self.gpus_per_server, len(OfGpu)),
            "servers": (s, len(OfServer)),
            "server_rack": (s,),
            "pairs": (w, s, MODES, len(OfPair)),
            "peers": (m, len(OfPeer)),
            "forwards": (w, m, len(OfForward)),
            "context": (len(OfContext),),
            "action_mask": (self.actions,),
            **self.room_shapes(),
            **self.link_shapes(),
        }

    def room_shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of what `rules.suspends` adds; nothing without."""
        if self.rooms == 0:
            return {}
        return {"suspensions": (self.window, self.rooms, len(OfSuspension))}

    def link_shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of what `rules.links` adds; nothing without."""
        if self.edges == 0:
            return {}
        return {
            "link_ends": (self.servers, self.edges, 2),
            "link_edges": (self.servers, self.edges, len(OfEdge)),
            "server_links": (self.servers, len(OfLinks)),
        }


def layout_for(
    topology: Topology,
    partition_of_server: IntArray,
    window: int,
    partitions: int,
    links: bool = False,
    suspends: bool = False,
) -> Layout:
    """The smallest layout that holds every partition; `partitions` may leave room for more.

    `links` and `suspends` are those of the rules.
    """
    graph = inside_graph(topology) if links else None
    servers = np.bincount(partition_of_server)
    racks = [
        len(np.unique(topology.server_rack[partition_of_server == p])) for p in range(len(servers))
    ]
    most = max(partitions, len(servers))
    return Layout(
        window=window,
        servers=int(servers.max()),
        gpus_per_server=int(topology.gpus_per_server.max()),
        racks=max(racks),
        partitions=most,
        rooms=most if suspends else 0,
        edges=0 if graph is None else graph.ends.shape[1],
    )
