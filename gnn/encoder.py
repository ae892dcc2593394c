"""Encoders of a padded batch, on edges of any tree: hierarchical (the default), flat, an MLP."""

from dataclasses import dataclass
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gnn.base import ClusterBatch, Embeddings, Encoder, Nodes, Sizes, Sweep, Tree, Update


def _sums(values: Tensor, row: Tensor, rows: int) -> Tensor:
    """(rows, ...) of rows of `values` that go to each row."""
    from torch_geometric.utils import scatter  # loads as long as torch; compiled code needs none

    found: Tensor = scatter(values, row, dim=0, dim_size=rows, reduce="sum")
    return found


@dataclass(frozen=True)
class ScatterTree:
    """Edges for servers with any number of GPUs and racks with any number of servers.

    Depends on masks and racks only, so one tree serves every batch of the same topology.
    """

    no_gpu: Tensor  # (N, K, 1) bool
    gpu_share: Tensor  # (N, K, 1) 1 / GPUs of the server, zero for padding
    no_server: Tensor  # (N, 1) bool
    rack_row: Tensor  # (N,) int64 row of the server's rack among B * R; the first for padding
    server_share: Tensor  # (N, 1) 1 / servers of the rack, zero for padding
    no_rack: Tensor  # (B * R, 1) bool
    rack_share: Tensor  # (B, R, 1) 1 / racks of the partition, zero for absent ones
    no_cluster: Tensor  # (B, 1) bool

    @classmethod
    def of(cls, batch: ClusterBatch) -> Self:
        """Read the edges of `batch` from its masks and racks.

        Raises:
            ValueError: a real server's rack is outside [0, num_racks).
        """
        parts, _, gpus = batch.gpu_mask.shape
        racks, dtype = batch.num_racks, batch.x_gpu.dtype
        server = batch.server_mask.reshape(-1, 1)  # (N, 1)
        gpu = (batch.gpu_mask & batch.server_mask.unsqueeze(2)).reshape(-1, gpus, 1)  # (N, K, 1)
        rack_row = _rack_rows(batch)
        one, each = server.to(dtype), gpu.to(dtype)
        in_rack = _sums(one, rack_row, parts * racks)  # (B * R, 1)
        rack = in_rack > 0
        present = rack.to(dtype).view(parts, racks, 1)
        return cls(
            no_gpu=~gpu,
            gpu_share=each / each.sum(1, keepdim=True).clamp_(min=1),
            no_server=~server,
            rack_row=rack_row,
            server_share=one / F.embedding(rack_row, in_rack.clamp(min=1)),
            no_rack=~rack,
            rack_share=present / present.sum(1, keepdim=True).clamp_(min=1),
            no_cluster=~batch.server_mask.any(1, keepdim=True),
        )

    @classmethod
    def without_racks(cls, batch: ClusterBatch) -> Self:
        """The edges of `batch` if all servers of a partition stood in one rack."""
        one = torch.zeros_like(batch.server_rack)
        return cls.of(batch._replace(server_rack=one, num_racks=1))

    def inputs(self, batch: ClusterBatch) -> tuple[Tensor, Tensor]:
        """GPU features (N, K, Fg) and server features (N, Fs) with zeros in the padding."""
        gpu = batch.x_gpu.flatten(0, 1).masked_fill(self.no_gpu, 0.0)
        return gpu, batch.x_server.flatten(0, 1).masked_fill(self.no_server, 0.0)

    def gpus_to_servers(self, gpu: Tensor) -> Tensor:
        """(N, K, D) -> (N, D), mean over the server's GPUs."""
        return (gpu * self.gpu_share).sum(1)

    def servers_to_racks(self, server: Tensor) -> Tensor:
        """(N, D) -> (B * R, D), mean over the rack's servers."""
        share = server * self.server_share
        racks = len(self.no_rack)
        pooled = _sums(share, self.rack_row, racks)
        return pooled

    def racks_to_clusters(self, rack: Tensor) -> Tensor:
        """(B * R, D) -> (B, D), mean over the partition's racks."""
        parts, racks, _ = self.rack_share.shape
        return (rack.view(parts, racks, -1) * self.rack_share).sum(1)

    def clusters_to_racks(self, cluster: Tensor) -> Tensor:
        """(B, D) -> (B * R, D)."""
        return cluster.repeat_interleave(self.rack_share.shape[1], dim=0)

    def racks_to_servers(self, rack: Tensor) -> Tensor:
        """(B * R, D) -> (N, D)."""
        return F.embedding(self.rack_row, rack)  # the row lookup with the quickest backward

    def real_servers(self, server: Tensor) -> Tensor:
        """(N, D), rows of padding set to zero."""
        return server.masked_fill(self.no_server, 0.0)

    def real_racks(self, rack: Tensor) -> Tensor:
        """(B * R, D), rows of absent racks set to zero."""
        return rack.masked_fill(self.no_rack, 0.0)

    def real_clusters(self, cluster: Tensor) -> Tensor:
        """(B, D), rows of partitions without a server set to zero."""
        return cluster.masked_fill(self.no_cluster, 0.0)


def _rack_rows(batch: ClusterBatch) -> Tensor:
    """(N,) row of each server's rack in the flat batch; a wrong rack would reach a neighbour."""
    rack = batch.server_rack.masked_fill(~batch.server_mask, 0)
    low, high = (int(end) for end in rack.aminmax())
    if not 0 <= low <= high < batch.num_racks:
        part, server = ((rack < 0) | (rack >= batch.num_racks)).nonzero()[0].tolist()
        raise ValueError(
            f"server_rack[{part}, {server}] is {int(rack[part, server])} but num_racks is "
            f"{batch.num_racks}; number the racks of each partition from 0"
        )
    first = torch.arange(0, len(rack) * batch.num_racks, batch.num_racks, device=rack.device)
    return (rack + first.unsqueeze(1)).view(-1)


class HierarchicalEncoder(Encoder):
    r"""GPU -> server -> rack -> datacenter and back down, with shared weights at each level.

    Source: Zhao, Wu, "Large-Scale Machine Learning Cluster Scheduling via Multi-Agent Graph
    Reinforcement Learning" (IEEE TNSM 2021/22, https://arxiv.org/abs/2112.13354) for the
    hierarchy (inside the server, then across the datacenter). Widths and equations are not taken
    from there: each step is the mean update of GraphSAGE (`gnn.encoder.Update`),

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

    def forward(self, batch: ClusterBatch, tree: Tree | None = None) -> Embeddings:
        """Encode `batch`.

        Args:
            batch: B padded partitions.
            tree: the batch's edges, where the caller has them from an earlier batch of the same
                topology (`ScatterTree.of`); None reads them from the batch.

        Raises:
            ValueError: features have another width than the encoder's, or a rack is out of range.
        """
        edges, gpu_mean, x_server = self._opened(batch, tree)
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
        """Encode `batch`.

        Raises:
            ValueError: features have another width than the encoder's, or a rack is out of range.
        """
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

    Every update is that of `gnn.encoder.Update`. A server first hears the mean of its GPUs, then
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
        """Encode `batch`.

        Raises:
            ValueError: features have another width than the encoder's, or a rack is out of range.
        """
        edges, gpu_mean, x_server = self._opened(batch)
        whole = ScatterTree.without_racks(batch)
        server: Tensor = self.server_up(x_server, self.server_up.message(gpu_mean))
        for update in self.beside:
            mean = whole.servers_to_racks(server)  # (B, H): all servers stand in one rack
            server = update(server, whole.racks_to_servers(update.message(mean)))  # type: ignore[operator]
        cluster = self.cluster_up(None, self.cluster_up.message(whole.servers_to_racks(server)))
        return self._normed(batch, edges, Nodes(server, edges.servers_to_racks(server), cluster))
