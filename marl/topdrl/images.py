"""Paints the images that the network looks at from the numbers of an observation.

Time runs down the rows. All functions take a batch and return float images.
"""

import torch
from torch import Tensor

CANVAS_CHANNELS, BLOCK_CHANNELS, MAP_CHANNELS = 2, 4, 3


def canvas(gpus: Tensor, rows: int) -> Tensor:
    """(B, R, S, K, 3) -> (B, 2, rows, R * S * K): a column a GPU, filled until it is free.

    Channel 0 is 1 where filled, channel 1 the worth of the job there.
    """
    columns = gpus.flatten(1, 3)
    filled = _filled(columns[..., 0], rows)
    return torch.stack([filled, filled * columns[:, None, :, 1]], dim=1)


def blocks(slots: Tensor, rows: int, width: int) -> Tensor:
    """(B, Q, 6) -> (B, 4, rows, Q * width): a block a slot.

    Channel 0 is the job, rows of time times GPUs; 1 to 3 are its wait, worth and speed on the
    closest GPUs, all over the block.
    """
    batch, count, _ = slots.shape
    down = _filled(slots[..., 1], rows)  # (B, rows, Q)
    across = _across(slots[..., 2], width)  # (B, Q, width)
    job = down[..., None] * across[:, None]  # (B, rows, Q, width)
    flat = slots[:, None, :, None, 3:6].expand(batch, rows, count, width, 3)
    image = torch.cat([job[..., None], flat], dim=-1) * slots[:, None, :, None, :1]
    return image.permute(0, 4, 1, 2, 3).flatten(3)


def topology_map(gpus: Tensor) -> Tensor:
    """(B, R, S, K, 3) -> (B, 3, R * S, K): who is free, how soon, and what is there.

    A row a server, racks one below the other.
    """
    there = gpus[..., 2]
    idle = there * (gpus[..., 0] == 0)
    image = torch.stack([idle, gpus[..., 0], there], dim=1)
    return image.flatten(2, 3)


def _filled(share: Tensor, rows: int) -> Tensor:
    """(B, n) shares of the rows -> (B, rows, n), 1 from the top as far as they reach."""
    row = torch.arange(rows, device=share.device, dtype=share.dtype)
    return (row[None, :, None] < (share * rows).round()[:, None]).to(share.dtype)


def _across(share: Tensor, width: int) -> Tensor:
    """(B, n) shares of the width -> (B, n, width), 1 from the left."""
    column = torch.arange(width, device=share.device, dtype=share.dtype)
    return (column < (share * width).round()[..., None]).to(share.dtype)
