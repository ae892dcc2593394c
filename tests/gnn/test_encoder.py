"""The default encoder: symmetric, blind to padding, trainable, the same at every size."""

import io

import pytest
import torch
from torch import Tensor

from gnn.batch import ClusterBatch, Embeddings
from gnn.encoder import HierarchicalEncoder
from gnn.scatter import ScatterTree
from gnn.sweep import Sweep

ROUNDS = pytest.mark.parametrize("rounds", [1, 2])


def assert_same(got: Embeddings, want: Embeddings) -> None:
    torch.testing.assert_close(tuple(got), tuple(want), rtol=1e-5, atol=1e-5)


def reorder_servers(batch: ClusterBatch, order: Tensor) -> ClusterBatch:
    return batch._replace(
        x_gpu=batch.x_gpu[:, order],
        gpu_mask=batch.gpu_mask[:, order],
        x_server=batch.x_server[:, order],
        server_mask=batch.server_mask[:, order],
        server_rack=batch.server_rack[:, order],
    )


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
def test_permuting_servers_permutes_their_rows_only(rounds, make_encoder, irregular) -> None:
    encoder, batch = make_encoder(rounds), irregular()
    order = torch.randperm(7)
    want, got = encoder(batch), encoder(reorder_servers(batch, order))
    assert_same(got, want._replace(server=want.server[:, order]))


def test_permuting_racks_permutes_their_rows_only(make_encoder, irregular) -> None:
    encoder, batch = make_encoder(), irregular()
    order = torch.tensor([2, 0, 1])  # new rack r is old rack order[r]
    got = encoder(batch._replace(server_rack=order.argsort()[batch.server_rack]))
    want = encoder(batch)
    assert_same(got, want._replace(rack=want.rack[:, order]))


def test_permuting_gpus_changes_nothing(make_encoder, irregular) -> None:
    encoder, batch = make_encoder(), irregular()
    order = torch.randperm(4)
    permuted = batch._replace(x_gpu=batch.x_gpu[:, :, order], gpu_mask=batch.gpu_mask[:, :, order])
    assert_same(encoder(permuted), encoder(batch))


def test_permuting_partitions_permutes_them(make_encoder, irregular) -> None:
    encoder, batch = make_encoder(), irregular()
    order = torch.tensor([2, 0, 1])
    got = encoder(ClusterBatch(*(t[order] for t in batch[:5]), num_racks=batch.num_racks))
    assert_same(got, Embeddings(*(t[order] for t in encoder(batch))))


@pytest.mark.parametrize("rubbish", [7.0, float("nan"), float("inf")])
def test_values_in_padding_reach_neither_output_nor_gradient(
    rubbish, make_encoder, irregular
) -> None:
    encoder, clean = make_encoder(), irregular(empty=True)
    gpu_pad = ~(clean.gpu_mask & clean.server_mask.unsqueeze(2))
    dirty = clean._replace(
        x_gpu=clean.x_gpu.masked_fill(gpu_pad.unsqueeze(3), rubbish),
        gpu_mask=clean.gpu_mask | ~clean.server_mask.unsqueeze(2),
        x_server=clean.x_server.masked_fill(~clean.server_mask.unsqueeze(2), rubbish),
        server_rack=clean.server_rack.masked_fill(~clean.server_mask, -9),
    )
    outcomes = []
    for batch in (clean, dirty):
        encoder.zero_grad()
        out = encoder(batch)
        sum(level.square().sum() for level in out).backward()
        outcomes.append((*out, *(p.grad.clone() for p in encoder.parameters())))
    torch.testing.assert_close(outcomes[1], outcomes[0])


def test_more_padding_changes_nothing(make_encoder, irregular) -> None:
    encoder, batch = make_encoder(2), irregular()
    pad = torch.nn.functional.pad
    wide = ClusterBatch(
        x_gpu=pad(batch.x_gpu, (0, 0, 0, 2, 0, 3), value=5.0),
        gpu_mask=pad(batch.gpu_mask, (0, 2, 0, 3)),
        x_server=pad(batch.x_server, (0, 0, 0, 3), value=5.0),
        server_mask=pad(batch.server_mask, (0, 3)),
        server_rack=pad(batch.server_rack, (0, 3)),
        num_racks=batch.num_racks + 2,
    )
    got = encoder(wide)
    assert_same(Embeddings(got.server[:, :7], got.rack[:, :3], got.cluster), encoder(batch))
    assert not got.server[:, 7:].any()
    assert not got.rack[:, 3:].any()


def test_rows_of_padding_are_zero_and_others_are_not(make_encoder, irregular) -> None:
    batch = irregular(empty=True)
    out = make_encoder()(batch)
    assert torch.equal(out.server.any(-1), batch.server_mask)
    assert out.cluster.any(-1).tolist() == [True, True, False]
    present = torch.zeros(3, 3, dtype=torch.bool)
    for part, server in batch.server_mask.nonzero().tolist():
        present[part, batch.server_rack[part, server]] = True
    assert torch.equal(out.rack.any(-1), present)


def test_a_batch_without_any_server_is_zero_and_trains_finite(make_encoder, irregular) -> None:
    batch = irregular()
    encoder = make_encoder()
    out = encoder(batch._replace(server_mask=torch.zeros_like(batch.server_mask)))
    sum(level.sum() for level in out).backward()
    assert not any(level.any() for level in out)
    assert all(p.grad is None or p.grad.isfinite().all() for p in encoder.parameters())


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


def test_reset_draws_every_weight_anew(make_encoder) -> None:
    encoder = make_encoder(2)
    with torch.no_grad():
        for weight in encoder.parameters():
            weight.fill_(9.0)
    encoder.reset_parameters()
    assert all((weight != 9.0).all() for weight in encoder.parameters())


@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (2, 16, 8, 4), (5, 3, 2, 1)])
def test_one_set_of_weights_serves_every_size(shape, make_encoder, irregular) -> None:
    parts, servers, gpus, racks = shape
    out = make_encoder()(irregular(parts, servers, gpus, racks))
    assert out.server.shape == (parts, servers, 8)
    assert out.rack.shape == (parts, racks, 8)
    assert out.cluster.shape == (parts, 8)


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


def test_a_wrong_width_is_named(make_encoder, irregular) -> None:
    batch = irregular()
    with pytest.raises(ValueError, match=r"5 GPU and 3 server features.*server_features=4"):
        make_encoder()(batch._replace(x_server=batch.x_server[..., :3]))


def test_a_size_below_one_is_named() -> None:
    with pytest.raises(ValueError, match=r"encoder\.rounds is 0"):
        HierarchicalEncoder(gpu_features=1, server_features=1, gpu_dim=1, hidden_dim=1, rounds=0)
