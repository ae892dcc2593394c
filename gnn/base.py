"""What encoders read and share: padded batches and trees, sizes, norms, one sweep of messages.

A sweep goes over the tree, up to the datacenter and down to the servers; a node's new state is made
from its own and its neighbours' mean. Only sums over racks need PyG, which takes seconds to load.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple, Self, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Links(NamedTuple):
    """The graphs inside servers, and what is known of servers' links to the outside.

    Nodes of a server are its K GPUs, then up to H hubs (PCIe switches, sockets), numbered from K.
    An edge joins two nodes both ways. Features of padding are never read.
    """

    edge_ends: Tensor  # (B, S, E, 2) int64 nodes of each edge; -1: there is no such edge
    x_edge: Tensor  # (B, S, E, edge_features) float
    num_hubs: int  # H
    x_link: Tensor  # (B, S, link_features) float


class ClusterBatch(NamedTuple):
    """B partitions, padded to S servers, K GPUs a server and R racks.

    Features of padding rows are never read: any value may stand there, NaN included. A rack is
    present where a real server is in it; GPUs of a padding server do not count, whatever
    `gpu_mask` says of them.
    """

    x_gpu: Tensor  # (B, S, K, gpu_features) float
    gpu_mask: Tensor  # (B, S, K) bool, True where there is a GPU
    x_server: Tensor  # (B, S, server_features) float
    server_mask: Tensor  # (B, S) bool, True where there is a server
    server_rack: Tensor  # (B, S) int64, rack of the server within its partition, in [0, num_racks)
    num_racks: int  # R
    links: Links | None = None  # read by `gnn.linked.LinkedEncoder` alone


class Embeddings(NamedTuple):
    """One vector for every server, rack and partition; rows of padding are zero."""

    server: Tensor  # (B, S, hidden_dim)
    rack: Tensor  # (B, R, hidden_dim)
    cluster: Tensor  # (B, hidden_dim)


def _sums(values: Tensor, row: Tensor, rows: int) -> Tensor:
    """(rows, ...) of rows of `values` that go to each row."""
    from torch_geometric.utils import scatter  # loads as long as torch; compiled code needs none

    return scatter(values, row, dim=0, dim_size=rows, reduce="sum")


@dataclass(frozen=True)
class ScatterTree:
    """Edges for servers with any number of GPUs and racks with any number of servers.

    Rows are flat: N = B * S servers, B * R racks, B clusters. Pooling is the mean over the real
    children (zero where there is none); spreading hands the parent's row to each child. What a
    spread writes into padding rows is finite and means nothing.
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
        """Read the edges of `batch`; ValueError: a real server's rack is outside [0, num_racks)."""
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
        return _sums(server * self.server_share, self.rack_row, len(self.no_rack))

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


class Update(nn.Module):
    r"""The mean-aggregation update of GraphSAGE, split so that messages can be made where few.

    Source: Hamilton, Ying, Leskovec, "Inductive Representation Learning on Large Graphs"
    (NeurIPS 2017, https://arxiv.org/abs/1706.02216), algorithm 1 with the mean aggregator in its
    sum form, without neighbour sampling and without normalising rows to length 1:

    .. math:: h'_v = \mathrm{ReLU}(W_{own} h_v + W_{nbr} \cdot \mathrm{mean}_{u \in N(v)} h_u + b)

    Going down, every node has one neighbour (its parent), so `message` is taken on the few
    parents and handed to the many children: the product commutes with the copy.

    Args:
        own_dim: width of the node's own state; 0 where it has none yet.
        neighbour_dim: width of the neighbours' states.
        out_dim: width of the result.

    Shapes:
        message: (M, neighbour_dim) -> (M, out_dim)
        forward: own (N, own_dim) or None, message (N, out_dim) -> (N, out_dim)
    """

    def __init__(self, *, own_dim: int, neighbour_dim: int, out_dim: int) -> None:
        """Draw weights for the given widths."""
        super().__init__()
        self.neighbour = nn.Linear(neighbour_dim, out_dim)
        self.own = nn.Linear(own_dim, out_dim, bias=False) if own_dim else None

    def message(self, neighbour: Tensor) -> Tensor:
        """`W_nbr h + b` of neighbours or of their mean."""
        return F.linear(neighbour, self.neighbour.weight, self.neighbour.bias)

    def forward(self, own: Tensor | None, message: Tensor) -> Tensor:
        """The node's new state; `own` is ignored where the node had none yet (`own_dim` 0)."""
        if self.own is None:
            return torch.relu(message)
        return torch.addmm(message, cast(Tensor, own), self.own.weight.t()).relu_()


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

    def forward(self, gpu_mean: Tensor, nodes: Nodes, tree: ScatterTree) -> Nodes:
        """New states; `gpu_mean` (N, gpu_dim) is the mean GPU embedding of each server."""
        server: Tensor = self.server_up(nodes.server, self.server_up.message(gpu_mean))
        message = self.rack_up.message(tree.servers_to_racks(server))
        rack: Tensor = self.rack_up(nodes.rack, message)
        message = self.cluster_up.message(tree.racks_to_clusters(rack))
        cluster: Tensor = self.cluster_up(nodes.cluster, message)
        rack = self.rack_down(rack, tree.clusters_to_racks(self.rack_down.message(cluster)))
        server = self.server_down(server, tree.racks_to_servers(self.server_down.message(rack)))
        return Nodes(server, rack, cluster)


@dataclass(frozen=True)
class Sizes:
    """What an encoder is built for; `Encoder` says what is what."""

    gpu_features: int
    server_features: int
    gpu_dim: int
    hidden_dim: int
    rounds: int


class Encoder(nn.Module, ABC):
    """`ClusterBatch` to `Embeddings` of width `hidden_dim`; the default is in `gnn.encoder`.

    A LayerNorm a level ends every encoder, so that the policy head sees rows of one scale whatever
    the load.

    Args:
        gpu_features: numbers describing a GPU.
        server_features: numbers describing a server.
        gpu_dim: width of a GPU's embedding.
        hidden_dim: width of server, rack and cluster embeddings.
        rounds: how often the encoder's step is repeated, with weights of its own each time.

    Raises:
        ValueError: a size is below 1.
    """

    gpu: nn.Linear
    server_norm: nn.LayerNorm
    rack_norm: nn.LayerNorm
    cluster_norm: nn.LayerNorm

    def __init__(
        self, *, gpu_features: int, server_features: int, gpu_dim: int, hidden_dim: int, rounds: int
    ) -> None:
        """Check the sizes; draw weights, in the order of the passes: policy files rely on it."""
        super().__init__()
        sizes = Sizes(gpu_features, server_features, gpu_dim, hidden_dim, rounds)
        for key, value in vars(sizes).items():
            if value < 1:
                raise ValueError(f"encoder.{key} is {value}; it must be at least 1")
        self.gpu_features, self.server_features = gpu_features, server_features
        self.hidden_dim = hidden_dim
        self.gpu = nn.Linear(gpu_features, gpu_dim)
        self._add_layers(sizes)
        self.server_norm = nn.LayerNorm(hidden_dim)
        self.rack_norm = nn.LayerNorm(hidden_dim)
        self.cluster_norm = nn.LayerNorm(hidden_dim)

    @abstractmethod
    def _add_layers(self, sizes: Sizes) -> None:
        """Draw what stands between GPUs' embeddings and the norms."""

    def embed_gpus(self, x_gpu: Tensor) -> Tensor:
        """(..., gpu_features) -> (..., gpu_dim)."""
        embedded: Tensor = self.gpu(x_gpu)
        return embedded.relu_()

    def _normed(self, batch: ClusterBatch, edges: ScatterTree, nodes: Nodes) -> Embeddings:
        """The last states, of all levels, as embeddings."""
        parts, servers = batch.server_mask.shape
        rack = self.rack_norm(nodes.rack).masked_fill(edges.no_rack, 0.0)
        return Embeddings(
            edges.real_servers(self.server_norm(nodes.server)).view(parts, servers, -1),
            rack.view(parts, batch.num_racks, -1),
            self.cluster_norm(nodes.cluster).masked_fill(edges.no_cluster, 0.0),
        )

    def _opened(self, batch: ClusterBatch) -> tuple[ScatterTree, Tensor, Tensor]:
        """Edges, and of each server the mean of its embedded GPUs and its own features."""
        self._check(batch)
        edges = ScatterTree.of(batch)
        x_gpu, x_server = edges.inputs(batch)
        return edges, edges.gpus_to_servers(self.embed_gpus(x_gpu)), x_server

    def _check(self, batch: ClusterBatch) -> None:
        widths = (batch.x_gpu.shape[-1], batch.x_server.shape[-1])
        if widths != (self.gpu_features, self.server_features):
            raise ValueError(
                f"the batch has {widths[0]} GPU and {widths[1]} server features; the encoder was "
                f"built for gpu_features={self.gpu_features} and "
                f"server_features={self.server_features}"
            )
