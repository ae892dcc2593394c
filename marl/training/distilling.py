"""A network taught by a score that sees more: imitation of what is known to be good.

The network plays, and the teacher says at some of its turns how it would have scored each action
(Ross, Gordon, Bagnell, "A Reduction of Imitation Learning and Structured Prediction to No-Regret
Online Learning", AISTATS 2011: DAgger). The teacher reads all columns of an observation, also those
that are hidden from the network, so this shows what can be made of the others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from marl.codec.layout import CodecRules, Observation, layout_for
from marl.codec.stack import stack
from marl.net.from_torch import net_of
from marl.net.playing import choose, link
from marl.policy.pair_score import UNREAD, PairScorePolicy
from marl.training.contrasts import batches_of, step_within
from marl.turns.turns import Turns
from sim.arrays import FloatArray
from sim.simulator import Simulator

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
    named = [
        (name, each)
        for name, each in policy.named_parameters()
        if not name.startswith(UNREAD) and each.requires_grad
    ]
    weights, masks = [each for _, each in named], [searched[name] for name, _ in named]
    seen = {name: torch.from_numpy(value) for name, value in shown.observations.items()}
    scores = torch.from_numpy(shown.scores)
    batches = max(len(shown) // how.batch, 1)
    optimiser = torch.optim.AdamW(weights, lr=how.learning_rate, weight_decay=how.weight_decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, how.learning_rate, total_steps=how.epochs * batches + 1, pct_start=0.1
    )
    alike: list[float] = []
    for turns in batches_of(len(shown), batches, how.epochs, seed):
        logits = policy({name: each[turns] for name, each in seen.items()}).logits
        wanted = torch.softmax(scores[turns], -1)
        loss = -(wanted * torch.log_softmax(logits, -1)).sum(-1).mean()
        optimiser.zero_grad()
        loss.backward()
        step_within(optimiser, weights, masks)
        schedule.step()
        alike.append(float((logits.argmax(-1) == wanted.argmax(-1)).float().mean()))
    return float(np.mean(alike[-batches:]))
