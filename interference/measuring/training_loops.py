"""Training loops that are measured side by side: what a loop does (`Work`), and five that make one.

`mlp`: a few large matrix products and nothing else. `cnn`: a small residual network in the manner
of He et al., 2016. `lstm`: many small kernels, one after the other. `transformer`: an encoder that
predicts words, large products and attention. `recommender`: embedding tables, little arithmetic and
scattered reads of much memory. `run_loop` stamps the end of every step.
"""

import itertools
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from interference.measuring.device import Began, Form, Line, LoopTask, Ran, Signals

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


def _texts(batch: int, length: int, vocabulary: int) -> Callable[[torch.Generator], Batch]:
    return lambda generator: (torch.randint(vocabulary, (batch, length + 1), generator=generator),)


class MlpSizes(NamedTuple):
    """Widths of the layers and their number."""

    inputs: int
    hidden: int
    layers: int
    classes: int


MLP_SIZES: dict[Form, MlpSizes] = {
    "cuda": MlpSizes(inputs=1024, hidden=4096, layers=4, classes=1000),
    "cpu": MlpSizes(inputs=64, hidden=128, layers=2, classes=10),
}


def mlp(form: Form, batch: int) -> Work:
    """Classifies vectors."""
    sizes = MLP_SIZES[form]
    widths = [sizes.inputs, *[sizes.hidden] * sizes.layers]
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Linear(sizes.hidden, sizes.classes))

    def draw(generator: torch.Generator) -> Batch:
        inputs = torch.randn(batch, sizes.inputs, generator=generator)
        return inputs, torch.randint(sizes.classes, (batch,), generator=generator)

    return Work(model=model, batch=draw, loss=classify, optimizer=sgd)


COLOURS = 3


class CnnSizes(NamedTuple):
    """Side of the images, channels of each stage (each halves the side), blocks of a stage."""

    side: int
    widths: tuple[int, ...]
    blocks: int
    classes: int


CNN_SIZES: dict[Form, CnnSizes] = {
    "cuda": CnnSizes(side=112, widths=(64, 128, 256, 512), blocks=2, classes=1000),
    "cpu": CnnSizes(side=16, widths=(8, 16), blocks=1, classes=10),
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
    sizes = CNN_SIZES[form]
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


class LstmSizes(NamedTuple):
    """Words known, width of a word and of the state, layers, words of a text."""

    vocabulary: int
    width: int
    layers: int
    length: int


LSTM_SIZES: dict[Form, LstmSizes] = {
    "cuda": LstmSizes(vocabulary=33_000, width=650, layers=2, length=35),
    "cpu": LstmSizes(vocabulary=100, width=32, layers=1, length=8),
}


class LanguageModel(nn.Module):
    """Scores of the next word from all words before it."""

    def __init__(self, sizes: LstmSizes) -> None:
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
    sizes = LSTM_SIZES[form]
    draw = _texts(batch, sizes.length, sizes.vocabulary)
    return Work(model=LanguageModel(sizes), batch=draw, loss=next_words, optimizer=sgd)


class TransformerSizes(NamedTuple):
    """Words known, width of a word, heads, layers, words of a text."""

    vocabulary: int
    width: int
    heads: int
    layers: int
    length: int


TRANSFORMER_SIZES: dict[Form, TransformerSizes] = {
    "cuda": TransformerSizes(vocabulary=30_000, width=768, heads=12, layers=12, length=128),
    "cpu": TransformerSizes(vocabulary=100, width=32, heads=2, layers=1, length=16),
}
WIDER = 4  # the inner layer of each block, over the width of a word


class Encoder(nn.Module):
    """Scores of the next word; a word sees only those before it."""

    mask: Tensor

    def __init__(self, sizes: TransformerSizes) -> None:
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
    sizes = TRANSFORMER_SIZES[form]
    draw = _texts(batch, sizes.length, sizes.vocabulary)
    return Work(model=Encoder(sizes), batch=draw, loss=next_words, optimizer=adam)


class RecommenderSizes(NamedTuple):
    """Numbers of a click, tables, rows of a table, width of a row and of the hidden layer."""

    numbers: int
    tables: int
    rows: int
    width: int
    hidden: int


RECOMMENDER_SIZES: dict[Form, RecommenderSizes] = {
    "cuda": RecommenderSizes(numbers=13, tables=26, rows=200_000, width=64, hidden=512),
    "cpu": RecommenderSizes(numbers=4, tables=4, rows=10_000, width=16, hidden=32),
}


class Recommender(nn.Module):
    """Whether somebody clicks, from numbers and from one row of each table."""

    def __init__(self, sizes: RecommenderSizes) -> None:
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
    sizes = RECOMMENDER_SIZES[form]

    def draw(generator: torch.Generator) -> Batch:
        numbers = torch.randn(batch, sizes.numbers, generator=generator)
        rows = torch.randint(sizes.rows, (batch, sizes.tables), generator=generator)
        return numbers, rows, torch.rand(batch, generator=generator).round()

    return Work(model=Recommender(sizes), batch=draw, loss=_click_loss, optimizer=plain_sgd)


def _click_loss(model: nn.Module, batch: Batch) -> Tensor:
    numbers, rows, clicks = batch
    return nn.functional.binary_cross_entropy_with_logits(model(numbers, rows), clicks)


BATCHES = 8  # drawn beforehand and used in turn


FIRST_STEPS = 3  # before the barrier: the first ones allocate memory and choose kernels


def run_loop(task: LoopTask, make: MakeWork, signals: Signals, line: Line) -> Ran:
    """Make the model, wait for the others, train until `signals.stop`."""
    torch.manual_seed(task.seed)
    if task.form == "cpu":
        torch.set_num_threads(1)
    step = steps_of(make(task.form, task.batch), torch.device(task.form), task.seed)
    for _ in range(FIRST_STEPS):
        step()
    if task.form == "cuda":
        torch.cuda.synchronize()
    signals.barrier.wait()
    stamps_s, cpu_s = [time.monotonic()], [time.process_time()]
    line.pipe.send(Began(stamps_s[0]))
    finished = gpu_finished() if task.form == "cuda" else time.monotonic
    while not signals.stop.value:
        step()
        stamps_s.append(finished())
        cpu_s.append(time.process_time())
        signals.steps[line.number] += 1
    return Ran(np.array(stamps_s), np.array(cpu_s))


def steps_of(work: Work, device: torch.device, seed: int) -> Callable[[], None]:
    """One step of training a call: the next batch to the device, forward, backward, update."""
    model = work.model.to(device).train()
    optimizer = work.optimizer(model.parameters())
    batches = itertools.cycle(_batches(work, device, seed))

    def step() -> None:
        batch = tuple(part.to(device, non_blocking=True) for part in next(batches))
        optimizer.zero_grad(set_to_none=True)
        work.loss(model, batch).backward()
        optimizer.step()

    return step


def gpu_finished() -> Callable[[], float]:
    """A clock for the ends of steps on a GPU, which runs behind the program.

    Each call waits for the step before the last one only: waiting for the last one would leave the
    GPU idle while the program prepares the next, and to its neighbours more than they would get.
    """
    pending: list[torch.cuda.Event] = []

    def finished() -> float:
        event = torch.cuda.Event()
        event.record()
        pending.append(event)
        if len(pending) > 1:
            pending.pop(0).synchronize()
        return time.monotonic()

    return finished


def _batches(work: Work, device: torch.device, seed: int) -> list[Batch]:
    """In memory that the GPU can read directly, as data loaders do."""
    generator = torch.Generator().manual_seed(seed)
    drawn = [work.batch(generator) for _ in range(BATCHES)]
    if device.type != "cuda":
        return drawn
    return [tuple(part.pin_memory() for part in batch) for batch in drawn]
