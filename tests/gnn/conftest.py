"""Batches and encoders for the encoder tests."""

from collections.abc import Callable

import pytest
import torch

from gnn.base import ClusterBatch
from gnn.encoder import HierarchicalEncoder

SIZES = {"gpu_features": 5, "server_features": 4, "gpu_dim": 6, "hidden_dim": 8}
MakeBatch = Callable[..., ClusterBatch]
MakeEncoder = Callable[..., HierarchicalEncoder]


@pytest.fixture(autouse=True)
def one_thread_and_seed() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)


@pytest.fixture
def make_encoder() -> MakeEncoder:
    return lambda rounds=1: HierarchicalEncoder(**SIZES, rounds=rounds)


@pytest.fixture
def irregular() -> MakeBatch:
    """Partitions with random masks and racks; the last one may be empty."""

    def make(
        parts: int = 3, servers: int = 7, gpus: int = 4, racks: int = 3, empty: bool = False
    ) -> ClusterBatch:
        server_mask = torch.rand(parts, servers) < 0.7
        server_mask[:, 0] = True
        if empty:
            server_mask[-1] = False
        gpu_mask = torch.rand(parts, servers, gpus) < 0.7
        gpu_mask[0, 0] = False  # a real server without a GPU
        return ClusterBatch(
            x_gpu=torch.randn(parts, servers, gpus, SIZES["gpu_features"]),
            gpu_mask=gpu_mask,
            x_server=torch.randn(parts, servers, SIZES["server_features"]),
            server_mask=server_mask,
            server_rack=torch.randint(0, racks, (parts, servers)),
            num_racks=racks,
        )

    return make


@pytest.fixture
def regular(irregular: MakeBatch) -> ClusterBatch:
    """Two partitions of 2 x 2 servers of 4 GPUs without padding."""
    batch = irregular(parts=2, servers=4, racks=2)
    batch.gpu_mask[:] = batch.server_mask[:] = True
    return batch._replace(server_rack=(torch.arange(4) // 2).expand(2, -1))
