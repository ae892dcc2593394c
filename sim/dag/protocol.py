"""One protocol for all searches: the same start plans, the same number of plans judged."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.dag.evaluate import schedule
from sim.dag.graph import DagError
from sim.dag.list_scheduling import heft
from sim.dag.plan import Plan, Schedule
from sim.dag.problem import DagProblem
from sim.dag.ranks import time_to_go, upward_rank_s


@dataclass(frozen=True)
class Start:
    """A plan to begin from."""

    plan: Plan
    to_go_s: FloatArray  # (n,) running time to go, by which its tasks were ordered


@dataclass(frozen=True)
class Judged:
    """A plan with what it came to."""

    plan: Plan
    schedule: Schedule

    @property
    def makespan_s(self) -> float:
        """When its last task ends."""
        return self.schedule.makespan_s


class Meter:
    """Judges plans, counts them, and keeps the best: what a search may spend."""

    def __init__(self, problem: DagProblem, budget: int) -> None:
        """Nothing spent.

        Raises:
            DagError: a budget below 1.
        """
        if budget < 1:
            raise DagError(f"a budget of {budget} plans; it must be at least 1")
        self.problem = problem
        self.budget = budget
        self._best_s: list[float] = []
        self._best: Judged | None = None

    @property
    def left(self) -> int:
        """How many plans may still be judged."""
        return self.budget - len(self._best_s)

    @property
    def spent_share(self) -> float:
        """0 at the beginning, 1 at the end."""
        return len(self._best_s) / self.budget

    @property
    def best(self) -> Judged:
        """The best plan so far, of equals the first.

        Raises:
            DagError: none was judged.
        """
        if self._best is None:
            raise DagError("no plan was judged yet")
        return self._best

    @property
    def history_s(self) -> FloatArray:
        """(plans judged,) the best makespan after each."""
        return np.array(self._best_s)

    def judge(self, plan: Plan) -> Judged:
        """Evaluate a plan.

        Raises:
            DagError: the budget is spent.
        """
        if not self.left:
            raise DagError(f"all {self.budget} plans are spent; ask `left` before judging")
        found = Judged(plan, schedule(self.problem, plan))
        if self._best is None or found.makespan_s < self._best.makespan_s:
            self._best = found
        self._best_s.append(self._best.makespan_s)
        return found


class Search(Protocol):
    """A way to look for good plans."""

    name: str

    def search(self, starts: list[Start], meter: Meter, rng: np.random.Generator) -> None:
        """Spend the meter; what was found is its `best`.

        Args:
            starts: at least one; a search may use fewer than there are, or draw more.
            meter: of one problem; start plans count as well once they are judged.
            rng: the only source of chance.
        """
        ...


def start_plans(
    problem: DagProblem, count: int, *, seeded: bool, rng: np.random.Generator
) -> list[Start]:
    """`count` plans with random GPUs in order of numbers; the first is HEFT's if `seeded`.

    HEFT's plan comes with HEFT's ranks.
    """
    plans = [random_start(problem, rng) for _ in range(count)]
    if seeded:
        plans[0] = Start(heft(problem), upward_rank_s(problem))
    return plans


def random_start(problem: DagProblem, rng: np.random.Generator) -> Start:
    """Each task on any GPU that it fits, in order of task numbers, as published."""
    gpu = random_gpus(problem, np.arange(problem.num_tasks), rng)
    return Start(Plan(gpu, np.arange(problem.num_tasks)), time_to_go(problem.arrays, gpu))


def random_gpus(problem: DagProblem, tasks: IntArray, rng: np.random.Generator) -> IntArray:
    """A GPU for each of the tasks, uniform over those that it fits."""
    need, room = problem.graph.need_gib, problem.machines.room_gib
    gpu = rng.integers(problem.num_gpus, size=len(tasks))
    tight = np.flatnonzero(need[tasks] > room[gpu])
    for row in tight.tolist():
        gpu[row] = rng.choice(np.flatnonzero(room >= need[tasks[row]]))
    return gpu
