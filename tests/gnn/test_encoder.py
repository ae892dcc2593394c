"""What the default encoder does beyond the contract of all: PyG's equations, its reach."""

import pytest
import torch

from gnn.base import Embeddings
from tests.gnn.hetero import HeteroEncoder, to_hetero
from tests.gnn.test_contract import assert_same


@pytest.mark.parametrize("rounds", [1, 2])
@pytest.mark.parametrize("level", ["server", "rack", "cluster"])
def test_gradients_reach_every_parameter_before_the_level(level, rounds, make_encoder, irregular):
    encoder = make_encoder(rounds)
    (getattr(encoder(irregular(parts=8)), level) * torch.randn(8)).sum().backward()
    unused = {"rack": {"server_down"}, "cluster": {"server_down", "rack_down"}}.get(level, set())
    for name, weight in encoder.named_parameters():
        other_norm = "_norm" in name and not name.startswith(level)
        after = f"sweeps.{rounds - 1}" in name and any(step in name for step in unused)
        reached = weight.grad is not None and bool(weight.grad.any())
        assert reached != (other_norm or after), name


def test_one_gpu_reaches_every_server_of_its_partition_and_no_other(make_encoder, regular) -> None:
    encoder, heard = make_encoder(), []
    regular.x_gpu.requires_grad_()
    for server in range(4):
        out = encoder(regular).server[0, server] @ torch.randn(8)
        (grad,) = torch.autograd.grad(out, regular.x_gpu)
        heard.append(grad.flatten(1).any(1).tolist())
    assert heard == [[True, False]] * 4


def in_doubles(batch):
    return batch._replace(x_gpu=batch.x_gpu.double(), x_server=batch.x_server.double())


def test_works_in_double_precision(make_encoder, irregular) -> None:
    encoder, batch = make_encoder(), irregular()
    want = encoder(batch)
    got = encoder.double()(in_doubles(batch))
    assert got.server.dtype == torch.float64
    assert_same(Embeddings(*(level.float() for level in got)), want)


@pytest.mark.parametrize("rack", [-1, 3])
def test_a_rack_out_of_range_is_named(rack, make_encoder, irregular) -> None:
    batch = irregular()
    batch.server_rack[1, 0] = rack
    with pytest.raises(ValueError, match=rf"server_rack\[1, 0\] is {rack} but num_racks is 3"):
        make_encoder()(batch)


@pytest.mark.parametrize("rounds", [1, 3])
def test_equals_pygs_operators_on_irregular_trees_forward_and_backward(
    rounds, make_encoder, irregular
) -> None:
    encoder, batch = make_encoder(rounds).double(), in_doubles(irregular(parts=5, empty=True))
    outcomes = []
    for model in (encoder, HeteroEncoder(encoder).double()):
        batch.x_gpu.requires_grad_()
        out = model(batch)
        loss = sum((level.square() * torch.arange(8.0)).sum() for level in out)
        outcomes.append((*out, *torch.autograd.grad(loss, batch.x_gpu)))
    torch.testing.assert_close(outcomes[1], outcomes[0])


def test_the_graph_holds_real_nodes_and_their_edges_in_any_order(make_encoder, irregular) -> None:
    batch = irregular(empty=True)
    data = to_hetero(batch, hidden_dim=8)
    gpus = int((batch.gpu_mask & batch.server_mask.unsqueeze(2)).sum())
    servers = int(batch.server_mask.sum())
    assert data["gpu"].num_nodes == data["gpu", "in", "server"].num_edges == gpus
    assert data["server"].num_nodes == data["server", "in", "rack"].num_edges == servers
    assert data["cluster"].num_nodes == 2
    assert data.validate()
    reference = HeteroEncoder(make_encoder())
    want = reference.encode(data)
    for edge in data.edge_types:
        edges = data[edge].edge_index
        data[edge].edge_index = edges[:, torch.randperm(edges.shape[1])]
    torch.testing.assert_close(reference.encode(data), want, rtol=1e-5, atol=1e-5)
