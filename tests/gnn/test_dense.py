"""The dense path: same weights, same embeddings, regular trees only."""

import pytest
import torch

from tests.gnn.dense import DenseTree


@pytest.mark.parametrize("rounds", [1, 2])
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


def test_equals_the_scatter_path_in_single_precision(make_encoder, regular) -> None:
    encoder, batch = make_encoder(), regular()
    got, want = encoder(batch, DenseTree.of(batch)), encoder(batch)
    torch.testing.assert_close(tuple(got), tuple(want), rtol=1e-5, atol=1e-5)


def test_padding_is_refused(irregular) -> None:
    with pytest.raises(ValueError, match="padding rows"):
        DenseTree.of(irregular())


def test_unequal_racks_are_refused(regular) -> None:
    batch = regular(racks=2, per_rack=3)
    with pytest.raises(ValueError, match="6 servers do not divide into 4 equal racks"):
        DenseTree.of(batch._replace(num_racks=4))
    with pytest.raises(ValueError, match="not runs of 3 servers"):
        DenseTree.of(batch._replace(server_rack=batch.server_rack.flip(1)))
