"""A multi-layer perceptron: a few large matrix products and nothing else."""

from itertools import pairwise
from typing import NamedTuple

import torch
from torch import nn

from interference.measuring.device import Form
from interference.measuring.work import Batch, Work, classify, sgd


class Sizes(NamedTuple):
    """Widths of the layers and their number."""

    inputs: int
    hidden: int
    layers: int
    classes: int


SIZES: dict[Form, Sizes] = {
    "cuda": Sizes(inputs=1024, hidden=4096, layers=4, classes=1000),
    "cpu": Sizes(inputs=64, hidden=128, layers=2, classes=10),
}


def mlp(form: Form, batch: int) -> Work:
    """Classifies vectors."""
    sizes = SIZES[form]
    widths = [sizes.inputs, *[sizes.hidden] * sizes.layers]
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Linear(sizes.hidden, sizes.classes))

    def draw(generator: torch.Generator) -> Batch:
        inputs = torch.randn(batch, sizes.inputs, generator=generator)
        return inputs, torch.randint(sizes.classes, (batch,), generator=generator)

    return Work(model=model, batch=draw, loss=classify, optimizer=sgd)
