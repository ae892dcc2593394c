"""A small residual convolutional network, in the manner of He et al., 2016."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from interference.measuring.device import Form
from interference.measuring.work import Batch, Work, classify, sgd

COLOURS = 3


class Sizes(NamedTuple):
    """Side of the images, channels of each stage (each halves the side), blocks of a stage."""

    side: int
    widths: tuple[int, ...]
    blocks: int
    classes: int


SIZES: dict[Form, Sizes] = {
    "cuda": Sizes(side=112, widths=(64, 128, 256, 512), blocks=2, classes=1000),
    "cpu": Sizes(side=16, widths=(8, 16), blocks=1, classes=10),
}


class Block(nn.Module):
    """Two convolutions, added to their input."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        """A stride of 2 halves the image."""
        super().__init__()
        self.path = nn.Sequential(
            nn.Conv2d(before, after, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(),
            nn.Conv2d(after, after, 3, padding=1, bias=False),
            nn.BatchNorm2d(after),
        )
        same = before == after and stride == 1
        self.shortcut = nn.Identity() if same else nn.Conv2d(before, after, 1, stride)

    def forward(self, images: Tensor) -> Tensor:
        """(batch, before, side, side) to (batch, after, side / stride, side / stride)."""
        return nn.functional.relu(self.path(images) + self.shortcut(images))


def cnn(form: Form, batch: int) -> Work:
    """Classifies images."""
    sizes = SIZES[form]
    layers: list[nn.Module] = [nn.Conv2d(COLOURS, sizes.widths[0], 3, padding=1), nn.ReLU()]
    before = sizes.widths[0]
    for width in sizes.widths:
        for number in range(sizes.blocks):
            layers.append(Block(before, width, stride=2 if number == 0 else 1))
            before = width
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, sizes.classes)]

    def draw(generator: torch.Generator) -> Batch:
        images = torch.randn(batch, COLOURS, sizes.side, sizes.side, generator=generator)
        return images, torch.randint(sizes.classes, (batch,), generator=generator)

    return Work(model=nn.Sequential(*layers), batch=draw, loss=classify, optimizer=sgd)
