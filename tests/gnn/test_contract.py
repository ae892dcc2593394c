"""What is expected of every encoder: symmetric, blind to padding, trainable, any size."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from gnn.base import ClusterBatch, Embeddings, Encoder, Links
from gnn.encoder import FlatEncoder, HierarchicalEncoder, MlpEncoder
from gnn.linked import LinkedEncoder
from tests.gnn.conftest import SIZES, MakeBatch

EDGE_FEATURES, LINK_FEATURES, HUBS = 3, 2, 2
MADE = {
    "hierarchical": lambda rounds: HierarchicalEncoder(**SIZES, rounds=rounds),
    "flat": lambda rounds: FlatEncoder(**SIZES, rounds=rounds),
    "mlp": lambda rounds: MlpEncoder(**SIZES, rounds=rounds),
    "linked": lambda rounds: LinkedEncoder(
        **SIZES, rounds=rounds, edge_features=EDGE_FEATURES, link_features=LINK_FEATURES,
        inner_rounds=2,
    ),
}  # fmt: skip


@pytest.fixture(params=[(name, rounds) for name in MADE for rounds in (1, 2)], ids=str)
def encoder(request) -> Encoder:
    name, rounds = request.param
    return MADE[name](rounds)


@pytest.fixture
def linked(irregular) -> MakeBatch:
    """Irregular partitions whose servers have random edges between GPUs and two hubs."""

    def make(*shape: int, edges: int = 6, **options) -> ClusterBatch:
        batch = irregular(*shape, **options)
        parts, servers, gpus = batch.gpu_mask.shape
        ends = torch.randint(0, gpus + HUBS, (parts, servers, edges, 2))
        ends[torch.rand(parts, servers, edges) < 0.3] = -1
        x_edge = torch.randn(parts, servers, edges, EDGE_FEATURES)
        links = Links(ends, x_edge, HUBS, torch.randn(parts, servers, LINK_FEATURES))
        return batch._replace(links=links)

    return make


def assert_same(got: Embeddings, want: Embeddings) -> None:
    torch.testing.assert_close(tuple(got), tuple(want), rtol=1e-5, atol=1e-5)


def rows(batch: ClusterBatch, pick: Callable[[Tensor], Tensor]) -> ClusterBatch:
    """The batch with every tensor replaced by `pick` of it."""
    ends, x_edge, hubs, x_link = batch.links
    links = Links(pick(ends), pick(x_edge), hubs, pick(x_link))
    return ClusterBatch(*map(pick, batch[:5]), batch.num_racks, links)


def renumbered(ends: Tensor, new: Tensor) -> Tensor:
    """Node n of each edge becomes new[n]."""
    return torch.where(ends >= 0, new[ends.clamp(min=0)], ends)


def test_permuting_servers_permutes_their_rows_only(encoder, linked) -> None:
    batch, order = linked(), torch.randperm(7)
    want, got = encoder(batch), encoder(rows(batch, lambda tensor: tensor[:, order]))
    assert_same(got, want._replace(server=want.server[:, order]))


def test_permuting_partitions_permutes_them(encoder, linked) -> None:
    batch, order = linked(), torch.tensor([2, 0, 1])
    got = encoder(rows(batch, lambda tensor: tensor[order]))
    assert_same(got, Embeddings(*(level[order] for level in encoder(batch))))


def test_permuting_racks_permutes_their_rows_only(encoder, linked) -> None:
    batch, order = linked(), torch.tensor([2, 0, 1])
    got = encoder(batch._replace(server_rack=order.argsort()[batch.server_rack]))
    want = encoder(batch)
    assert_same(got, want._replace(rack=want.rack[:, order]))


def test_permuting_gpus_changes_nothing(encoder, linked) -> None:
    batch, order = linked(), torch.randperm(4)
    new = torch.cat([order.argsort(), torch.arange(4, 4 + HUBS)])
    links = batch.links._replace(edge_ends=renumbered(batch.links.edge_ends, new))
    gpus = {key: getattr(batch, key)[:, :, order] for key in ("x_gpu", "gpu_mask")}
    assert_same(encoder(batch._replace(**gpus, links=links)), encoder(batch))


@pytest.mark.parametrize("rubbish", [7.0, float("nan"), float("inf")])
def test_values_in_padding_reach_neither_output_nor_gradient(rubbish, encoder, linked) -> None:
    clean = linked(empty=True)
    no_server = ~clean.server_mask
    gpu_pad = ~(clean.gpu_mask & clean.server_mask.unsqueeze(2))
    links = clean.links
    no_edge = (links.edge_ends < 0).any(-1) | no_server.unsqueeze(2)
    dirty = clean._replace(
        x_gpu=clean.x_gpu.masked_fill(gpu_pad.unsqueeze(3), rubbish),
        gpu_mask=clean.gpu_mask | no_server.unsqueeze(2),
        x_server=clean.x_server.masked_fill(no_server.unsqueeze(2), rubbish),
        server_rack=clean.server_rack.masked_fill(no_server, -9),
        links=links._replace(
            x_edge=links.x_edge.masked_fill(no_edge.unsqueeze(3), rubbish),
            x_link=links.x_link.masked_fill(no_server.unsqueeze(2), rubbish),
        ),
    )
    outcomes = []
    for batch in (clean, dirty):
        encoder.zero_grad()
        out = encoder(batch)
        sum(level.square().sum() for level in out).backward()
        outcomes.append((*out, *(p.grad.clone() for p in encoder.parameters())))
    torch.testing.assert_close(outcomes[1], outcomes[0])


def test_more_padding_changes_nothing(encoder, linked) -> None:
    batch, pad = linked(), torch.nn.functional.pad
    new = torch.tensor([0, 1, 2, 3, 6, 7])  # hubs come after two more GPUs
    links = batch.links
    wide = ClusterBatch(
        x_gpu=pad(batch.x_gpu, (0, 0, 0, 2, 0, 3), value=5.0),
        gpu_mask=pad(batch.gpu_mask, (0, 2, 0, 3)),
        x_server=pad(batch.x_server, (0, 0, 0, 3), value=5.0),
        server_mask=pad(batch.server_mask, (0, 3)),
        server_rack=pad(batch.server_rack, (0, 3)),
        num_racks=batch.num_racks + 2,
        links=Links(
            pad(renumbered(links.edge_ends, new), (0, 0, 0, 2, 0, 3), value=-1),
            pad(links.x_edge, (0, 0, 0, 2, 0, 3), value=5.0),
            HUBS,
            pad(links.x_link, (0, 0, 0, 3), value=5.0),
        ),
    )
    got = encoder(wide)
    assert_same(Embeddings(got.server[:, :7], got.rack[:, :3], got.cluster), encoder(batch))
    assert not got.server[:, 7:].any()
    assert not got.rack[:, 3:].any()


def test_rows_of_padding_are_zero_and_without_any_server_all_trains_finite(encoder, linked) -> None:
    batch = linked(empty=True)
    out = encoder(batch)
    assert torch.equal(out.server.any(-1), batch.server_mask)
    assert out.cluster.any(-1).tolist() == [True, True, False]
    out = encoder(batch._replace(server_mask=torch.zeros_like(batch.server_mask)))
    sum(level.sum() for level in out).backward()
    assert not any(level.any() for level in out)
    assert all(p.grad is None or p.grad.isfinite().all() for p in encoder.parameters())


def test_gradients_reach_every_parameter(encoder, linked) -> None:
    sum((level * torch.randn(8)).sum() for level in encoder(linked(parts=8))).backward()
    unreached = [name for name, p in encoder.named_parameters() if not p.grad.any()]
    assert unreached == []


@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (2, 16, 8, 4), (5, 3, 2, 1)])
def test_one_set_of_weights_serves_every_size(shape, encoder, linked) -> None:
    parts, servers, _, racks = shape
    out = encoder(linked(*shape))
    assert out.server.shape == (parts, servers, 8)
    assert out.rack.shape == (parts, racks, 8)
    assert out.cluster.shape == (parts, 8)


def test_a_wrong_width_is_named(encoder, linked) -> None:
    batch = linked()
    with pytest.raises(ValueError, match=r"5 GPU and 3 server features.*server_features=4"):
        encoder(batch._replace(x_server=batch.x_server[..., :3]))


@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
def test_a_size_below_one_is_named(made) -> None:
    with pytest.raises(ValueError, match=r"encoder\.rounds is 0"):
        made(0)


@pytest.mark.parametrize(
    ("name", "moves"), [("mlp", [[0, 2]]), ("flat", [[0, server] for server in range(7)])]
)
def test_without_a_graph_servers_hear_of_none_and_in_a_flat_one_of_all(name, moves, irregular):
    encoder, batch = MADE[name](1), irregular(parts=2)
    batch.server_mask[:] = True
    want = encoder(batch)
    changed = batch._replace(x_server=batch.x_server.clone())
    changed.x_server[0, 2] += 1.0
    got = encoder(changed)
    assert (got.server != want.server).any(-1).nonzero().tolist() == moves
    assert not torch.equal(got.cluster[0], want.cluster[0])
    regrouped = encoder(batch._replace(server_rack=batch.server_rack.roll(1, 1)))
    assert_same(regrouped._replace(rack=want.rack), want)  # neither knows racks
