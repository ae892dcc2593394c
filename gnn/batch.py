"""What goes into an encoder and what comes out: padded tensors of B partitions."""

from typing import NamedTuple

from torch import Tensor


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


class Embeddings(NamedTuple):
    """One vector for every server, rack and partition; rows of padding are zero."""

    server: Tensor  # (B, S, hidden_dim)
    rack: Tensor  # (B, R, hidden_dim)
    cluster: Tensor  # (B, hidden_dim)
