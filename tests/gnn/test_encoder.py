"""Beyond the contract of all encoders: PyG's equations, reach, and messages along links."""

import pytest
import torch
from torch import nn
from torch_geometric.nn import GINEConv

from gnn.base import ClusterBatch, Embeddings, Links, ScatterTree
from gnn.linked import EdgeUpdate, LinkedEncoder
from tests.gnn.conftest import SIZES
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


NVLINK = 3  # edge of the ring below between GPUs 0 and 2


@pytest.fixture
def encoder() -> LinkedEncoder:
    return LinkedEncoder(**SIZES, edge_features=2, link_features=3, rounds=1, inner_rounds=1)


@pytest.fixture
def batch(regular) -> ClusterBatch:
    """Two partitions of 2 x 2 servers: GPUs 0, 1 below hub 4, GPUs 2, 3 below hub 5, one NVLink."""
    ends = torch.tensor([[0, 4], [1, 4], [2, 5], [0, 2], [3, 5], [4, 5], [-1, -1]])
    ends = ends.expand(2, 4, -1, -1).clone()
    return regular._replace(links=Links(ends, torch.randn(2, 4, 7, 2), 2, torch.randn(2, 4, 3)))


def reference(update: EdgeUpdate, state, edge_index, x_edge):
    """The same step by PyG's GINE, which has a sum where ours has a mean, and no own term."""
    as_it_is = nn.Linear(state.shape[1], state.shape[1], bias=False)
    gine = GINEConv(as_it_is, eps=-1.0, edge_dim=x_edge.shape[1], aggr="mean")
    nn.init.eye_(as_it_is.weight)
    gine.lin = update.of_edge
    heard = gine(update.of_node(state), edge_index, x_edge)
    return torch.relu(update.own(state) + heard)


def test_an_update_equals_pygs_operator() -> None:
    update = EdgeUpdate(own_dim=4, edge_dim=3, out_dim=4)
    state, x_edge = torch.randn(9, 4), torch.randn(20, 3)
    edge_index = torch.randint(0, 9, (2, 20))
    got = update(state, edge_index, x_edge)
    torch.testing.assert_close(got, reference(update, state, edge_index, x_edge))


def read_servers(encoder: LinkedEncoder, batch: ClusterBatch) -> torch.Tensor:
    """(B, S, 2 * gpu_dim) what the graphs inside say, before servers hear of each other."""
    links, edges = encoder._checked(batch), ScatterTree.of(batch)
    x_gpu, _ = edges.inputs(batch)
    read = encoder._read_out(encoder._states(x_gpu, batch, links, edges), edges)
    return read.view(*batch.server_mask.shape, -1)


def test_follows_the_equations_node_by_node(encoder, batch) -> None:
    (update,) = encoder.inside
    with torch.no_grad():
        got = read_servers(encoder, batch)[1, 2]
        x = torch.relu(encoder.gpu(batch.x_gpu[1, 2]))
        state = [*x, torch.zeros(6), torch.zeros(6)]
        heard = {node: [] for node in range(6)}
        edges = zip(batch.links.edge_ends[1, 2].tolist(), batch.links.x_edge[1, 2], strict=True)
        for (one, two), edge in edges:
            for start, end in ((one, two), (two, one)):
                if start >= 0:
                    message = update.of_node.weight @ state[start] + update.of_edge(edge)
                    heard[end].append(torch.relu(message))
        after = [
            torch.relu(update.own(state[gpu]) + torch.stack(heard[gpu]).mean(0)) for gpu in range(4)
        ]
        want = torch.cat([torch.stack(after).mean(0), torch.stack(after).amax(0)])
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-6)


def test_a_changed_nvlink_is_read_in_its_server_alone(encoder, batch) -> None:
    links = batch.links._replace(x_edge=batch.links.x_edge.clone())
    links.x_edge[0, 1, NVLINK] += 3.0
    changed = batch._replace(links=links)
    read = read_servers(encoder, changed) != read_servers(encoder, batch)
    assert read.any(-1).nonzero().tolist() == [[0, 1]]
    # By way of racks and cluster the other servers of the partition hear of it, no other partition.
    moved = (encoder(changed).server != encoder(batch).server).any(-1)
    assert moved.tolist() == [[True] * 4, [False] * 4]


def test_one_update_carries_a_gpu_along_its_own_edges_only(encoder, batch) -> None:
    x_gpu = batch.x_gpu.clone().requires_grad_()
    links = batch.links
    edges_of = {0: {0, 2}, 1: {1}, 2: {0, 2}, 3: {3}}  # GPUs one step away, itself included
    seen = batch._replace(x_gpu=x_gpu)
    states = encoder._states(x_gpu.flatten(0, 1), seen, links, ScatterTree.of(seen))
    for gpu, near in edges_of.items():
        out = states[3, gpu] @ torch.randn(6)
        (grad,) = torch.autograd.grad(out, x_gpu, retain_graph=True)
        heard = {(p, s, k) for p, s, k in grad.any(-1).nonzero().tolist()}
        assert heard <= {(0, 3, k) for k in near}
        assert (0, 3, gpu) in heard


def test_the_order_and_the_direction_of_edges_do_not_matter(encoder, batch) -> None:
    order = torch.randperm(7)
    links = batch.links._replace(
        edge_ends=batch.links.edge_ends[:, :, order].flip(-1),
        x_edge=batch.links.x_edge[:, :, order],
    )
    assert_same(encoder(batch._replace(links=links)), encoder(batch))


def test_an_edge_to_a_gpu_that_is_not_there_is_none(encoder, batch) -> None:
    gone = batch.gpu_mask.clone()
    gone[:, :, 2] = False
    without = batch.links.edge_ends.clone()
    without[(without == 2).any(-1)] = -1
    want = encoder(batch._replace(gpu_mask=gone, links=batch.links._replace(edge_ends=without)))
    assert_same(encoder(batch._replace(gpu_mask=gone)), want)


def test_a_load_of_a_link_reaches_its_servers_embedding(encoder, batch) -> None:
    links = batch.links._replace(x_link=batch.links.x_link.clone())
    links.x_link[0, 1] += 1.0
    got = encoder(batch._replace(links=links))
    assert not torch.equal(got.server[0, 1], encoder(batch).server[0, 1])
    assert torch.equal(got.server[1], encoder(batch).server[1])


def test_a_batch_without_links_or_of_another_width_is_refused(encoder, batch) -> None:
    with pytest.raises(ValueError, match="the batch has no links"):
        encoder(batch._replace(links=None))
    links = batch.links._replace(x_link=batch.links.x_link[..., :2])
    with pytest.raises(ValueError, match=r"2 edge and 2 link features.*link_features=3"):
        encoder(batch._replace(links=links))


def test_fewer_than_one_update_inside_is_named() -> None:
    with pytest.raises(ValueError, match=r"encoder\.inner_rounds is 0"):
        LinkedEncoder(**SIZES, edge_features=2, link_features=3, rounds=1, inner_rounds=0)
