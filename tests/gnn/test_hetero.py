"""The fast encoder against the same network written with PyG's HeteroConv and SAGEConv."""

import pytest
import torch

from tests.gnn.hetero import HeteroEncoder, to_hetero


@pytest.mark.parametrize("rounds", [1, 3])
def test_equals_the_encoder_on_irregular_trees(rounds, make_encoder, irregular) -> None:
    encoder, batch = make_encoder(rounds), irregular(parts=5, empty=True)
    want, got = encoder(batch), HeteroEncoder(encoder)(batch)
    torch.testing.assert_close(tuple(got), tuple(want), rtol=1e-5, atol=1e-5)


def test_equals_the_encoder_on_regular_trees(make_encoder, regular) -> None:
    encoder, batch = make_encoder(), regular()
    want, got = encoder(batch), HeteroEncoder(encoder)(batch)
    torch.testing.assert_close(tuple(got), tuple(want), rtol=1e-5, atol=1e-5)


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
