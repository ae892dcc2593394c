"""Small random partitions of every shape, and small encoders for them."""

from collections.abc import Callable

import pytest
import torch

from gnn.base import ClusterBatch
from gnn.encoder import HierarchicalEncoder

GPU_FEATURES, SERVER_FEATURES = 5, 4
MakeBatch = Callable[..., ClusterBatch]
MakeEncoder = Callable[..., HierarchicalEncoder]


@pytest.fixture(autouse=True)
def one_thread_and_seed() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)


@pytest.fixture
def make_encoder() -> MakeEncoder:
    def make(rounds: int = 1) -> HierarchicalEncoder:
        return HierarchicalEncoder(
            gpu_features=GPU_FEATURES,
            server_features=SERVER_FEATURES,
            gpu_dim=6,
            hidden_dim=8,
            rounds=rounds,
        )

    return make


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
            x_gpu=torch.randn(parts, servers, gpus, GPU_FEATURES),
            gpu_mask=gpu_mask,
            x_server=torch.randn(parts, servers, SERVER_FEATURES),
            server_mask=server_mask,
            server_rack=torch.randint(0, racks, (parts, servers)),
            num_racks=racks,
        )

    return make


@pytest.fixture
def regular() -> MakeBatch:
    """Partitions with equal servers in equal racks and no padding."""

    def make(parts: int = 3, racks: int = 2, per_rack: int = 3, gpus: int = 4) -> ClusterBatch:
        servers = racks * per_rack
        return ClusterBatch(
            x_gpu=torch.randn(parts, servers, gpus, GPU_FEATURES),
            gpu_mask=torch.ones(parts, servers, gpus, dtype=torch.bool),
            x_server=torch.randn(parts, servers, SERVER_FEATURES),
            server_mask=torch.ones(parts, servers, dtype=torch.bool),
            server_rack=(torch.arange(servers) // per_rack).expand(parts, -1),
            num_racks=racks,
        )

    return make
