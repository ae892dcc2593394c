"""A recommender with embedding tables: little arithmetic, scattered reads of much memory."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from interference.measuring.device import Form
from interference.measuring.work import Batch, Work, plain_sgd


class Sizes(NamedTuple):
    """Numbers of a click, tables, rows of a table, width of a row and of the hidden layer."""

    numbers: int
    tables: int
    rows: int
    width: int
    hidden: int


SIZES: dict[Form, Sizes] = {
    "cuda": Sizes(numbers=13, tables=26, rows=200_000, width=64, hidden=512),
    "cpu": Sizes(numbers=4, tables=4, rows=10_000, width=16, hidden=32),
}


class Recommender(nn.Module):
    """Whether somebody clicks, from numbers and from one row of each table."""

    def __init__(self, sizes: Sizes) -> None:
        """Gradients of the tables are sparse: a step writes only the rows that it read."""
        super().__init__()
        self.tables = nn.ModuleList(
            nn.Embedding(sizes.rows, sizes.width, sparse=True) for _ in range(sizes.tables)
        )
        self.numbers = nn.Sequential(nn.Linear(sizes.numbers, sizes.width), nn.ReLU())
        self.top = nn.Sequential(
            nn.Linear(sizes.width * (sizes.tables + 1), sizes.hidden),
            nn.ReLU(),
            nn.Linear(sizes.hidden, 1),
        )

    def forward(self, numbers: Tensor, rows: Tensor) -> Tensor:
        """(batch, numbers) and (batch, tables) to (batch,)."""
        looked_up = [table(rows[:, number]) for number, table in enumerate(self.tables)]
        return self.top(torch.cat([self.numbers(numbers), *looked_up], dim=1)).squeeze(1)


def recommender(form: Form, batch: int) -> Work:
    """Predicts clicks."""
    sizes = SIZES[form]

    def draw(generator: torch.Generator) -> Batch:
        numbers = torch.randn(batch, sizes.numbers, generator=generator)
        rows = torch.randint(sizes.rows, (batch, sizes.tables), generator=generator)
        return numbers, rows, torch.rand(batch, generator=generator).round()

    return Work(model=Recommender(sizes), batch=draw, loss=_click_loss, optimizer=plain_sgd)


def _click_loss(model: nn.Module, batch: Batch) -> Tensor:
    numbers, rows, clicks = batch
    return nn.functional.binary_cross_entropy_with_logits(model(numbers, rows), clicks)
