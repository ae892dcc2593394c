"""A network taught by contrasts: scores move by what the other action was seen to cost or save.

Paired branches say what an action cost more than the one that was taken, with far more noise than
signal. The network, without its prior, is regressed on that: what it adds to the score of the one
less what it adds to that of the other. Costs beyond a bound count as the bound, for their tails are
all noise. How far the new scores go is not for regression to say but for playing.

By the same contrasts PPO's clipped objective (Schulman et al., "Proximal Policy Optimization
Algorithms", 2017, eq. 7) can be climbed instead. Its advantages are paired: what an action cost
beside what the policy's own mixture of the actions tried at that turn cost, under one future. All
weights move then, the prior's too, and no further than the clip lets them.

Or what is known to be good is imitated: the network plays, and a teacher says at some of its turns
how it would have scored each action (Ross, Gordon, Bagnell, "A Reduction of Imitation Learning and
Structured Prediction to No-Regret Online Learning", AISTATS 2011: DAgger). The teacher reads all
columns of an observation, also those that are hidden from the network, so this shows what can be
made of the others.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from marl.env.layout import Observation
from marl.policy.branching import Contrasts
from marl.policy.pair_score import MASKED, UNREAD, PairScorePolicy
from marl.training.episodes import Shown
from sim.arrays import IntArray

NOT_TAUGHT = (*UNREAD, "prior.")
CLIP_NORM = 1.0
LEAST_ADVANTAGE = 1e-9  # where all that was tried cost alike
AVERAGED_FROM = 0.6  # share of the steps after which weights are averaged
WARM_SHARE = 0.1  # of the steps, while the rate rises


@dataclass(frozen=True)
class Fitting:
    """How weights are fitted to turns."""

    epochs: int
    batch: int  # turns
    learning_rate: float
    weight_decay: float


def tensors_of(observations: Observation) -> dict[str, Tensor]:
    """The same arrays, for torch."""
    return {name: torch.from_numpy(value) for name, value in observations.items()}


def blocks_of(turns: int, batch: int) -> list[IntArray]:
    """Rows of all turns in order, about `batch` together."""
    return np.array_split(np.arange(turns), max(turns // batch, 1))


@dataclass(frozen=True)
class Teaching(Fitting):
    """How the regression is done."""

    unit_s: float  # job-seconds beyond which a cost counts as this
    step: float  # of a score, for a cost of `unit_s`
    temperature: float  # contrasts with a gap of this weigh 1 / e of near ties


def taught(
    policy: PairScorePolicy,
    contrasts: Sequence[Contrasts],
    teaching: Teaching,
    searched: Mapping[str, Tensor],
    seed: int,
) -> float:
    """Teach `policy`, in place; its prior stays.

    Args:
        policy: the one that played the contrasts.
        contrasts: at least one; each of observations of another shape (`by_shape`).
        teaching: how.
        searched: name of a parameter -> 1 where it may change, 0 where not, of its shape.
        seed: of the order of turns.

    Returns:
        Share of the (clipped) costs' squares that the scores explain, over these contrasts.
    """
    lessons = [_Lesson(policy, each, teaching) for each in contrasts]
    along_gap = torch.zeros(1, requires_grad=True)  # what costs follow the prior's own gaps with
    sizes = [each.turns for each in lessons]
    fit = Fit(policy, searched, NOT_TAUGHT, teaching, sizes, along_gap)
    mean, count = [torch.zeros_like(each) for each in fit.weights], 0
    for step, (shape, turns) in enumerate(fit.turns(seed)):
        fit.step(lessons[shape].loss(turns, along_gap)[0])
        if step >= min(AVERAGED_FROM * fit.steps, fit.steps - 1):  # of few steps, the last
            count += 1
            for total, now in zip(mean, fit.weights, strict=True):
                total.add_((now.detach() - total) / count)
    with torch.no_grad():
        for total, now in zip(mean, fit.weights, strict=True):
            now.copy_(total)
        return _explained(lessons, along_gap)


@dataclass(frozen=True)
class Clipping(Fitting):
    """How PPO's objective is climbed."""

    unit_s: float  # job-seconds beyond which a cost counts as this
    clip: float  # of the ratio of chances


def improved(
    policy: PairScorePolicy,
    contrasts: Sequence[Contrasts],
    how: Clipping,
    searched: Mapping[str, Tensor],
    seed: int,
) -> float:
    """Climb PPO's objective with `policy`, in place; else as `taught`.

    Returns:
        Job-seconds that the new chances save a turn over the old, by the (clipped) costs seen.
    """
    choices = [_Choices(policy, each, how) for each in contrasts]
    mean_square = np.mean([float(each.advantage.square().mean()) for each in choices])
    unit = max(float(mean_square) ** 0.5, LEAST_ADVANTAGE)
    fit = Fit(policy, searched, UNREAD, how, [each.turns for each in choices])
    for shape, turns in fit.turns(seed):
        fit.step(-choices[shape].objective(turns) / unit)
    count = sum(each.turns for each in choices)
    return sum(each.saved_s() for each in choices) / count


def distil(
    policy: PairScorePolicy,
    shown: Sequence[Shown],
    how: Fitting,
    searched: Mapping[str, Tensor],
    seed: int,
) -> float:
    """Fit `policy`, in place, so that its choices are drawn as the teacher's would be.

    What is `shown` has at least one turn, each part another shape; else as `taught`.

    Returns:
        Share of the turns at which both choose alike, in the last epoch.
    """
    seen = [tensors_of(each.observations) for each in shown]
    scores = [torch.from_numpy(each.scores) for each in shown]
    fit = Fit(policy, searched, UNREAD, how, [len(each) for each in shown])
    alike: list[float] = []
    for shape, turns in fit.turns(seed):
        logits = policy({name: each[turns] for name, each in seen[shape].items()}).logits
        wanted = torch.softmax(scores[shape][turns], -1)
        loss = -(wanted * torch.log_softmax(logits, -1)).sum(-1).mean()
        fit.step(loss)
        alike.append(float((logits.argmax(-1) == wanted.argmax(-1)).float().mean()))
    return float(np.mean(alike[-fit.batches :]))


class _Choices:
    """What was taken and tried at each of N turns, in rows of equal length."""

    def __init__(self, policy: PairScorePolicy, contrasts: Contrasts, how: Clipping) -> None:
        self._policy, self._how = policy, how
        self._seen = tensors_of(contrasts.observations)
        self.turns = len(contrasts.observations["jobs"])
        order = np.argsort(contrasts.turn, kind="stable")
        turn = contrasts.turn[order]
        place = 1 + np.arange(len(turn)) - np.searchsorted(turn, turn)  # 0 is what was taken
        shape = (self.turns, 1 + int(place.max()))
        action, cost = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.float32)
        filled = np.zeros(shape, dtype=bool)
        action[turn, 0], filled[turn, 0] = contrasts.taken[order], True
        action[turn, place], filled[turn, place] = contrasts.tried[order], True
        cost[turn, place] = np.clip(contrasts.cost_s[order] / how.unit_s, -1.0, 1.0)
        self._action, self._filled = torch.from_numpy(action), torch.from_numpy(filled)
        self._cost = torch.from_numpy(cost)  # (N, most) in units; 0 where nothing is
        self._old = self._all_log_chances()
        # (N, most) in units, of each action
        self.advantage = (self._old.exp() * self._cost).sum(1, keepdim=True) - self._cost

    def objective(self, turns: IntArray) -> Tensor:
        """What PPO climbs, over these turns."""
        clip, old, advantage = self._how.clip, self._old[turns], self.advantage[turns]
        ratio = (self._log_chances(turns) - old).exp()
        near = ratio.clamp(1.0 - clip, 1.0 + clip)
        return (old.exp() * torch.minimum(ratio * advantage, near * advantage)).sum(1).mean()

    def saved_s(self) -> float:
        """Job-seconds that chances of now save over those of the beginning, in all."""
        moved = self._all_log_chances().exp() - self._old.exp()
        return -self._how.unit_s * float((moved * self._cost).sum())

    def _all_log_chances(self) -> Tensor:
        with torch.no_grad():
            blocks = blocks_of(self.turns, self._how.batch)
            return torch.cat([self._log_chances(turns) for turns in blocks])

    def _log_chances(self, turns: IntArray) -> Tensor:
        """(turns, most) of drawing each, were nothing else legal; very low where nothing is."""
        logits = self._policy({name: each[turns] for name, each in self._seen.items()}).logits
        chosen = logits.gather(1, self._action[turns])
        return torch.log_softmax(chosen.masked_fill(~self._filled[turns], MASKED), 1)


class Fit:
    """Steps of AdamW, at a rate that rises and falls, on batches of turns."""

    def __init__(
        self, policy: PairScorePolicy, searched: Mapping[str, Tensor], kept: tuple[str, ...],
        how: Fitting, turns: Sequence[int], *more: Tensor,
    ) -> None:  # fmt: skip
        """Fit what `searched` lets change; names that begin as one of `kept` stay.

        `turns`: how many there are of each shape. `more` is fitted too, but for the clipping of
        gradients.
        """
        named = [
            (name, each)
            for name, each in policy.named_parameters()
            if not name.startswith(kept) and each.requires_grad
        ]
        self.weights = [each for _, each in named]
        self._masks = [searched[name] for name, _ in named]
        self._turns, self._epochs = turns, how.epochs
        self._batches = [max(count // how.batch, 1) for count in turns]
        self.batches = sum(self._batches)
        self.steps = how.epochs * self.batches
        self._optimiser = torch.optim.AdamW(
            [*self.weights, *more], lr=how.learning_rate, weight_decay=how.weight_decay
        )
        total = self.steps + 1
        rise = WARM_SHARE if WARM_SHARE * total != 1.0 else 0.0  # torch divides by its length, 0
        self._schedule = torch.optim.lr_scheduler.OneCycleLR(
            self._optimiser, how.learning_rate, total_steps=total, pct_start=rise
        )

    def turns(self, seed: int) -> Iterator[tuple[int, IntArray]]:
        """Batches of turns of one shape, and which; in an order drawn anew each epoch."""
        rng = np.random.default_rng(seed)
        for _ in range(self._epochs):
            drawn = [
                (shape, turns)
                for shape, (count, batches) in enumerate(
                    zip(self._turns, self._batches, strict=True)
                )
                for turns in np.array_split(rng.permutation(count), batches)
            ]
            if len(self._turns) > 1:
                drawn = [drawn[at] for at in rng.permutation(len(drawn))]
            yield from drawn

    def step(self, loss: Tensor) -> None:
        """One step of what the masks let change."""
        self._optimiser.zero_grad()
        loss.backward()
        before = [each.detach().clone() for each in self.weights]
        for each, mask in zip(self.weights, self._masks, strict=True):
            if each.grad is not None:
                each.grad.mul_(mask)
        torch.nn.utils.clip_grad_norm_(self.weights, CLIP_NORM)
        self._optimiser.step()
        with torch.no_grad():
            for each, mask, old in zip(self.weights, self._masks, before, strict=True):
                each.copy_(torch.where(mask > 0, each, old))  # decay moves what has no gradient
        self._schedule.step()


class _Lesson:
    """Contrasts as tensors, and the policy's scores of them before it learned."""

    def __init__(self, policy: PairScorePolicy, contrasts: Contrasts, how: Teaching) -> None:
        self._policy, self._how = policy, how
        self._seen = tensors_of(contrasts.observations)
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
        self._asked = -how.step * torch.from_numpy(share).float()  # of what is added, to change
        self._target = self._asked.clone()
        self._target[rows] += own

    def _blocks(self) -> list[IntArray]:
        return blocks_of(self.turns, self._how.batch)

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
        """Weighted mean square of what is left, and of what was asked for."""
        added, rows = self._added(turns)
        weight, asked = self._weight[rows], self._asked[rows]
        left = added + along_gap * self._gap[rows] - self._target[rows]
        return (weight * left**2).sum() / weight.sum(), (weight * asked**2).sum() / weight.sum()

    def losses(self, along_gap: Tensor) -> list[tuple[Tensor, Tensor]]:
        """The same, block by block of all turns."""
        return [self.loss(turns, along_gap) for turns in self._blocks()]


def _explained(lessons: Sequence[_Lesson], along_gap: Tensor) -> float:
    """Share of the squares of what was asked for."""
    both = [each for lesson in lessons for each in lesson.losses(along_gap)]
    left, whole = (sum(float(each[part]) for each in both) for part in (0, 1))
    return 1.0 - left / whole if whole > 0 else 0.0
