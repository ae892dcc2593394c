"""What all encoders have in common: sizes, one norm a level, the check of a batch.

One step of message passing: a node's new state from its own and its neighbours' mean.

One sweep over the tree: up to the datacenter, down to the servers.

The hierarchical encoder: a padded batch of partitions in, embeddings of every level out.

No message passing: each server's own features, and pools of them.

One level instead of a hierarchy: the servers of a partition are all neighbours.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gnn.batch import ClusterBatch, Embeddings, Tree
from gnn.scatter import ScatterTree


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

    def reset_parameters(self) -> None:
        """Draw new weights."""
        self.neighbour.reset_parameters()
        if self.own is not None:
            self.own.reset_parameters()

    def message(self, neighbour: Tensor) -> Tensor:
        """`W_nbr h + b` of neighbours or of their mean."""
        return F.linear(neighbour, self.neighbour.weight, self.neighbour.bias)

    def own_part(self, own: Tensor) -> Tensor:
        """`W_own h`, (N, own_dim) -> (N, out_dim), for who keeps it between calls."""
        return F.linear(own, cast(nn.Linear, self.own).weight)

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
        self,
        *,
        gpu_features: int,
        server_features: int,
        gpu_dim: int,
        hidden_dim: int,
        rounds: int,
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

    def reset_parameters(self) -> None:
        """Draw new weights."""
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.LayerNorm):
                module.reset_parameters()

    def embed_gpus(self, x_gpu: Tensor) -> Tensor:
        """(..., gpu_features) -> (..., gpu_dim)."""
        embedded: Tensor = self.gpu(x_gpu)
        return embedded.relu_()

    def _normed(self, batch: ClusterBatch, edges: Tree, nodes: Nodes) -> Embeddings:
        """The last states, of all levels, as embeddings."""
        parts, servers = batch.server_mask.shape
        return Embeddings(
            edges.real_servers(self.server_norm(nodes.server)).view(parts, servers, -1),
            edges.real_racks(self.rack_norm(nodes.rack)).view(parts, batch.num_racks, -1),
            edges.real_clusters(self.cluster_norm(nodes.cluster)),
        )

    def _check(self, batch: ClusterBatch) -> None:
        widths = (batch.x_gpu.shape[-1], batch.x_server.shape[-1])
        if widths != (self.gpu_features, self.server_features):
            raise ValueError(
                f"the batch has {widths[0]} GPU and {widths[1]} server features; the encoder was "
                f"built for gpu_features={self.gpu_features} and "
                f"server_features={self.server_features}"
            )


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

    Args:
        gpu_features: numbers describing a GPU.
        server_features: numbers describing a server.
        gpu_dim: width of a GPU's embedding; the GPU level has the most rows, keep it small.
        hidden_dim: width of server, rack and cluster embeddings.
        rounds: sweeps up and down, at least 1; each has its own weights.

    Raises:
        ValueError: a size is below 1.

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
                topology (`ScatterTree.of`, `DenseTree.of`); None reads them from the batch.

        Raises:
            ValueError: features have another width than the encoder's, or a rack is out of range.
        """
        self._check(batch)
        edges: Tree = ScatterTree.of(batch) if tree is None else tree
        x_gpu, x_server = edges.inputs(batch)
        gpu_mean = edges.gpus_to_servers(self.embed_gpus(x_gpu))
        nodes = Nodes(x_server, None, None)
        for sweep in self.sweeps:
            nodes = sweep(gpu_mean, nodes, edges)
        return self._normed(batch, edges, nodes)


class MlpEncoder(Encoder):
    r"""What an encoder gives without a graph: no server hears of another.

    A server's row is a ReLU network of its features and the mean of its GPUs' embeddings; the
    cluster's is :math:`\mathrm{ReLU}(W [\mathrm{mean} \| \mathrm{max}] + b)` over its servers, a
    rack's the mean of its servers. Made for ablations: widths as in `HierarchicalEncoder`.

    Args:
        gpu_features: numbers describing a GPU.
        server_features: numbers describing a server.
        gpu_dim: width of a GPU's embedding.
        hidden_dim: width of server, rack and cluster embeddings.
        rounds: layers of a server's network after the first.

    Raises:
        ValueError: a size is below 1.

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
        self._check(batch)
        edges, whole = ScatterTree.of(batch), ScatterTree.without_racks(batch)
        x_gpu, x_server = edges.inputs(batch)
        gpu_mean = edges.gpus_to_servers(self.embed_gpus(x_gpu))
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

    Args:
        gpu_features: numbers describing a GPU.
        server_features: numbers describing a server.
        gpu_dim: width of a GPU's embedding.
        hidden_dim: width of server, rack and cluster embeddings.
        rounds: updates of the servers from one another.

    Raises:
        ValueError: a size is below 1.

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
        self._check(batch)
        edges, whole = ScatterTree.of(batch), ScatterTree.without_racks(batch)
        x_gpu, x_server = edges.inputs(batch)
        gpu_mean = edges.gpus_to_servers(self.embed_gpus(x_gpu))
        server: Tensor = self.server_up(x_server, self.server_up.message(gpu_mean))
        for update in self.beside:
            mean = whole.servers_to_racks(server)  # (B, H): all servers stand in one rack
            server = update(server, whole.racks_to_servers(update.message(mean)))  # type: ignore[operator]
        cluster = self.cluster_up(None, self.cluster_up.message(whole.servers_to_racks(server)))
        return self._normed(batch, edges, Nodes(server, edges.servers_to_racks(server), cluster))
