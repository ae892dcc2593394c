"""One sweep over the tree: up to the datacenter, down to the servers."""

from typing import NamedTuple

from torch import Tensor, nn

from gnn.tree import Tree
from gnn.update import Update


class Nodes(NamedTuple):
    """States of the nodes above the GPUs, rows flat; None where a level has no state yet."""

    server: Tensor  # (N, server_dim) before the first sweep, then (N, hidden_dim)
    rack: Tensor | None  # (B * R, hidden_dim)
    cluster: Tensor | None  # (B, hidden_dim)


class Sweep(nn.Module):
    """Five updates in order: server, rack, cluster going up; rack, server going down.

    Levels are updated one after the other, each from the states just made, so one sweep carries
    what happens on any GPU to every server of the partition.

    Args:
        gpu_dim: width of the GPU embeddings.
        server_dim: width of the servers' states before this sweep.
        upper_dim: width of rack and cluster states before this sweep; 0 where they have none.
        hidden_dim: width of everything after it.
    """

    def __init__(self, *, gpu_dim: int, server_dim: int, upper_dim: int, hidden_dim: int) -> None:
        """Draw weights for the given widths."""
        super().__init__()
        h = hidden_dim
        self.server_up = Update(own_dim=server_dim, neighbour_dim=gpu_dim, out_dim=h)
        self.rack_up = Update(own_dim=upper_dim, neighbour_dim=h, out_dim=h)
        self.cluster_up = Update(own_dim=upper_dim, neighbour_dim=h, out_dim=h)
        self.rack_down = Update(own_dim=h, neighbour_dim=h, out_dim=h)
        self.server_down = Update(own_dim=h, neighbour_dim=h, out_dim=h)

    def reset_parameters(self) -> None:
        """Draw new weights."""
        for update in (self.server_up, self.rack_up, self.cluster_up,
                       self.rack_down, self.server_down):  # fmt: skip
            update.reset_parameters()

    def forward(self, gpu_mean: Tensor, nodes: Nodes, tree: Tree) -> Nodes:
        """New states; `gpu_mean` (N, gpu_dim) is the mean GPU embedding of each server."""
        server: Tensor = self.server_up(nodes.server, self.server_up.message(gpu_mean))
        message = self.rack_up.message(tree.servers_to_racks(server))
        rack: Tensor = self.rack_up(nodes.rack, message)
        message = self.cluster_up.message(tree.racks_to_clusters(rack))
        cluster: Tensor = self.cluster_up(nodes.cluster, message)
        rack = self.rack_down(rack, tree.clusters_to_racks(self.rack_down.message(cluster)))
        server = self.server_down(server, tree.racks_to_servers(self.server_down.message(rack)))
        return Nodes(server, rack, cluster)
