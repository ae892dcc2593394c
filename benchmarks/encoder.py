"""Milliseconds of the encoder on one thread: acting, learning, and one touched server.

    PYTHONPATH=. python benchmarks/encoder.py

The dense path, PyG's HeteroConv and a floor are the references: the floor is the same network on
the same numbers as bare reshapes and products, without masks, edges or modules.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from gnn.base import ClusterBatch, ScatterTree
from gnn.encoder import HierarchicalEncoder
from tests.gnn.dense import DenseTree
from tests.gnn.hetero import HeteroEncoder
from tests.gnn.incremental import IncrementalEncoder

GPU_FEATURES, SERVER_FEATURES = 8, 8
REPEATS = 7
LARGE = 12_500  # servers of 8 GPUs


def best_ms(call: Callable[[], object], budget_s: float = 0.2) -> float:
    """Least of `REPEATS` mean times of a call, in milliseconds: the one least disturbed."""
    call()
    start_s = time.perf_counter()
    call()
    calls = max(1, int(budget_s / (time.perf_counter() - start_s)))
    means = []
    for _ in range(REPEATS):
        start_s = time.perf_counter()
        for _ in range(calls):
            call()
        means.append((time.perf_counter() - start_s) / calls * 1e3)
    return min(means)


def regular_batch(parts: int, servers: int, gpus: int, racks: int) -> ClusterBatch:
    """Random features of equal partitions without padding."""
    return ClusterBatch(
        x_gpu=torch.randn(parts, servers, gpus, GPU_FEATURES),
        gpu_mask=torch.ones(parts, servers, gpus, dtype=torch.bool),
        x_server=torch.randn(parts, servers, SERVER_FEATURES),
        server_mask=torch.ones(parts, servers, dtype=torch.bool),
        server_rack=(torch.arange(servers) // (servers // racks)).expand(parts, -1).contiguous(),
        num_racks=racks,
    )


def floor(encoder: HierarchicalEncoder, batch: ClusterBatch) -> tuple[Tensor, Tensor, Tensor]:
    """What `encoder` gives for a regular batch: servers (B, S, H), racks (B, R, H), (B, H)."""
    parts, racks = batch.server_mask.shape[0], batch.num_racks
    sweep = encoder.sweeps[0]

    def step(update: Any, own: Tensor | None, neighbour: Tensor) -> Tensor:
        message = F.linear(neighbour, update.neighbour.weight, update.neighbour.bias)
        return torch.relu(message if own is None else message + F.linear(own, update.own.weight))

    gpu = torch.relu(F.linear(batch.x_gpu, encoder.gpu.weight, encoder.gpu.bias)).mean(2)
    server = step(sweep.server_up, batch.x_server, gpu).view(parts, racks, -1, encoder.hidden_dim)
    rack = step(sweep.rack_up, None, server.mean(2))
    cluster = step(sweep.cluster_up, None, rack.mean(1))
    rack = step(sweep.rack_down, rack, cluster.unsqueeze(1))
    server = step(sweep.server_down, server, rack.unsqueeze(2)).flatten(1, 2)
    return encoder.server_norm(server), encoder.rack_norm(rack), encoder.cluster_norm(cluster)


def timings(encoder: HierarchicalEncoder, batch: ClusterBatch) -> dict[str, float]:
    """Milliseconds of every way to encode `batch`."""
    scatter, dense, hetero = ScatterTree.of(batch), DenseTree.of(batch), HeteroEncoder(encoder)

    def learn(encode: Callable[[], tuple[torch.Tensor, ...]]) -> Callable[[], None]:
        def step() -> None:
            encoder.zero_grad()
            hetero.zero_grad()
            torch.stack([level.square().mean() for level in encode()]).sum().backward()

        return step

    ways: dict[str, Callable[[], tuple[torch.Tensor, ...]]] = {
        "scatter": lambda: encoder(batch),
        "scatter, tree kept": lambda: encoder(batch, scatter),
        "dense": lambda: encoder(batch, dense),
        "HeteroConv": lambda: hetero(batch),
        "floor": lambda: floor(encoder, batch),
    }
    out = {}
    for name, encode in ways.items():
        with torch.no_grad():
            out[f"{name} forward"] = best_ms(encode)
        out[f"{name} forward+backward"] = best_ms(learn(encode))
    return out


def incremental_ms(encoder: HierarchicalEncoder, servers: int, racks: int) -> tuple[float, float]:
    """Milliseconds to change one server and embed sixteen candidates; the same by a full pass."""
    batch = regular_batch(1, servers, 8, racks)
    cache = IncrementalEncoder(encoder)
    cache.reset(batch)
    row, candidates = torch.tensor([3]), torch.arange(16)

    def step() -> None:
        cache.update(row, batch.x_gpu[0, row], batch.x_server[0, row])
        cache.servers(candidates)

    with torch.no_grad():
        return best_ms(step), best_ms(lambda: encoder(batch))


def main() -> None:
    """Print one line a case."""
    torch.set_num_threads(1)
    encoder = HierarchicalEncoder(
        gpu_features=GPU_FEATURES,
        server_features=SERVER_FEATURES,
        gpu_dim=16,
        hidden_dim=64,
        rounds=1,
    )
    for shape in ((8, 4, 8, 1), (32, 16, 8, 2), (1024, 4, 8, 1), (1024, 16, 8, 2)):
        batch = regular_batch(*shape)
        for name, ms in timings(encoder, batch).items():
            sys.stdout.write(f"B,S,K,R={shape} {name}: {ms:.3f} ms\n")
    batch = regular_batch(1, LARGE, 8, LARGE // 25)
    with torch.no_grad():
        for ours, bare in zip(encoder(batch), floor(encoder, batch), strict=True):
            torch.testing.assert_close(ours, bare, atol=1e-4, rtol=1e-4)
    found = timings(encoder, batch)
    for name, ms in found.items():
        over = ms / found["floor " + name.rpartition(" ")[2]]
        sys.stdout.write(f"{LARGE * 8:,} GPUs {name}: {ms:.2f} ms, {over:.2f} of the floor\n")
    for servers, racks in ((128, 8), (1024, 64), (LARGE, LARGE // 25)):
        once, full = incremental_ms(encoder, servers, racks)
        sys.stdout.write(f"{servers} servers, 1 changed: {once:.3f} ms, full {full:.3f} ms\n")


if __name__ == "__main__":
    main()
