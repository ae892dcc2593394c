"""Encoders of a padded batch: hierarchical (the default), flat, an MLP."""

import torch
from torch import Tensor, nn

from gnn.base import ClusterBatch, Embeddings, Encoder, Nodes, ScatterTree, Sizes, Sweep, Update


class HierarchicalEncoder(Encoder):
    r"""GPU -> server -> rack -> datacenter and back down, with shared weights at each level.

    Source: Zhao, Wu, "Large-Scale Machine Learning Cluster Scheduling via Multi-Agent Graph
    Reinforcement Learning" (IEEE TNSM 2021/22, https://arxiv.org/abs/2112.13354) for the
    hierarchy (inside the server, then across the datacenter). Widths and equations are not taken
    from there: each step is the mean update of GraphSAGE (`gnn.base.Update`),

    .. math:: h'_v = \mathrm{ReLU}(W_{own} h_v + W_{nbr} \cdot \mathrm{mean}_{u \in N(v)} h_u + b)

    where N(v) are the children going up and the parent going down. A GPU's embedding is
    :math:`\mathrm{ReLU}(W x + b)`. Racks and clusters have no features: in the first sweep their
    own term is left out. A LayerNorm a level ends the encoder, so that the policy head sees rows
    of one scale whatever the load. Weights depend on no number of GPUs, servers or racks.
    Left out: links inside the server and loads of links between switches, which
    `gnn.linked.LinkedEncoder` reads. Means forget how many children there are: give counts as
    features.

    `rounds`: sweeps up and down, at least 1; each has its own weights.

    Shapes:
        input: `ClusterBatch` with x_gpu (B, S, K, gpu_features) and x_server
            (B, S, server_features)
        output: `Embeddings` server (B, S, hidden_dim), rack (B, R, hidden_dim), cluster
            (B, hidden_dim), zero in rows of padding
    """

    def _add_layers(self, sizes: Sizes) -> None:
        self.sweeps = nn.ModuleList(
            Sweep(
                gpu_dim=sizes.gpu_dim,
                server_dim=sizes.hidden_dim if done else sizes.server_features,
                upper_dim=sizes.hidden_dim if done else 0,
                hidden_dim=sizes.hidden_dim,
            )
            for done in range(sizes.rounds)
        )

    def forward(self, batch: ClusterBatch) -> Embeddings:
        """Encode `batch`; ValueError: features of another width, or a rack out of range."""
        edges, gpu_mean, x_server = self._opened(batch)
        nodes = Nodes(x_server, None, None)
        for sweep in self.sweeps:
            nodes = sweep(gpu_mean, nodes, edges)
        return self._normed(batch, edges, nodes)


class MlpEncoder(Encoder):
    r"""What an encoder gives without a graph: no server hears of another.

    A server's row is a ReLU network of its features and the mean of its GPUs' embeddings; the
    cluster's is :math:`\mathrm{ReLU}(W [\mathrm{mean} \| \mathrm{max}] + b)` over its servers, a
    rack's the mean of its servers. Made for ablations: widths as in `HierarchicalEncoder`.

    `rounds`: layers of a server's network after the first.

    Shapes:
        as `gnn.encoder.HierarchicalEncoder`
    """

    def _add_layers(self, sizes: Sizes) -> None:
        h = sizes.hidden_dim
        self.first = Update(own_dim=sizes.server_features, neighbour_dim=sizes.gpu_dim, out_dim=h)
        self.layers = nn.ModuleList(nn.Linear(h, h) for _ in range(sizes.rounds))
        self.pool = nn.Linear(2 * h, h)

    def forward(self, batch: ClusterBatch) -> Embeddings:
        """Encode `batch`; errors are those of `HierarchicalEncoder`."""
        edges, gpu_mean, x_server = self._opened(batch)
        whole = ScatterTree.without_racks(batch)
        server: Tensor = self.first(x_server, self.first.message(gpu_mean))
        for layer in self.layers:
            server = torch.relu(layer(server))
        server = edges.real_servers(server)
        most = server.view(*batch.server_mask.shape, -1).amax(1)  # nothing is below padding's 0
        pools = torch.cat([whole.servers_to_racks(server), most], -1)  # (B, 2 * H)
        cluster = torch.relu(self.pool(pools))
        return self._normed(batch, edges, Nodes(server, edges.servers_to_racks(server), cluster))


class FlatEncoder(Encoder):
    r"""GraphSAGE on a flat graph: GPUs tell their server, servers tell one another.

    Every update is that of `gnn.base.Update`. A server first hears the mean of its GPUs, then
    `rounds` times the mean of all servers of its partition (itself among them), whatever racks
    they stand in; the cluster's row is made of the mean of the last states. No server and no
    cluster row depends on racks; a rack's row is the mean of its servers. Made for ablations:
    widths as in `HierarchicalEncoder`.

    `rounds`: updates of the servers from one another.

    Shapes:
        as `gnn.encoder.HierarchicalEncoder`
    """

    def _add_layers(self, sizes: Sizes) -> None:
        h = sizes.hidden_dim
        self.server_up = Update(
            own_dim=sizes.server_features, neighbour_dim=sizes.gpu_dim, out_dim=h
        )
        self.beside = nn.ModuleList(
            Update(own_dim=h, neighbour_dim=h, out_dim=h) for _ in range(sizes.rounds)
        )
        self.cluster_up = Update(own_dim=0, neighbour_dim=h, out_dim=h)

    def forward(self, batch: ClusterBatch) -> Embeddings:
        """Encode `batch`; errors are those of `HierarchicalEncoder`."""
        edges, gpu_mean, x_server = self._opened(batch)
        whole = ScatterTree.without_racks(batch)
        server: Tensor = self.server_up(x_server, self.server_up.message(gpu_mean))
        for update in self.beside:
            mean = whole.servers_to_racks(server)  # (B, H): all servers stand in one rack
            server = update(server, whole.racks_to_servers(update.message(mean)))  # type: ignore[operator]
        cluster = self.cluster_up(None, self.cluster_up.message(whole.servers_to_racks(server)))
        return self._normed(batch, edges, Nodes(server, edges.servers_to_racks(server), cluster))
