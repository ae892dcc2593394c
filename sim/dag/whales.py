"""Whale optimisation as the published code of WORL-RTGS takes its steps, and the plain search."""

from dataclasses import dataclass

import numpy as np

from sim.arrays import FloatArray
from sim.dag.plan import Plan
from sim.dag.problem import DagProblem
from sim.dag.protocol import Judged, Meter, Start

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


class WhaleSearch:
    """GPUs in order of speed, so that near numbers are GPUs alike; tasks in the order of starts.

    The rest is the loop of WORL-RTGS (`whales`): what its position and generator are worth shows
    beside this. A task that does not fit the GPU of its number stays where its target has it.
    """

    name = "woa"

    def search(self, starts: list[Start], meter: Meter, rng: np.random.Generator) -> None:
        """See `Search`."""
        problem = meter.problem
        by_speed = np.argsort(problem.machines.speed, kind="stable")
        number = np.empty(problem.num_gpus, dtype=np.int64)
        number[by_speed] = np.arange(problem.num_gpus)
        whales = [meter.judge(start.plan) for start in starts[: meter.left]]
        at = [number[whale.plan.gpu].astype(np.float64) for whale in whales]
        while meter.left:
            leader = min(range(len(whales)), key=lambda w: whales[w].makespan_s)
            for whale in range(len(whales)):
                if (whale == leader and len(whales) > 1) or not meter.left:
                    continue
                step = draw_step(meter.spent_share, rng)
                target = target_of(step, whale, leader, len(whales), rng)
                spot = at[target] + step.factor * (at[target] - at[whale])
                at[whale] = np.clip(spot, 0.0, problem.num_gpus - 1.0)
                whales[whale] = meter.judge(_plan(problem, at[whale], by_speed, whales[target]))


def _plan(problem: DagProblem, spot: FloatArray, by_speed: np.ndarray, target: Judged) -> Plan:
    gpu = by_speed[np.rint(spot).astype(np.int64)]
    fits = problem.graph.need_gib <= problem.machines.room_gib[gpu]
    return Plan(np.where(fits, gpu, target.plan.gpu), target.plan.order)
