"""The encoder of links: its messages against PyG's, and how far a change of an edge reaches."""

import pytest
import torch
from torch import nn
from torch_geometric.nn import GINEConv

from gnn.base import ClusterBatch, Links, ScatterTree
from gnn.linked import EdgeUpdate, LinkedEncoder
from tests.gnn.conftest import SIZES
from tests.gnn.test_contract import assert_same

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
