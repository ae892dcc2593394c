"""What the default encoder does beyond the contract of all: PyG's equations, its reach."""

import pytest
import torch

from gnn.base import Embeddings, ScatterTree
from tests.gnn.dense import DenseTree
from tests.gnn.hetero import HeteroEncoder, to_hetero
from tests.gnn.incremental import IncrementalEncoder
from tests.gnn.test_contract import assert_same

ROUNDS = pytest.mark.parametrize("rounds", [1, 2])


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


@ROUNDS
@pytest.mark.parametrize("racks", [1, 2])
def test_equals_the_scatter_path_forward_and_backward(rounds, racks, make_encoder, regular) -> None:
    encoder, batch = make_encoder(rounds).double(), regular(racks=racks)
    batch = batch._replace(x_gpu=batch.x_gpu.double(), x_server=batch.x_server.double())
    outcomes = []
    for tree in (None, DenseTree.of(batch)):
        encoder.zero_grad()
        out = encoder(batch, tree)
        sum((level.square() * torch.arange(8.0)).sum() for level in out).backward()
        outcomes.append((*out, *(p.grad.clone() for p in encoder.parameters())))
    torch.testing.assert_close(outcomes[1], outcomes[0])


@pytest.mark.parametrize("rounds", [1, 3])
def test_equals_the_encoder_on_irregular_trees(rounds, make_encoder, irregular) -> None:
    encoder, batch = make_encoder(rounds), irregular(parts=5, empty=True)
    want, got = encoder(batch), HeteroEncoder(encoder)(batch)
    assert_same(got, want)


def test_the_order_of_edges_does_not_matter(make_encoder, irregular) -> None:
    reference, batch = HeteroEncoder(make_encoder()), irregular()
    data = to_hetero(batch, hidden_dim=8)
    want = reference.encode(data)
    for edge in data.edge_types:
        edges = data[edge].edge_index
        data[edge].edge_index = edges[:, torch.randperm(edges.shape[1])]
    torch.testing.assert_close(reference.encode(data), want, rtol=1e-5, atol=1e-5)


def test_the_graph_holds_real_nodes_and_their_edges(irregular) -> None:
    batch = irregular(empty=True)
    data = to_hetero(batch, hidden_dim=8)
    gpus = int((batch.gpu_mask & batch.server_mask.unsqueeze(2)).sum())
    servers = int(batch.server_mask.sum())
    assert data["gpu"].num_nodes == data["gpu", "in", "server"].num_edges == gpus
    assert data["server"].num_nodes == data["server", "in", "rack"].num_edges == servers
    assert data["cluster"].num_nodes == 2
    assert data.validate()


def dirty_rows(batch, count):
    real = batch.server_mask.flatten().nonzero().squeeze(1)
    return real[torch.randperm(len(real))[:count]]


def change(batch, rows):
    """New features for the servers in `rows` (NaN for absent GPUs), and the batch that has them."""
    x_gpu, x_server = batch.x_gpu.flatten(0, 1).clone(), batch.x_server.flatten(0, 1).clone()
    x_gpu[rows], x_server[rows] = torch.randn_like(x_gpu[rows]), torch.randn_like(x_server[rows])
    x_gpu[~batch.gpu_mask.flatten(0, 1)] = float("nan")
    changed = batch._replace(
        x_gpu=x_gpu.view_as(batch.x_gpu), x_server=x_server.view_as(batch.x_server)
    )
    return changed, x_gpu[rows], x_server[rows]


def test_equals_a_full_pass_after_many_changes(make_encoder, irregular) -> None:
    encoder, batch = make_encoder(), irregular(empty=True)
    cache = IncrementalEncoder(encoder)
    cache.reset(batch)
    for step in range(200):
        rows = dirty_rows(batch, step % 5)
        batch, x_gpu, x_server = change(batch, rows)
        cache.update(rows, x_gpu, x_server)
    want, got = encoder(batch), cache.encode()
    assert_same(got, want)
    rows = torch.tensor([5, 0, 6])
    torch.testing.assert_close(
        cache.servers(rows), want.server.flatten(0, 1)[rows], rtol=1e-5, atol=1e-5
    )


def test_a_change_reaches_servers_that_were_not_touched(make_encoder, regular) -> None:
    encoder, batch = make_encoder(), regular(parts=1)
    cache = IncrementalEncoder(encoder)
    cache.reset(batch)
    before = cache.encode()
    _, x_gpu, x_server = change(batch, torch.tensor([0]))
    cache.update(torch.tensor([0]), 5 * x_gpu, x_server)
    assert not torch.equal(cache.encode().server[0, 5], before.server[0, 5])
