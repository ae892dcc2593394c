"""The edges of the tree as operations: who pools what, who hears from whom."""

from typing import Protocol

from torch import Tensor

from gnn.batch import ClusterBatch


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
