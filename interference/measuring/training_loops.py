"""Training loops that are measured side by side: what a loop does (`Work`), and five that make one.

`mlp`: a few large matrix products and nothing else. `cnn`: a small residual network in the manner
of He et al., 2016. `lstm`: many small kernels, one after the other. `transformer`: an encoder that
predicts words, large products and attention. `recommender`: embedding tables, little arithmetic and
scattered reads of much memory.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import chain, cycle, pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, relu

BATCHES = 8  # drawn beforehand and used in turn
FIRST_STEPS = 3  # allocate memory and choose kernels
COLOURS = 3
Form = str  # "cuda": sizes for a GPU; "cpu": small ones for a core of the CPU
Batch = tuple[Tensor, ...]
Draw = Callable[[torch.Generator], Batch]
Mark = Callable[[], torch.cuda.Event]


@dataclass(frozen=True)
class Work:
    """A model, where its batches come from, what is minimised and how."""

    model: nn.Module
    batch: Draw  # on the CPU, as a data loader would give it
    loss: Callable[[nn.Module, Batch], Tensor]
    optimizer: Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]


sgd = partial(torch.optim.SGD, lr=1e-3, momentum=0.9)  # steps that keep random data finite
plain_sgd = partial(torch.optim.SGD, lr=1e-3)  # sparse gradients allow no momentum
adam = partial(torch.optim.Adam, lr=1e-4)


def classify(model: nn.Module, batch: Batch) -> Tensor:
    """Cross-entropy of the labels, last in the batch, by the scores (..., classes) of the model."""
    scores: Tensor = model(*batch[:-1])
    return cross_entropy(scores.flatten(0, -2), batch[-1].flatten())


def _random(*parts: tuple[int, tuple[int, ...]]) -> Draw:
    """Tensors of these shapes: of whole numbers below a bound, or normal where that is 0."""
    return lambda generator: tuple(
        torch.randint(below, shape, generator=generator)
        if below
        else torch.randn(shape, generator=generator)
        for below, shape in parts
    )


def mlp(form: Form, batch: int) -> Work:
    """Classifies vectors."""
    inputs, hidden, layers, classes = (1024, 4096, 4, 1000) if form == "cuda" else (64, 128, 2, 10)
    widths = [inputs, *[hidden] * layers]
    parts = [(nn.Linear(before, after), nn.ReLU()) for before, after in pairwise(widths)]
    model = nn.Sequential(*chain(*parts), nn.Linear(hidden, classes))
    return Work(model, _random((0, (batch, inputs)), (classes, (batch,))), classify, sgd)


class _Joined(nn.Module):
    """A network of parts; the function that joins them is given its inputs, then the parts."""

    def __init__(self, function: Callable[..., Tensor], *parts: nn.Module) -> None:
        super().__init__()
        self.function, self.parts = function, nn.ModuleList(parts)

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.function(*inputs, *self.parts)


def _block(before: int, after: int, stride: int) -> nn.Module:
    """Two convolutions, added to their input; a stride of 2 halves the image."""
    conv = partial(nn.Conv2d, kernel_size=3, padding=1, bias=False)
    first = conv(before, after, stride=stride), nn.BatchNorm2d(after), nn.ReLU()
    path = nn.Sequential(*first, conv(after, after), nn.BatchNorm2d(after))
    shortcut = nn.Identity() if stride == 1 else nn.Conv2d(before, after, 1, stride)
    return _Joined(lambda images, path, cut: relu(path(images) + cut(images)), path, shortcut)


def cnn(form: Form, batch: int) -> Work:
    """Classifies images; each stage of blocks halves their side."""
    sizes = {"cuda": (112, (64, 128, 256, 512), 2, 1000), "cpu": (16, (8, 16), 1, 10)}
    side, widths, blocks, classes = sizes[form]
    layers: list[nn.Module] = [nn.Conv2d(COLOURS, widths[0], 3, padding=1), nn.ReLU()]
    for before, width in pairwise((widths[0], *widths)):
        layers += [_block(before, width, 2), *(_block(width, width, 1) for _ in range(1, blocks))]
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], classes)]
    draw = _random((0, (batch, COLOURS, side, side)), (classes, (batch,)))
    return Work(nn.Sequential(*layers), draw, classify, sgd)


def lstm(form: Form, batch: int) -> Work:
    """Predicts words of texts."""
    vocabulary, width, layers, length = (33_000, 650, 2, 35) if form == "cuda" else (100, 32, 1, 8)
    core = nn.LSTM(width, width, layers, batch_first=True)
    outputs = _Joined(lambda words, core: core(words)[0], core)
    model = nn.Sequential(nn.Embedding(vocabulary, width), outputs, nn.Linear(width, vocabulary))
    return Work(model, _random(*[(vocabulary, (batch, length))] * 2), classify, sgd)


def transformer(form: Form, batch: int) -> Work:
    """Predicts words of texts; a word sees only those before it."""
    sizes = {"cuda": (30_000, 768, 12, 12, 128), "cpu": (100, 32, 2, 1, 16)}
    vocabulary, width, heads, layers, length = sizes[form]

    def encode(words: Tensor, places: nn.Embedding, encoder: Callable[..., Tensor]) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(length, words.device)
        return encoder(words + places.weight, mask, is_causal=True)

    words = nn.Embedding(vocabulary, width)
    places = nn.Embedding.from_pretrained(torch.zeros(length, width), freeze=False)
    layer = nn.TransformerEncoderLayer(width, heads, 4 * width, batch_first=True)
    encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
    model = nn.Sequential(words, _Joined(encode, places, encoder), nn.Linear(width, vocabulary))
    return Work(model, _random(*[(vocabulary, (batch, length))] * 2), classify, adam)


def recommender(form: Form, batch: int) -> Work:
    """Predicts clicks, from numbers and from one row of each table."""
    sizes = {"cuda": (13, 26, 200_000, 64, 512), "cpu": (4, 4, 10_000, 16, 32)}
    numbers, count, rows, width, hidden = sizes[form]

    def click(values: Tensor, places: Tensor, *parts: Callable[[Tensor], Tensor]) -> Tensor:
        dense, top, *tables = parts
        looked_up = [table(places[:, number]) for number, table in enumerate(tables)]
        return top(torch.cat([dense(values), *looked_up], dim=1))

    # Gradients of the tables are sparse: a step writes only the rows that it read.
    tables = [nn.Embedding(rows, width, sparse=True) for _ in range(count)]
    dense = nn.Sequential(nn.Linear(numbers, width), nn.ReLU())
    top = nn.Sequential(nn.Linear(width * (count + 1), hidden), nn.ReLU(), nn.Linear(hidden, 2))
    draw = _random((0, (batch, numbers)), (rows, (batch, count)), (2, (batch,)))
    return Work(_Joined(click, dense, top, *tables), draw, classify, plain_sgd)


def steps_of(work: Work, form: Form, seed: int, mark: Mark | None = None) -> Callable[[], float]:
    """One step of training a call: the next batch to the device, forward, backward, update.

    It returns when it ended; on a GPU, which runs behind the program, when the one before its
    `mark` did: waiting for the last one would leave the GPU idle while the program prepares the
    next, and to its neighbours more than they would get.
    """
    model = work.model.to(form).train()
    optimizer = work.optimizer(model.parameters())
    generator = torch.Generator().manual_seed(seed)
    drawn = [work.batch(generator) for _ in range(BATCHES)]
    if form == "cuda":  # in memory that the GPU can read directly, as data loaders do
        mark = torch.cuda.current_stream().record_event
        drawn = [tuple(part.pin_memory() for part in batch) for batch in drawn]
    batches, marks = cycle(drawn), deque[torch.cuda.Event]()

    def step() -> float:
        batch = tuple(part.to(form, non_blocking=True) for part in next(batches))
        optimizer.zero_grad(set_to_none=True)
        work.loss(model, batch).backward()
        optimizer.step()
        if mark is not None:
            marks.append(mark())
        if len(marks) > 1:
            marks.popleft().synchronize()
        return time.monotonic()

    return step


def prepared(
    make: Callable[[Form, int], Work], form: Form, batch: int, seed: int
) -> Callable[[], float]:
    """`steps_of` what `make` makes, after the first ones; in the process of a loop."""
    torch.manual_seed(seed)
    if form == "cpu":
        torch.set_num_threads(1)
    step = steps_of(make(form, batch), form, seed)
    for _ in range(FIRST_STEPS):
        step()
    if form == "cuda":
        torch.cuda.synchronize()
    return step
