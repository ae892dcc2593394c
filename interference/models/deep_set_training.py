"""Trains the members of a deep set, all at once.

A member learns speeds from its own rows and their spread from the rows that it leaves out: what it
was fitted on it knows too well to tell how wrong it is. Of its states it keeps the one with the
least mean error on rows it leaves out (early stopping).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from interference.models.deep_set_folds import Division
from interference.models.deep_set_net import DeepSets
from interference.models.deep_set_rows import Hiding, Size, Tenants

DEGREES = 4.0  # of Student's t: rows far off pull less than under a normal


@dataclass(frozen=True)
class Plan:
    """How a deep set is built and trained."""

    width: int
    hidden: int
    steps: int
    batch: int  # rows a step that speeds are learned from
    spread_batch: int  # and spreads
    rate: float  # highest step of Adam
    decay: float  # of weights
    hiding: Hiding
    looks: int  # at the rows left out, evenly spread over the steps
    look_rows: int  # most rows a look


def trained(
    rows: Tenants, target: Tensor, division: Division, size: Size, plan: Plan, seed: int
) -> DeepSets:
    """Members at their best look.

    Args:
        rows: (N, ...).
        target: (N,) scaled speeds.
        division: of the rows.
        size: of the rows.
        plan: of the training.
        seed: of weights, batches and hiding.
    """
    draws = torch.Generator().manual_seed(seed)
    members = len(division.outside)
    net = DeepSets(size, members=members, width=plan.width, hidden=plan.hidden, generator=draws)
    search = torch.optim.AdamW(net.parameters(), lr=plan.rate, weight_decay=plan.decay)
    pace = torch.optim.lr_scheduler.OneCycleLR(
        search, plan.rate, total_steps=plan.steps, pct_start=0.1
    )
    forgotten = torch.as_tensor(division.forgotten)
    inside, outside = _numbers(~division.outside), _numbers(division.outside)
    seen = _spread_out(outside, plan.look_rows, draws)
    look = _Look(rows.take(seen).forget(forgotten, size), target[seen])
    for step in range(1, plan.steps + 1):
        learned, spread = (
            _drawn(inside, plan.batch, draws),
            _drawn(outside, plan.spread_batch, draws),
        )
        index = torch.cat([learned, spread], dim=1)
        batch = rows.take(index).forget(forgotten, size).hide(plan.hiding, size, draws)
        search.zero_grad(set_to_none=True)
        mean, ln_sd = net(batch)
        _loss(mean, ln_sd, target[index], plan.batch).backward()
        search.step()
        pace.step()
        if step % max(plan.steps // plan.looks, 1) == 0:
            look.at(net)
    net.load_state_dict(look.best)
    return net


class _Look:
    """The best state of each member so far, by its error on some of the rows it leaves out."""

    def __init__(self, rows: Tenants, target: Tensor) -> None:
        """Take (K, L) rows and their (K, L) scaled speeds."""
        self._rows, self._target = rows, target
        self._error = torch.full((len(target),), torch.inf)
        self.best: dict[str, Tensor] = {}

    @torch.no_grad()
    def at(self, net: DeepSets) -> None:
        """Keep members that are better than they ever were."""
        mean, _ = net(self._rows)
        error = (mean - self._target).abs().mean(dim=1)
        better = (error < self._error)[:, None, None]
        self._error = torch.minimum(error, self._error)
        for name, now in net.state_dict().items():
            self.best[name] = torch.where(better, now, self.best.get(name, now))


def _loss(mean: Tensor, ln_sd: Tensor, target: Tensor, learned: int) -> Tensor:
    """Of speeds in the first `learned` columns and of spreads in the others, over all members."""
    of_speed = _surprise(mean[:, :learned], ln_sd[:, :learned].detach(), target[:, :learned])
    of_spread = _surprise(mean[:, learned:].detach(), ln_sd[:, learned:], target[:, learned:])
    return of_speed.mean(dim=1).sum() + of_spread.mean(dim=1).sum()


def _surprise(mean: Tensor, ln_sd: Tensor, target: Tensor) -> Tensor:
    """Negative ln of Student's density, less a constant."""
    square = ((target - mean) * torch.exp(-ln_sd)).square()
    return ln_sd + 0.5 * (DEGREES + 1.0) * torch.log1p(square / DEGREES)


def _numbers(marks: np.ndarray) -> list[Tensor]:
    return [torch.as_tensor(np.flatnonzero(each)) for each in marks]


def _drawn(numbers: Sequence[Tensor], count: int, draws: torch.Generator) -> Tensor:
    """(K, count) of each member's numbers, with replacement."""
    return torch.stack([n[torch.randint(len(n), (count,), generator=draws)] for n in numbers])


def _spread_out(numbers: Sequence[Tensor], most: int, draws: torch.Generator) -> Tensor:
    """(K, L) of each member's numbers, L at most `most`; a short list starts again at its end."""
    count = min(max(len(each) for each in numbers), most)
    rows = []
    for each in numbers:
        order = each[torch.randperm(len(each), generator=draws)]
        rows.append(order.repeat(-(-count // len(order)))[:count])
    return torch.stack(rows)
