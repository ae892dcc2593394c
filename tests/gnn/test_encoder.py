"""What the default encoder does beyond the contract of all: its equations, its reach."""

import io

import pytest
import torch

from gnn.base import ClusterBatch, Embeddings, Sweep
from gnn.encoder import HierarchicalEncoder, ScatterTree

ROUNDS = pytest.mark.parametrize("rounds", [1, 2])


def assert_same(got: Embeddings, want: Embeddings) -> None:
    torch.testing.assert_close(tuple(got), tuple(want), rtol=1e-5, atol=1e-5)


def hand_encode(encoder: HierarchicalEncoder, batch: ClusterBatch) -> Embeddings:
    """The equations of the first sweep, one partition, one node at a time."""
    sweep = encoder.sweeps[0]
    assert isinstance(sweep, Sweep)

    def step(update, own, neighbours):
        mean = torch.stack(neighbours).mean(0) if neighbours else None
        out = update.neighbour.bias.clone()
        if mean is not None:
            out = out + update.neighbour.weight @ mean
        return torch.relu(out if own is None else out + update.own.weight @ own)

    gpus = torch.relu(encoder.gpu(batch.x_gpu[0]))
    real = [s for s in range(batch.x_server.shape[1]) if batch.server_mask[0, s]]
    rack_of = {s: int(batch.server_rack[0, s]) for s in real}
    server = {
        s: step(sweep.server_up, batch.x_server[0, s], list(gpus[s][batch.gpu_mask[0, s]]))
        for s in real
    }
    members = {r: [server[s] for s in real if rack_of[s] == r] for r in sorted(rack_of.values())}
    rack = {r: step(sweep.rack_up, None, rows) for r, rows in members.items()}
    cluster = step(sweep.cluster_up, None, list(rack.values()))
    rack = {r: step(sweep.rack_down, row, [cluster]) for r, row in rack.items()}
    server = {s: step(sweep.server_down, row, [rack[rack_of[s]]]) for s, row in server.items()}
    out = Embeddings(
        torch.zeros(1, batch.x_server.shape[1], 8),
        torch.zeros(1, batch.num_racks, 8),
        encoder.cluster_norm(cluster).unsqueeze(0),
    )
    for s, row in server.items():
        out.server[0, s] = encoder.server_norm(row)
    for r, row in rack.items():
        out.rack[0, r] = encoder.rack_norm(row)
    return out


def test_follows_the_equations_node_by_node(make_encoder, irregular) -> None:
    encoder, batch = make_encoder(), irregular(parts=1)
    with torch.no_grad():
        assert_same(encoder(batch), hand_encode(encoder, batch))


@ROUNDS
@pytest.mark.parametrize("level", ["server", "rack", "cluster"])
def test_gradients_reach_every_parameter_before_the_level(
    level, rounds, make_encoder, irregular
) -> None:
    encoder = make_encoder(rounds)
    (getattr(encoder(irregular(parts=8)), level) * torch.randn(8)).sum().backward()
    unused = {"rack": {"server_down"}, "cluster": {"server_down", "rack_down"}}.get(level, set())
    for name, weight in encoder.named_parameters():
        other_norm = "_norm" in name and not name.startswith(level)
        after = f"sweeps.{rounds - 1}" in name and any(step in name for step in unused)
        reached = weight.grad is not None and bool(weight.grad.any())
        assert reached != (other_norm or after), name


def test_one_gpu_reaches_every_server_of_its_partition_and_no_other(make_encoder, regular) -> None:
    encoder, batch = make_encoder(), regular(parts=2, racks=2, per_rack=2)
    batch.x_gpu.requires_grad_()
    heard = []
    for server in range(4):
        out = encoder(batch).server[0, server] @ torch.randn(8)
        (grad,) = torch.autograd.grad(out, batch.x_gpu)
        heard.append(grad.flatten(1).any(1).tolist())
    assert heard == [[True, False]] * 4


def test_saved_weights_give_equal_outputs(make_encoder, irregular) -> None:
    first, batch = make_encoder(2), irregular()
    second = make_encoder(2)
    assert not torch.equal(first(batch).cluster, second(batch).cluster)
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    file.seek(0)
    second.load_state_dict(torch.load(file, weights_only=True))
    assert all(torch.equal(a, b) for a, b in zip(first(batch), second(batch), strict=True))


def test_a_tree_read_once_serves_later_batches(make_encoder, irregular) -> None:
    encoder, batch = make_encoder(), irregular()
    later = batch._replace(x_gpu=torch.randn_like(batch.x_gpu))
    assert_same(encoder(later, ScatterTree.of(batch)), encoder(later))


def test_works_in_double_precision(make_encoder, irregular) -> None:
    batch = irregular()
    encoder = make_encoder()
    want = encoder(batch)
    got = encoder.double()(
        batch._replace(x_gpu=batch.x_gpu.double(), x_server=batch.x_server.double())
    )
    assert got.server.dtype == torch.float64
    assert_same(Embeddings(*(level.float() for level in got)), want)


@pytest.mark.parametrize("rack", [-1, 3])
def test_a_rack_out_of_range_is_named(rack, make_encoder, irregular) -> None:
    batch = irregular()
    batch.server_rack[1, 0] = rack
    with pytest.raises(ValueError, match=rf"server_rack\[1, 0\] is {rack} but num_racks is 3"):
        make_encoder()(batch)
