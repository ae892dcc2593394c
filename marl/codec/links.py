"""What an agent is told of links: the graphs inside its servers, the loads of NICs and uplinks."""

import numpy as np
import numpy.typing as npt

from marl.codec.layout import NO_EDGE, Layout, inside_graph
from sim.scoring.costs import measure_links
from sim.scoring.scratch import Scratch
from sim.scoring.table import OfLinks
from sim.view import ClusterView

USUAL_GBPS = 10.0  # of a NIC and of an uplink; their rates count as 0


class LinkSight:
    """The part of observations that only an encoder of links asks for; see `Layout.link_shapes`."""

    def __init__(self, view: ClusterView, layout: Layout) -> None:
        """Read the graphs of one run's cluster."""
        self._graph = inside_graph(view.topology)
        self._shapes = layout.link_shapes()
        uplink_gbps = view.topology.uplink_gbps[view.topology.server_rack]
        rates = np.stack([view.topology.nic_gbps, uplink_gbps], 1)
        self._rates = np.log(rates / USUAL_GBPS) / 4.0  # (S, 2)

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
        rows[up, OfLinks.NIC_RATE], rows[up, OfLinks.UPLINK_RATE] = self._rates[here].T
        rows[up, OfLinks.NIC_LOAD] = nic[here]
        rows[up, OfLinks.UPLINK_LOAD] = uplink[view.topology.server_rack[here]]
        return seen
