"""A recurrent language model: many small kernels, one after the other."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from interference.measuring.device import Form
from interference.measuring.work import Batch, Work, next_words, sgd


class Sizes(NamedTuple):
    """Words known, width of a word and of the state, layers, words of a text."""

    vocabulary: int
    width: int
    layers: int
    length: int


SIZES: dict[Form, Sizes] = {
    "cuda": Sizes(vocabulary=33_000, width=650, layers=2, length=35),
    "cpu": Sizes(vocabulary=100, width=32, layers=1, length=8),
}


class LanguageModel(nn.Module):
    """Scores of the next word from all words before it."""

    def __init__(self, sizes: Sizes) -> None:
        """Embedding, LSTM, one linear layer."""
        super().__init__()
        self.embedding = nn.Embedding(sizes.vocabulary, sizes.width)
        self.lstm = nn.LSTM(sizes.width, sizes.width, sizes.layers, batch_first=True)
        self.scores = nn.Linear(sizes.width, sizes.vocabulary)

    def forward(self, words: Tensor) -> Tensor:
        """(batch, length) to (batch, length, vocabulary)."""
        states, _ = self.lstm(self.embedding(words))
        return self.scores(states)


def lstm(form: Form, batch: int) -> Work:
    """Predicts words of texts."""
    sizes = SIZES[form]

    def draw(generator: torch.Generator) -> Batch:
        shape = (batch, sizes.length + 1)
        return (torch.randint(sizes.vocabulary, shape, generator=generator),)

    return Work(model=LanguageModel(sizes), batch=draw, loss=next_words, optimizer=sgd)
