"""A Transformer encoder that predicts words: large matrix products and attention."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from interference.measuring.device import Form
from interference.measuring.work import Batch, Work, adam, next_words


class Sizes(NamedTuple):
    """Words known, width of a word, heads, layers, words of a text."""

    vocabulary: int
    width: int
    heads: int
    layers: int
    length: int


SIZES: dict[Form, Sizes] = {
    "cuda": Sizes(vocabulary=30_000, width=768, heads=12, layers=12, length=128),
    "cpu": Sizes(vocabulary=100, width=32, heads=2, layers=1, length=16),
}
WIDER = 4  # the inner layer of each block, over the width of a word


class Encoder(nn.Module):
    """Scores of the next word; a word sees only those before it."""

    mask: Tensor

    def __init__(self, sizes: Sizes) -> None:
        """Word and place are embedded and added."""
        super().__init__()
        self.words = nn.Embedding(sizes.vocabulary, sizes.width)
        self.places = nn.Parameter(torch.zeros(sizes.length, sizes.width))
        layer = nn.TransformerEncoderLayer(
            sizes.width, sizes.heads, WIDER * sizes.width, batch_first=True
        )
        self.layers = nn.TransformerEncoder(layer, sizes.layers, enable_nested_tensor=False)
        self.scores = nn.Linear(sizes.width, sizes.vocabulary)
        mask = nn.Transformer.generate_square_subsequent_mask(sizes.length)
        self.register_buffer("mask", mask)

    def forward(self, words: Tensor) -> Tensor:
        """(batch, length) to (batch, length, vocabulary)."""
        return self.scores(self.layers(self.words(words) + self.places, self.mask, is_causal=True))


def transformer(form: Form, batch: int) -> Work:
    """Predicts words of texts."""
    sizes = SIZES[form]

    def draw(generator: torch.Generator) -> Batch:
        shape = (batch, sizes.length + 1)
        return (torch.randint(sizes.vocabulary, shape, generator=generator),)

    return Work(model=Encoder(sizes), batch=draw, loss=next_words, optimizer=adam)
