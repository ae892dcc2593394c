"""A network taught by contrasts: scores move by what the other action was seen to cost or save.

Paired branches say what an action cost more than the one that was taken, with far more noise than
signal. The network, without its prior, is regressed on that: what it adds to the score of the one
less what it adds to that of the other. Costs beyond a bound count as the bound, for their tails are
all noise. How far the new scores go is not for regression to say but for playing.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from marl.net.branching import Contrasts
from marl.policy.pair_score import UNREAD, PairScorePolicy
from sim.arrays import IntArray

NOT_TAUGHT = (*UNREAD, "prior.")
CLIP_NORM = 1.0
AVERAGED_FROM = 0.6  # share of the steps after which weights are averaged
WARM_SHARE = 0.1  # of the steps, while the rate rises


@dataclass(frozen=True)
class Teaching:
    """How the regression is done."""

    epochs: int
    batch: int  # turns
    learning_rate: float
    weight_decay: float
    unit_s: float  # job-seconds beyond which a cost counts as this
    step: float  # of a score, for a cost of `unit_s`
    temperature: float  # contrasts with a gap of this weigh 1 / e of near ties


def taught(
    policy: PairScorePolicy,
    contrasts: Contrasts,
    teaching: Teaching,
    searched: Mapping[str, Tensor],
    seed: int,
) -> float:
    """Teach `policy`, in place; its prior stays.

    Args:
        policy: the one that played the contrasts.
        contrasts: at least one.
        teaching: how.
        searched: name of a parameter -> 1 where it may change, 0 where not, of its shape.
        seed: of the order of turns.

    Returns:
        Share of the (clipped) costs' squares that the scores explain, over these contrasts.
    """
    named = [
        (name, each)
        for name, each in policy.named_parameters()
        if not name.startswith(NOT_TAUGHT) and each.requires_grad
    ]
    weights, masks = [each for _, each in named], [searched[name] for name, _ in named]
    lesson = _Lesson(policy, contrasts, teaching)
    batches = max(lesson.turns // teaching.batch, 1)
    steps = teaching.epochs * batches
    along_gap = torch.zeros(1, requires_grad=True)  # what costs follow the prior's own gaps with
    optimiser = torch.optim.AdamW(
        [*weights, along_gap], lr=teaching.learning_rate, weight_decay=teaching.weight_decay
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, teaching.learning_rate, total_steps=steps + 1, pct_start=WARM_SHARE
    )
    mean, count = [torch.zeros_like(each) for each in weights], 0
    for step, turns in enumerate(batches_of(lesson.turns, batches, teaching.epochs, seed)):
        optimiser.zero_grad()
        lesson.loss(turns, along_gap)[0].backward()
        step_within(optimiser, weights, masks)
        schedule.step()
        if step >= AVERAGED_FROM * steps:
            count += 1
            for total, now in zip(mean, weights, strict=True):
                total.add_((now.detach() - total) / count)
    with torch.no_grad():
        for total, now in zip(mean, weights, strict=True):
            now.copy_(total)
        return lesson.explained(along_gap)


def step_within(
    optimiser: torch.optim.Optimizer, weights: Sequence[Tensor], masks: Sequence[Tensor]
) -> None:
    """One step of what the masks let change."""
    before = [each.detach().clone() for each in weights]
    for each, mask in zip(weights, masks, strict=True):
        if each.grad is not None:
            each.grad.mul_(mask)
    torch.nn.utils.clip_grad_norm_(weights, CLIP_NORM)
    optimiser.step()
    with torch.no_grad():
        for each, mask, old in zip(weights, masks, before, strict=True):
            each.copy_(torch.where(mask > 0, each, old))  # decay moves what has no gradient


def batches_of(turns: int, batches: int, epochs: int, seed: int) -> Iterator[IntArray]:
    """Turns in an order drawn anew each epoch, in `batches` parts."""
    rng = np.random.default_rng(seed)
    for _ in range(epochs):
        yield from np.array_split(rng.permutation(turns), batches)


class _Lesson:
    """Contrasts as tensors, and the policy's scores of them before it learned."""

    def __init__(self, policy: PairScorePolicy, contrasts: Contrasts, how: Teaching) -> None:
        self._policy, self._how = policy, how
        self._seen = {
            name: torch.from_numpy(value) for name, value in contrasts.observations.items()
        }
        self._order = np.argsort(contrasts.turn, kind="stable")
        self.turns = len(contrasts.observations["jobs"])
        self._first = np.searchsorted(contrasts.turn[self._order], np.arange(self.turns + 1))
        self._taken, self._tried = (
            torch.from_numpy(each) for each in (contrasts.taken, contrasts.tried)
        )
        share = np.clip(contrasts.cost_s / how.unit_s, -1.0, 1.0)
        self._gap = torch.from_numpy(-contrasts.gap).float()
        self._weight = torch.from_numpy(np.exp(-contrasts.gap / how.temperature)).float()
        with torch.no_grad():
            own = torch.cat([self._added(turns)[0] for turns in self._blocks()])
        rows = np.concatenate([self._rows(turns)[0] for turns in self._blocks()])
        self._target = torch.zeros(len(contrasts))
        self._target[rows] = own - how.step * torch.from_numpy(share[rows]).float()

    def _blocks(self) -> list[IntArray]:
        return np.array_split(np.arange(self.turns), max(self.turns // self._how.batch, 1))

    def _rows(self, turns: IntArray) -> tuple[IntArray, IntArray]:
        """Contrasts of these turns, and which of `turns` each belongs to."""
        counts = self._first[turns + 1] - self._first[turns]
        rows = np.concatenate([self._order[self._first[t] : self._first[t + 1]] for t in turns])
        return rows, np.repeat(np.arange(len(turns)), counts)

    def _added(self, turns: IntArray) -> tuple[Tensor, IntArray]:
        """What the network adds to the tried action less what it adds to the taken one."""
        rows, at = self._rows(turns)
        prior, self._policy.prior = self._policy.prior, None
        try:
            logits = self._policy({name: each[turns] for name, each in self._seen.items()}).logits
        finally:
            self._policy.prior = prior
        return logits[at, self._tried[rows]] - logits[at, self._taken[rows]], rows

    def loss(self, turns: IntArray, along_gap: Tensor) -> tuple[Tensor, Tensor]:
        """Weighted mean square of what is left, and of the targets."""
        added, rows = self._added(turns)
        weight, target = self._weight[rows], self._target[rows]
        left = added + along_gap * self._gap[rows] - target
        return (weight * left**2).sum() / weight.sum(), (weight * target**2).sum() / weight.sum()

    def explained(self, along_gap: Tensor) -> float:
        """Share of the targets' squares."""
        both = [self.loss(turns, along_gap) for turns in self._blocks()]
        left, whole = (sum(float(each[part]) for each in both) for part in (0, 1))
        return 1.0 - left / whole if whole > 0 else 0.0
