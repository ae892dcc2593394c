"""A network taught: by contrasts, or by a score that sees more.

By contrasts, scores move by what the other action was seen to cost or save.

Paired branches say what an action cost more than the one that was taken, with far more noise than
signal. The network, without its prior, is regressed on that: what it adds to the score of the one
less what it adds to that of the other. Costs beyond a bound count as the bound, for their tails are
all noise. How far the new scores go is not for regression to say but for playing.

By the same contrasts PPO's clipped objective (Schulman et al., "Proximal Policy Optimization
Algorithms", 2017, eq. 7) can be climbed instead. Its advantages are paired: what an action cost
beside what the policy's own mixture of the actions tried at that turn cost, under one future. All
weights move then, the prior's too, and no further than the clip lets them.

By a score that sees more, what is known to be good is imitated: the network plays, and the teacher
says at some of its turns how it would have scored each action (Ross, Gordon, Bagnell, "A Reduction
of Imitation Learning and Structured Prediction to No-Regret Online Learning", AISTATS 2011:
DAgger). The teacher reads all columns of an observation, also those that are hidden from the
network, so this shows what can be made of the others.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from marl.codec.layout import CodecRules, Observation, layout_for
from marl.net.branching import Contrasts
from marl.net.from_torch import net_of
from marl.net.network import choose, link
from marl.policy.pair_score import MASKED, UNREAD, PairScorePolicy, stack
from marl.turns.turns import Turns
from sim.arrays import FloatArray, IntArray
from sim.simulator import Simulator

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
    lesson = _Lesson(policy, contrasts, teaching)
    along_gap = torch.zeros(1, requires_grad=True)  # what costs follow the prior's own gaps with
    fit = _Fit(policy, searched, NOT_TAUGHT, teaching, lesson.turns, along_gap)
    mean, count = [torch.zeros_like(each) for each in fit.weights], 0
    for step, turns in enumerate(fit.turns(seed)):
        fit.step(lesson.loss(turns, along_gap)[0])
        if step >= AVERAGED_FROM * fit.steps:
            count += 1
            for total, now in zip(mean, fit.weights, strict=True):
                total.add_((now.detach() - total) / count)
    with torch.no_grad():
        for total, now in zip(mean, fit.weights, strict=True):
            now.copy_(total)
        return lesson.explained(along_gap)


@dataclass(frozen=True)
class Clipping:
    """How PPO's objective is climbed."""

    epochs: int
    batch: int  # turns
    learning_rate: float
    weight_decay: float
    unit_s: float  # job-seconds beyond which a cost counts as this
    clip: float  # of the ratio of chances


def improved(
    policy: PairScorePolicy,
    contrasts: Contrasts,
    how: Clipping,
    searched: Mapping[str, Tensor],
    seed: int,
) -> float:
    """Climb PPO's objective with `policy`, in place.

    Args:
        policy: the one that played the contrasts.
        contrasts: at least one.
        how: the climb.
        searched: name of a parameter -> 1 where it may change, 0 where not, of its shape.
        seed: of the order of turns.

    Returns:
        Job-seconds that the new chances save a turn over the old, by the (clipped) costs seen.
    """
    choices = _Choices(policy, contrasts, how.unit_s)
    fit = _Fit(policy, searched, UNREAD, how, choices.turns)
    with torch.no_grad():
        old = torch.cat([choices.log_chances(turns) for turns in choices.blocks(how.batch)])
    saves = -choices.cost * how.unit_s
    advantage = (old.exp() * choices.cost).sum(1, keepdim=True) - choices.cost
    advantage = advantage / advantage.square().mean().sqrt().clamp_min(1e-9)
    for turns in fit.turns(seed):
        ratio = (choices.log_chances(turns) - old[turns]).exp()
        near = ratio.clamp(1.0 - how.clip, 1.0 + how.clip)
        gain = torch.minimum(ratio * advantage[turns], near * advantage[turns])
        fit.step(-(old[turns].exp() * gain).sum(1).mean())
    with torch.no_grad():
        new = torch.cat([choices.log_chances(turns) for turns in choices.blocks(how.batch)])
        return float(((new.exp() - old.exp()) * saves).sum(1).mean())


class _Choices:
    """What was taken and tried at each of N turns, in rows of equal length."""

    def __init__(self, policy: PairScorePolicy, contrasts: Contrasts, unit_s: float) -> None:
        self._policy = policy
        self._seen = {
            name: torch.from_numpy(value) for name, value in contrasts.observations.items()
        }
        self.turns = len(contrasts.observations["jobs"])
        order = np.argsort(contrasts.turn, kind="stable")
        turn = contrasts.turn[order]
        place = 1 + np.arange(len(turn)) - np.searchsorted(turn, turn)  # 0 is what was taken
        shape = (self.turns, 1 + int(place.max()))
        action, cost = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.float32)
        there = np.zeros(shape, dtype=bool)
        action[turn, 0], there[turn, 0] = contrasts.taken[order], True
        action[turn, place], there[turn, place] = contrasts.tried[order], True
        cost[turn, place] = np.clip(contrasts.cost_s[order] / unit_s, -1.0, 1.0)
        self._action, self._there = torch.from_numpy(action), torch.from_numpy(there)
        self.cost = torch.from_numpy(cost)  # (N, most) in units; 0 where nothing is

    def blocks(self, size: int) -> list[IntArray]:
        return np.array_split(np.arange(self.turns), max(self.turns // size, 1))

    def log_chances(self, turns: IntArray) -> Tensor:
        """(turns, most) of drawing each, were nothing else legal; very low where nothing is."""
        logits = self._policy({name: each[turns] for name, each in self._seen.items()}).logits
        chosen = logits.gather(1, self._action[turns])
        return torch.log_softmax(chosen.masked_fill(~self._there[turns], MASKED), 1)


class _Fit:
    """Steps of AdamW, at a rate that rises and falls, on batches of turns."""

    def __init__(
        self, policy: PairScorePolicy, searched: Mapping[str, Tensor], kept: tuple[str, ...],
        how: "Teaching | Clipping | Distilling", turns: int, *more: Tensor,
    ) -> None:  # fmt: skip
        """Fit what `searched` lets change; names that begin as one of `kept` stay.

        `more` is fitted too, but for the clipping of gradients.
        """
        named = [
            (name, each)
            for name, each in policy.named_parameters()
            if not name.startswith(kept) and each.requires_grad
        ]
        self.weights = [each for _, each in named]
        self._masks = [searched[name] for name, _ in named]
        self._turns, self._epochs = turns, how.epochs
        self.batches = max(turns // how.batch, 1)
        self.steps = how.epochs * self.batches
        self._optimiser = torch.optim.AdamW(
            [*self.weights, *more], lr=how.learning_rate, weight_decay=how.weight_decay
        )
        self._schedule = torch.optim.lr_scheduler.OneCycleLR(
            self._optimiser, how.learning_rate, total_steps=self.steps + 1, pct_start=WARM_SHARE
        )

    def turns(self, seed: int) -> Iterator[IntArray]:
        """Batches of turns, in an order drawn anew each epoch."""
        rng = np.random.default_rng(seed)
        for _ in range(self._epochs):
            yield from np.array_split(rng.permutation(self._turns), self.batches)

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


BATCH_OF_SCORES = 512  # observations that a teacher scores at once


@dataclass(frozen=True, eq=False)
class Shown:
    """N turns, and how the teacher scores the actions there."""

    observations: Observation  # name -> (N, ...)
    scores: FloatArray  # (N, actions) float32, very low where not legal

    def __len__(self) -> int:
        """N."""
        return len(self.scores)


@dataclass(frozen=True)
class Distilling:
    """How a network is fitted to what it was shown."""

    epochs: int
    batch: int  # turns
    learning_rate: float
    weight_decay: float


def joined(parts: Sequence[Shown]) -> Shown:
    """All of them as one; `parts` is not empty."""
    return Shown(
        {
            name: np.concatenate([part.observations[name] for part in parts])
            for name in parts[0].observations
        },
        np.concatenate([part.scores for part in parts]),
    )


def watch(
    player: PairScorePolicy,
    teacher: PairScorePolicy,
    rules: CodecRules,
    simulator: Simulator,
    share: float,
    seed: int,
) -> Shown | None:
    """Let `player` play one fresh run; the teacher scores a share of the turns, drawn from `seed`.

    Returns:
        None if no turn was drawn.

    Raises:
        ValueError: the player is not compiled (`marl.net.from_torch.why_torch`).
        SimulationError: jobs wait for ever.
        InvalidDecision: the simulator refused an action.
    """
    layout = layout_for(simulator.topology, simulator.partition_of_server, rules)
    net = net_of(player.eval(), layout)
    if net is None:
        raise ValueError("who is watched plays compiled: encoder=hierarchical")
    run = Turns(simulator, layout, rules, gathers=False)
    link(net, run.play)
    rng = np.random.default_rng(seed)
    seen: list[Observation] = []
    while run.next():
        if rng.random() < share:
            seen.append(run.seen())
        run.act(int(choose(run.play, net)))
    if not seen:
        return None
    found = {name: value.numpy() for name, value in stack(seen).items()}
    return Shown(found, _scores(teacher, found))


def _scores(teacher: PairScorePolicy, seen: Observation) -> FloatArray:
    """(N, actions) what a teacher says."""
    said = []
    with torch.no_grad():
        for first in range(0, len(seen["jobs"]), BATCH_OF_SCORES):
            rows = slice(first, first + BATCH_OF_SCORES)
            part = {name: torch.from_numpy(value[rows]) for name, value in seen.items()}
            said.append(teacher(part).logits.numpy())
    return np.concatenate(said)


def distil(
    policy: PairScorePolicy,
    shown: Shown,
    how: Distilling,
    searched: Mapping[str, Tensor],
    seed: int,
) -> float:
    """Fit `policy`, in place, so that its choices are drawn as the teacher's would be.

    Args:
        policy: of any weights.
        shown: at least one turn.
        how: the fit.
        searched: name of a parameter -> 1 where it may change, 0 where not, of its shape.
        seed: of the order of turns.

    Returns:
        Share of the turns at which both choose alike, in the last epoch.
    """
    seen = {name: torch.from_numpy(value) for name, value in shown.observations.items()}
    scores = torch.from_numpy(shown.scores)
    fit = _Fit(policy, searched, UNREAD, how, len(shown))
    alike: list[float] = []
    for turns in fit.turns(seed):
        logits = policy({name: each[turns] for name, each in seen.items()}).logits
        wanted = torch.softmax(scores[turns], -1)
        loss = -(wanted * torch.log_softmax(logits, -1)).sum(-1).mean()
        fit.step(loss)
        alike.append(float((logits.argmax(-1) == wanted.argmax(-1)).float().mean()))
    return float(np.mean(alike[-fit.batches :]))
