"""What goes into an encoder and comes out: padded tensors of B partitions, and the tree's edges."""

from typing import NamedTuple, Protocol

from torch import Tensor


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


class Tree(Protocol):
    """Edges of B partitions; rows are flat: N = B * S servers, B * R racks, B clusters.

    Pooling is the mean over the real children (zero where there is none); spreading hands the
    parent's row to each child. What a spread writes into padding rows is finite and means nothing.
    """

    def inputs(self, batch: ClusterBatch) -> tuple[Tensor, Tensor]:
        """GPU features (N, K, gpu_features), server features (N, server_features), no padding."""

    def gpus_to_servers(self, gpu: Tensor) -> Tensor:
        """(N, K, D) -> (N, D)."""

    def servers_to_racks(self, server: Tensor) -> Tensor:
        """(N, D) -> (B * R, D)."""

    def racks_to_clusters(self, rack: Tensor) -> Tensor:
        """(B * R, D) -> (B, D)."""

    def clusters_to_racks(self, cluster: Tensor) -> Tensor:
        """(B, D) -> (B * R, D)."""

    def racks_to_servers(self, rack: Tensor) -> Tensor:
        """(B * R, D) -> (N, D)."""

    def real_servers(self, server: Tensor) -> Tensor:
        """(N, D), rows of padding set to zero."""

    def real_racks(self, rack: Tensor) -> Tensor:
        """(B * R, D), rows of absent racks set to zero."""

    def real_clusters(self, cluster: Tensor) -> Tensor:
        """(B, D), rows of partitions without a server set to zero."""
