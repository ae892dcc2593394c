"""Inference on a cluster that changes a little at a time: only touched servers are re-encoded."""

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gnn.base import ClusterBatch, Embeddings, ScatterTree, Sweep
from gnn.encoder import HierarchicalEncoder


class IncrementalEncoder:
    """Caches what an encoder of one sweep makes of each server; gives the same embeddings.

    Means make it possible: the sum of a rack's servers changes by what its touched servers
    changed by. Sums are kept in float64, so drift stays below the rounding of one full pass.
    Going up costs the touched servers and the racks; going down, `encode` pays one addition and
    one norm a server, `servers` pays only for the servers asked.

    Args:
        encoder: an encoder with `rounds` 1 (with more, every server depends on every other
            before the last sweep and nothing can be kept).
    """

    def __init__(self, encoder: HierarchicalEncoder) -> None:
        """Take the encoder; `reset` before anything else."""
        self._encoder = encoder
        self._sweep = cast(Sweep, encoder.sweeps[0])

    @torch.no_grad()
    def reset(self, batch: ClusterBatch) -> None:
        """Encode everything; again after a change of weights, masks or racks."""
        self._tree = tree = ScatterTree.of(batch)
        self._shape = (*batch.server_mask.shape, batch.num_racks)
        gpu, server = tree.inputs(batch)
        gpu_mean = tree.gpus_to_servers(self._encoder.embed_gpus(gpu))
        self._up, self._own = self._encode(gpu_mean, server)
        self._share = tree.server_share.double()  # (N, 1)
        self._rack_mean = tree.servers_to_racks(self._up.double())  # (B * R, H)
        self._upper()

    @torch.no_grad()
    def update(self, rows: Tensor, x_gpu: Tensor, x_server: Tensor) -> None:
        """Give some servers new features.

        Args:
            rows: (n,) int64 distinct rows of real servers, partition * S + server.
            x_gpu: (n, K, gpu_features) their GPUs, as many as before.
            x_server: (n, server_features) their own features.
        """
        tree = self._tree
        embedded = self._encoder.embed_gpus(x_gpu.masked_fill(tree.no_gpu[rows], 0.0))
        up, own = self._encode((embedded * tree.gpu_share[rows]).sum(1), x_server)
        change = (up.double() - self._up[rows]) * self._share[rows]  # (n, H)
        self._rack_mean.index_add_(0, tree.rack_row[rows], change)
        self._up[rows], self._own[rows] = up, own
        self._upper()

    @torch.no_grad()
    def encode(self) -> Embeddings:
        """Embeddings of everything, as the encoder would give them."""
        parts, servers, racks = self._shape
        server = self._down(torch.arange(parts * servers, device=self._own.device))
        rack = self._tree.real_racks(self._encoder.rack_norm(self._rack))
        cluster = self._tree.real_clusters(self._encoder.cluster_norm(self._cluster))
        return Embeddings(
            server.view(parts, servers, -1), rack.view(parts, racks, -1), cluster.clone()
        )

    @torch.no_grad()
    def servers(self, rows: Tensor) -> Tensor:
        """(n, hidden_dim) embeddings of the servers in `rows` (n,) only."""
        return self._down(rows)

    def _encode(self, gpu_mean: Tensor, x_server: Tensor) -> tuple[Tensor, Tensor]:
        """Servers after the way up, and their own term of the way down; both (n, H)."""
        step = self._sweep.server_up
        up: Tensor = step(x_server, step.message(gpu_mean))
        return up, F.linear(up, cast(nn.Linear, self._sweep.server_down.own).weight)

    def _upper(self) -> None:
        """Racks and clusters from the racks' means, and what racks tell their servers."""
        sweep, tree = self._sweep, self._tree
        mean = self._rack_mean.to(self._up.dtype)
        rack: Tensor = sweep.rack_up(None, sweep.rack_up.message(mean))
        message = sweep.cluster_up.message(tree.racks_to_clusters(rack))
        self._cluster: Tensor = sweep.cluster_up(None, message)
        message = sweep.rack_down.message(self._cluster)
        self._rack: Tensor = sweep.rack_down(rack, tree.clusters_to_racks(message))
        self._told = sweep.server_down.message(self._rack)  # (B * R, H)

    def _down(self, rows: Tensor) -> Tensor:
        heard = self._told[self._tree.rack_row[rows]]
        server: Tensor = self._encoder.server_norm(torch.relu(self._own[rows] + heard))
        return server.masked_fill(self._tree.no_server[rows], 0.0)
