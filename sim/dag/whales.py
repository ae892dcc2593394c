"""Whale optimisation with the steps of WORL-RTGS's published code: `woa`, `rtgs`, `worl_rtgs`.

They differ in what a whale's position is, and in how a plan is made of it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray
from sim.dag.list_scheduling import Generator, gap_plan, placed
from sim.dag.plan import (
    Plan,
    mirrored,
    optimistic_costs,
    order_of,
    plan_of_schedule,
    running_times_s,
    slack_s,
)
from sim.dag.problem import DagArrays, DagProblem
from sim.dag.search import NOISE_LOG10, Judged, Meter, Start
from sim.jit import kernel

SPIRAL = 1.0  # b: how tight the spiral is


@dataclass(frozen=True)
class Step:
    """Where a whale swims: its target, and how far beyond or before it."""

    to_leader: bool  # else to a random other whale
    factor: float  # hope = target + factor * (target - current); the sign is random


def draw_step(spent_share: float, rng: np.random.Generator) -> Step:
    """Encircle, swim a spiral, or wander.

    With a falling from 2 to 0, plan by plan that is judged, A = 2 a r - a; |A| < 1 goes to the
    leader, half of the times along a spiral; else to another whale. Source: Mirjalili, Lewis, "The
    whale optimization algorithm" (Advances in Engineering Software 95, 2016); signs and the spiral
    without a distance of its own as in the public Java of WORL-RTGS.
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

        def made(spot: FloatArray, target: Plan) -> tuple[Plan, FloatArray]:
            at = np.clip(spot, 0.0, problem.num_gpus - 1.0)
            gpu = by_speed[np.rint(at).astype(np.int64)]
            fits = problem.graph.need_gib <= problem.machines.memory_gib[gpu]
            return Plan(np.where(fits, gpu, target.gpu), target.order), at

        _swim(starts, meter, rng, lambda plan: number[plan.gpu].astype(np.float64), made)


def _swim(
    starts: list[Start], meter: Meter, rng: np.random.Generator,
    position: Callable[[Plan], FloatArray],
    made: Callable[[FloatArray, Plan], tuple[Plan, FloatArray]],
) -> None:  # fmt: skip
    """Whales but the leader step in turn, until the meter is spent.

    Args:
        starts: a whale each.
        meter: see `Search`.
        rng: see `Search`.
        position: where a start plan is.
        made: the plan of where a whale swam to, with its target's plan, and where that is.
    """
    whales = [meter.judge(start.plan) for start in starts[: meter.left]]
    at = [position(whale.plan) for whale in whales]
    while meter.left:
        leader = min(range(len(whales)), key=lambda w: whales[w].makespan_s)
        for whale in range(len(whales)):
            if (whale == leader and len(whales) > 1) or not meter.left:
                continue
            step = draw_step(meter.spent_share, rng)
            target = target_of(step, whale, leader, len(whales), rng)
            spot = at[target] + step.factor * (at[target] - at[whale])
            plan, at[whale] = made(spot, whales[target].plan)
            whales[whale] = meter.judge(plan)


class RtgsSearch:
    """Whales swim in running times; a plan is made of the hoped ones task by task.

    Source: RTGS (J. Supercomputing 81:911, 2025) as the public Java of WORL-RTGS (Big Data Cogn.
    Comput. 9(11):284, 2025) has it: position = load of the hosting GPU, tasks in order of their
    numbers, GPU with the least |hope - load after the task|. Transfers play no part in making a
    plan, and do in judging it.
    """

    name = "rtgs"

    def search(self, starts: list[Start], meter: Meter, rng: np.random.Generator) -> None:
        """See `Search`."""
        problem = meter.problem
        order = np.arange(problem.num_tasks)
        load = np.empty(problem.num_gpus)

        def made(hope: FloatArray, _: Plan) -> tuple[Plan, FloatArray]:
            gpu = np.empty(problem.num_tasks, dtype=np.int64)
            nearest_loads(problem.arrays, hope, load, gpu)
            return Plan(gpu, order), running_times_s(problem, gpu)

        _swim(starts, meter, rng, lambda plan: running_times_s(problem, plan.gpu), made)


@kernel
def nearest_loads(dag: DagArrays, hope: FloatArray, load: FloatArray, gpu: IntArray) -> None:
    """Fill `gpu` (n,): of those that a task fits, the one whose load with it is nearest to hope."""
    load[:] = 0.0
    for task in range(len(hope)):  # by number, as published: each adds to loads that the next sees
        best = np.inf
        for here in range(len(load)):  # of equal gaps the lowest number
            if dag.need[task] > dag.memory[here]:
                continue
            gap = abs(hope[task] - (load[here] + dag.work[task] / dag.speed[here]))
            if gap < best:
                best = gap
                gpu[task] = here
        load[gpu[task]] += dag.work[task] / dag.speed[gpu[task]]


CRITICAL = 0.05  # of the makespan: tasks with less slack than about this move most
MOVING_LOG10 = (-2.5, -0.3)  # share of the tasks that move, drawn evenly on a log scale
LEAVES = 0.3  # share of the moving tasks that leave their GPU, in half of the plans
FORESIGHTS = (0.0, 0.1, 0.25, 0.5, 1.0)  # weights of what still comes after a task
NEW_FORESIGHT = 0.3  # share of plans that draw another weight
GATHER = 1.25  # times the leader's makespan: whales that begin beyond it begin at the leader
WIDE = 0.5  # share of plans whose shortlist is all GPUs
AFRESH = 0.1  # share of plans with noise on every task of the best start plan
TURNED = 0.15  # share of plans that are then made once more from the end


@dataclass(frozen=True)
class Whale:
    """A plan and the hoped running times that it was made of."""

    judged: Judged
    to_go_s: FloatArray  # (n,)
    foresight: float

    @property
    def makespan_s(self) -> float:
        """When its last task ends."""
        return self.judged.makespan_s


class Sea:
    """What one search keeps of its problem."""

    def __init__(self, meter: Meter, generator: Generator, wide: float) -> None:
        """Tables and the mirror."""
        self.meter = meter
        self.generator = generator
        self.wide = wide
        self.problem = meter.problem
        self.dag = self.problem.arrays
        self.mirror: DagArrays = mirrored(self.dag)
        self.flat = np.zeros((1, self.problem.num_gpus))
        self._table = optimistic_costs(self.dag, self.problem.mean_s_per_mb)

    def outlook(self, foresight: float) -> FloatArray:
        """PEFT's optimistic costs (n, g) times `foresight`; (1, g) zeros without any."""
        return self._table * foresight if foresight else self.flat


class WorlRtgsSearch:
    """Whales swim in running times to go; a plan is made of the hoped ones (`gap_plan`).

    After Du, Wu, Hou, Nie, Song (Big Data Cogn. Comput. 9(11):284, 2025), whose code knows no
    transfers and no order of tasks. As published: ten whales, about fifty rounds, the steps, the
    hope = target + factor (target - current), GPUs with a small gap between hoped-for and actual
    load. Chosen here:

    - the position is the running time from a task's start to the end of the plan, which decides
      what is placed first; the hoped-for load of a task's GPU is its finish in the target's plan;
    - of the 16 GPUs nearest to that load, those of the parents, and the target's, a task goes
      where it ends first, gaps filled, with a weight of its own for what still comes after it; for
      half of the plans the shortlist is all GPUs;
    - a finish-time gap says which tasks move: the less later a task could end without delaying
      the plan, the likelier; those that move get noise, and in half of the plans some of them
      leave their GPU;
    - some plans are made once more from the end: the same generator on the mirrored DAG says
      which GPUs and which running times to hope for;
    - a whale that would get worse stays.
    """

    name = "worl_rtgs"
    generator: Generator = staticmethod(gap_plan)
    wide = WIDE

    def search(self, starts: list[Start], meter: Meter, rng: np.random.Generator) -> None:
        """See `Search`."""
        sea = Sea(meter, self.generator, self.wide)
        whales = [Whale(meter.judge(s.plan), s.to_go_s, 0.0) for s in starts[: meter.left]]
        first = min(whales, key=lambda whale: whale.makespan_s)
        near = GATHER * first.makespan_s
        whales = [whale if whale.makespan_s <= near else first for whale in whales]
        while meter.left:
            for place, whale in enumerate(whales):
                if not meter.left:
                    break
                leader = min(range(len(whales)), key=lambda w: whales[w].makespan_s)
                step = draw_step(meter.spent_share, rng)
                target = whales[target_of(step, place, leader, len(whales), rng)]
                if rng.random() < AFRESH:
                    found = _afresh(sea, first, rng)
                else:
                    found = _moved(sea, whale, target, step, rng)
                if found.makespan_s <= whale.makespan_s:
                    whales[place] = found


def _moved(sea: Sea, whale: Whale, target: Whale, step: Step, rng: np.random.Generator) -> Whale:
    """The whale after one step: the better of its plan and, for some, the one from the end."""
    moves = moving_tasks(sea.problem, target.judged, rng)
    noise = 10.0 ** rng.uniform(*NOISE_LOG10) * rng.standard_normal(len(moves))
    swum = step.factor * (target.to_go_s - whale.to_go_s) + noise * target.to_go_s
    to_go_s = np.maximum(target.to_go_s + np.where(moves, swum, 0.0), 0.0)
    leaves = leaving_tasks(moves, rng)
    found = _made(sea, target, to_go_s, leaves, rng)
    if sea.meter.left and rng.random() < TURNED:
        turned = from_the_end(sea, found)
        return min(found, turned, key=lambda one: one.makespan_s)
    return found


def _afresh(sea: Sea, first: Whale, rng: np.random.Generator) -> Whale:
    """A whale near the best start plan, whatever has been found since."""
    count = len(first.to_go_s)
    noise = 10.0 ** rng.uniform(*NOISE_LOG10) * rng.standard_normal(count)
    return _made(sea, first, first.to_go_s * (1.0 + noise), np.zeros(count, dtype=np.bool_), rng)


def _made(
    sea: Sea, target: Whale, to_go_s: FloatArray, leaves: BoolArray, rng: np.random.Generator
) -> Whale:
    """The plan of these running times to go, with the target's loads hoped for."""
    foresight = target.foresight
    if rng.random() < NEW_FORESIGHT:
        foresight = float(rng.choice(FORESIGHTS))
    if rng.random() < sea.wide:
        order = order_of(sea.dag, to_go_s)
        plan = placed(sea.problem, order, outlook=sea.outlook(foresight))
        return Whale(sea.meter.judge(plan), to_go_s, foresight)
    aim = target.judged
    gpu, times = sea.generator(
        sea.dag, to_go_s, aim.schedule.finish_s, aim.plan.gpu,
        leaves=leaves, outlook=sea.outlook(foresight),
    )  # fmt: skip
    return Whale(sea.meter.judge(plan_of_schedule(gpu, times)), to_go_s, foresight)


def from_the_end(sea: Sea, whale: Whale) -> Whale:
    """A plan made backwards from a whale's, then moved to the front with its GPUs."""
    plan, times = whale.judged.plan, whale.judged.schedule
    stay = np.zeros(len(plan.gpu), dtype=np.bool_)
    gpu, turned = sea.generator(
        sea.mirror, times.finish_s[::-1].copy(), (whale.makespan_s - times.start_s)[::-1].copy(),
        plan.gpu[::-1].copy(), leaves=stay, outlook=sea.flat,
    )  # fmt: skip
    to_go_s = turned.finish_s[::-1].copy()
    order = order_of(sea.dag, to_go_s)
    moved = placed(sea.problem, order, pinned=gpu[::-1].copy())
    return Whale(sea.meter.judge(moved), to_go_s, whale.foresight)


def moving_tasks(problem: DagProblem, judged: Judged, rng: np.random.Generator) -> BoolArray:
    """(n,) a random share of the tasks, the critical ones much likelier."""
    plan, times = judged.plan, judged.schedule
    slack = slack_s(problem.arrays, plan.gpu, plan.order, times.start_s, times.finish_s)
    weight = np.exp(-slack / max(CRITICAL * judged.makespan_s, 1e-300))
    wanted = 10.0 ** rng.uniform(*MOVING_LOG10) * len(slack)
    moves: BoolArray = rng.random(len(slack)) < wanted * weight / weight.sum()
    return moves


def leaving_tasks(moves: BoolArray, rng: np.random.Generator) -> BoolArray:
    """(n,) those of the moving tasks that leave their GPU: in half of the plans, none."""
    return moves & (rng.random(len(moves)) < LEAVES * rng.integers(2))
