"""The steps of whale optimisation, as the published code of WORL-RTGS takes them."""

from dataclasses import dataclass

import numpy as np

SPIRAL = 1.0  # b: how tight the spiral is


@dataclass(frozen=True)
class Step:
    """Where a whale swims: its target, and how far beyond or before it."""

    to_leader: bool  # else to a random other whale
    factor: float  # hope = target + factor * (target - current); the sign is random


def draw_step(spent_share: float, rng: np.random.Generator) -> Step:
    """Encircle, swim a spiral, or wander.

    With a falling from 2 to 0, A = 2 a r - a; |A| < 1 goes to the leader, half of the times along
    a spiral; else to another whale. Source: Mirjalili, Lewis, "The whale optimization algorithm"
    (Advances in Engineering Software 95, 2016); signs and the spiral without a distance of its
    own as in the public Java of WORL-RTGS.
    """
    reach = 2.0 * (1.0 - spent_share)
    factor = 2.0 * reach * rng.random() - reach
    to_leader = abs(factor) < 1.0
    if to_leader and rng.random() > 0.5:  # noqa: PLR2004  (a fair coin)
        turn = rng.uniform(-1.0, 1.0)
        factor = float(np.exp(SPIRAL * turn) * np.cos(2.0 * np.pi * turn))
    sign = 1.0 if rng.random() < 0.5 else -1.0  # noqa: PLR2004
    return Step(to_leader, sign * factor)


def target_of(step: Step, whale: int, leader: int, count: int, rng: np.random.Generator) -> int:
    """The whale to swim to; alone, a whale swims to itself."""
    if step.to_leader or count == 1:
        return leader
    other = int(rng.integers(count - 1))
    return other + (other >= whale)
