"""A genetic algorithm on GPUs and orders."""

from dataclasses import dataclass

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.dag.list_scheduling import placed
from sim.dag.plan import Plan
from sim.dag.priority import order_of
from sim.dag.problem import DagProblem
from sim.dag.search.protocol import Judged, Meter, Start, random_gpus, random_start

POPULATION = 20
ELITE = 2  # that live on unchanged
TOURNAMENT = 3
MUTATIONS = 1.0  # GPUs that change in a child, on average
NOISE = 0.05  # of a moved task's start, over the makespan


@dataclass(frozen=True)
class Individual:
    """GPUs and when tasks are to start, and the plan that comes of it."""

    judged: Judged
    gpu: IntArray  # (n,)
    start_s: FloatArray  # (n,) in its own schedule: an order

    @property
    def makespan_s(self) -> float:
        """When its last task ends."""
        return self.judged.makespan_s


class GeneticSearch:
    """Tournaments, one cut through both genes in order of starts, a few mutations, an elite.

    The order-and-GPU chromosome of genetic algorithms for DAGs (as in Omara, Arafa, J. Parallel
    Distrib. Comput. 70:1, 2010), decoded with gaps filled, which helps it. Its numbers were chosen
    on tuning instances (docs/policies/worl_rtgs.md).
    """

    name = "ga"

    def search(self, starts: list[Start], meter: Meter, rng: np.random.Generator) -> None:
        """See `Search`."""
        more = [random_start(meter.problem, rng) for _ in range(POPULATION - len(starts))]
        first = [*starts, *more][: min(POPULATION, meter.left)]
        herd = [_individual(meter.judge(start.plan)) for start in first]
        while meter.left:
            herd.sort(key=lambda one: one.makespan_s)
            young = []
            for _ in range(min(POPULATION - ELITE, meter.left)):
                young.append(_child(meter, _picked(herd, rng), _picked(herd, rng), rng))
            herd = herd[:ELITE] + young


def _individual(judged: Judged) -> Individual:
    return Individual(judged, judged.plan.gpu, judged.schedule.start_s)


def _picked(herd: list[Individual], rng: np.random.Generator) -> Individual:
    rows = rng.integers(len(herd), size=TOURNAMENT)
    return herd[min(rows.tolist(), key=lambda row: herd[row].makespan_s)]


def _child(
    meter: Meter, one: Individual, other: Individual, rng: np.random.Generator
) -> Individual:
    """Of two parents: the tasks that start before a random time from one, the rest of the other."""
    problem = meter.problem
    cut = rng.uniform(0.0, one.makespan_s)
    mine = one.start_s < cut
    gpu = np.where(mine, one.gpu, other.gpu)
    start_s = np.where(mine, one.start_s, np.maximum(other.start_s, cut))
    moved = np.flatnonzero(rng.random(len(gpu)) < MUTATIONS / len(gpu))
    gpu[moved] = random_gpus(problem, moved, rng)
    shaken = rng.random(len(gpu)) < MUTATIONS / len(gpu)
    start_s = start_s + NOISE * one.makespan_s * rng.standard_normal(len(gpu)) * shaken
    return _individual(meter.judge(pinned_plan_of(problem, gpu, start_s)))


def pinned_plan_of(problem: DagProblem, gpu: IntArray, start_s: FloatArray) -> Plan:
    """Tasks on these GPUs, placed in order of these starts, gaps filled."""
    order = order_of(problem.arrays, start_s.max(initial=0.0) - start_s)
    return placed(problem, order, pinned=gpu)
