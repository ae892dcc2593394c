"""What one training loop does, as the functions that make models describe it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from interference.measuring.device import Form

Batch = tuple[Tensor, ...]


@dataclass(frozen=True)
class Work:
    """A model, where its batches come from, what is minimised and how."""

    model: nn.Module
    batch: Callable[[torch.Generator], Batch]  # on the CPU, as a data loader would give it
    loss: Callable[[nn.Module, Batch], Tensor]
    optimizer: Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]


MakeWork = Callable[[Form, int], Work]  # from the form and the batch size


def sgd(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    """Stochastic gradient descent with momentum, in steps that keep random data finite."""
    return torch.optim.SGD(parameters, lr=1e-3, momentum=0.9)


def plain_sgd(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    """Without momentum, which sparse gradients need."""
    return torch.optim.SGD(parameters, lr=1e-3)


def adam(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    """Two moments for every weight, as Transformers are trained."""
    return torch.optim.Adam(parameters, lr=1e-4)


def classify(model: nn.Module, batch: Batch) -> Tensor:
    """Cross-entropy of the classes that `model` gives the inputs."""
    inputs, labels = batch
    return nn.functional.cross_entropy(model(inputs), labels)


def next_words(model: nn.Module, batch: Batch) -> Tensor:
    """Cross-entropy of the word that follows, over every place of every text."""
    (words,) = batch  # (batch, length + 1)
    scores: Tensor = model(words[:, :-1])  # (batch, length, vocabulary)
    return nn.functional.cross_entropy(scores.flatten(0, 1), words[:, 1:].flatten())
