"""Edges of a regular tree: every rack has the same servers, so pooling is a reshape and a mean."""

from dataclasses import dataclass
from typing import Self

from torch import Tensor

from gnn.base import ClusterBatch


@dataclass(frozen=True)
class DenseTree:
    """Edges of partitions with equal servers in equal racks and no padding at all.

    Server s of a partition stands in rack s // `servers_per_rack`. Gives the same embeddings as
    `ScatterTree` with the same encoder: `encoder(batch, DenseTree.of(batch))`.
    """

    racks: int
    servers_per_rack: int

    @classmethod
    def of(cls, batch: ClusterBatch) -> Self:
        """Describe a batch that is regular; do it once for each topology."""
        return cls(batch.num_racks, batch.server_rack.shape[1] // batch.num_racks)

    def inputs(self, batch: ClusterBatch) -> tuple[Tensor, Tensor]:
        """GPU features (N, K, Fg) and server features (N, Fs) as they are."""
        return batch.x_gpu.flatten(0, 1), batch.x_server.flatten(0, 1)

    def gpus_to_servers(self, gpu: Tensor) -> Tensor:
        """(N, K, D) -> (N, D), mean over the server's GPUs."""
        return gpu.mean(1)

    def servers_to_racks(self, server: Tensor) -> Tensor:
        """(N, D) -> (B * R, D), mean over the rack's servers."""
        return server.view(-1, self.servers_per_rack, server.shape[1]).mean(1)

    def racks_to_clusters(self, rack: Tensor) -> Tensor:
        """(B * R, D) -> (B, D), mean over the partition's racks."""
        return rack.view(-1, self.racks, rack.shape[1]).mean(1)

    def clusters_to_racks(self, cluster: Tensor) -> Tensor:
        """(B, D) -> (B * R, D)."""
        return cluster.unsqueeze(1).expand(-1, self.racks, -1).flatten(0, 1)

    def racks_to_servers(self, rack: Tensor) -> Tensor:
        """(B * R, D) -> (N, D)."""
        return rack.unsqueeze(1).expand(-1, self.servers_per_rack, -1).flatten(0, 1)

    def real_servers(self, server: Tensor) -> Tensor:
        """(N, D) as it is: there is no padding."""
        return server

    def real_racks(self, rack: Tensor) -> Tensor:
        """(B * R, D) as it is: there is no padding."""
        return rack

    def real_clusters(self, cluster: Tensor) -> Tensor:
        """(B, D) as it is: there is no padding."""
        return cluster
