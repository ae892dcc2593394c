"""A network shown what a score that sees more would do.

What is known to be good is imitated: the network plays, and the teacher says at some of its turns
how it would have scored each action (Ross, Gordon, Bagnell, "A Reduction of Imitation Learning and
Structured Prediction to No-Regret Online Learning", AISTATS 2011: DAgger). The teacher reads all
columns of an observation, also those that are hidden from the network, so this shows what can be
made of the others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from marl.codec.layout import CodecRules, Observation, layout_for
from marl.net.from_torch import net_of
from marl.net.network import choose, link
from marl.policy.pair_score import UNREAD, PairScorePolicy, stack
from marl.training.teaching import Fit, Fitting, tensors_of
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
    shown: Sequence[Shown],
    how: Fitting,
    searched: Mapping[str, Tensor],
    seed: int,
) -> float:
    """Fit `policy`, in place, so that its choices are drawn as the teacher's would be.

    Args:
        policy: of any weights.
        shown: at least one turn; each of observations of another shape (`by_shape`).
        how: the fit.
        searched: name of a parameter -> 1 where it may change, 0 where not, of its shape.
        seed: of the order of turns.

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
