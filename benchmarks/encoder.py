"""Milliseconds of the encoder on one thread: acting, learning, and one touched server.

Run: `python benchmarks/encoder.py`. The dense path and PyG's HeteroConv are the references.
"""

import sys
import time
from collections.abc import Callable

import torch

from gnn.batch import ClusterBatch
from gnn.dense import DenseTree
from gnn.encoder import HierarchicalEncoder
from gnn.hetero import HeteroEncoder
from gnn.incremental import IncrementalEncoder
from gnn.scatter import ScatterTree

GPU_FEATURES, SERVER_FEATURES = 8, 8
REPEATS = 7


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
    }
    out = {}
    for name, encode in ways.items():
        with torch.no_grad():
            out[f"{name} forward"] = best_ms(encode)
        out[f"{name} forward+backward"] = best_ms(learn(encode))
    return out


def incremental_ms(encoder: HierarchicalEncoder, servers: int) -> tuple[float, float]:
    """Milliseconds to change one server and embed sixteen candidates; the same by a full pass."""
    batch = regular_batch(1, servers, 8, servers // 16)
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
    for servers in (128, 1024, 8192):
        once, full = incremental_ms(encoder, servers)
        sys.stdout.write(f"{servers} servers, 1 changed: {once:.3f} ms, full {full:.3f} ms\n")


if __name__ == "__main__":
    main()
