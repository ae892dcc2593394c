"""The incremental encoder: after any changes, what a full pass would give."""

import pytest
import torch

from tests.gnn.incremental import IncrementalEncoder


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
    torch.testing.assert_close(tuple(got), tuple(want), rtol=1e-5, atol=1e-5)
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


def test_new_weights_without_a_reset_are_refused(make_encoder, irregular) -> None:
    encoder, batch = make_encoder(), irregular()
    cache = IncrementalEncoder(encoder)
    cache.reset(batch)
    encoder.load_state_dict(make_encoder().state_dict())
    rows = dirty_rows(batch, 1)
    with pytest.raises(RuntimeError, match="weights changed"):
        cache.update(rows, *change(batch, rows)[1:])
    cache.reset(batch)
    torch.testing.assert_close(tuple(cache.encode()), tuple(encoder(batch)), rtol=1e-5, atol=1e-5)


def test_rows_that_cannot_be_updated_are_named(make_encoder, irregular) -> None:
    batch = irregular(empty=True)
    cache = IncrementalEncoder(make_encoder())
    cache.reset(batch)
    for rows, text in (
        (torch.tensor([14]), "row 14 is a padding"),
        (torch.tensor([0, 0]), "twice"),
    ):
        with pytest.raises(ValueError, match=text):
            cache.update(rows, *change(batch, rows)[1:])


def test_more_sweeps_are_refused(make_encoder) -> None:
    with pytest.raises(ValueError, match=r"2 sweeps.*encoder\.rounds=1"):
        IncrementalEncoder(make_encoder(2))
