"""Edges of any tree: masked means over padded GPUs, scattered sums over servers."""

from dataclasses import dataclass
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.utils import scatter

from gnn.batch import ClusterBatch


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
        in_rack = scatter(one, rack_row, dim=0, dim_size=parts * racks, reduce="sum")  # (B * R, 1)
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
        pooled: Tensor = scatter(share, self.rack_row, dim=0, dim_size=racks, reduce="sum")
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
