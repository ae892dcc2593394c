"""One protocol for all searches: the same start plans, the same number of plans judged.

Under it the list schedulers: once, or again and again with noise on their ranks.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.dag.list_scheduling import cpop, heft, peft, placed
from sim.dag.plan import Plan, Schedule, order_of, schedule, time_to_go, upward_rank_s
from sim.dag.problem import DagError, DagProblem


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
        """Nothing spent; a DagError for a budget below 1."""
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
        """The best plan so far, of equals the first; DagError: none was judged."""
        if self._best is None:
            raise DagError("no plan was judged yet")
        return self._best

    @property
    def history_s(self) -> FloatArray:
        """(plans judged,) the best makespan after each."""
        return np.array(self._best_s)

    def judge(self, plan: Plan) -> Judged:
        """Evaluate a plan; DagError: the budget is spent."""
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
    need, memory = problem.graph.need_gib, problem.machines.memory_gib
    gpu = rng.integers(problem.num_gpus, size=len(tasks))
    tight = np.flatnonzero(need[tasks] > memory[gpu])
    for row in tight.tolist():
        gpu[row] = rng.choice(np.flatnonzero(memory >= need[tasks[row]]))
    return gpu


SCHEDULERS = {"heft": heft, "cpop": cpop, "peft": peft}


class ListSchedule:
    """Judges the one plan of a list scheduler, whatever the start plans and the budget."""

    def __init__(self, *, scheduler: str) -> None:
        """Take `heft`, `cpop` or `peft`; a DagError for another name."""
        if scheduler not in SCHEDULERS:
            known = ", ".join(SCHEDULERS)
            raise DagError(f"list scheduler {scheduler!r} is unknown; use one of {known}")
        self.name = scheduler

    def search(self, starts: list[Start], meter: Meter, rng: np.random.Generator) -> None:  # noqa: ARG002
        """See `Search`."""
        meter.judge(SCHEDULERS[self.name](meter.problem))


NOISE_LOG10 = (-2.0, -0.5)  # relative, drawn evenly on a log scale for each plan


class RandomRankSearch:
    """Restarts without memory: the first start plan's times to go, each time with fresh noise.

    Shows what the whales add to trying many orders. Every task may go to any GPU.
    """

    name = "random_ranks"

    def search(self, starts: list[Start], meter: Meter, rng: np.random.Generator) -> None:
        """See `Search`."""
        problem, first = meter.problem, starts[0]
        meter.judge(first.plan)
        while meter.left:
            noise = 10.0 ** rng.uniform(*NOISE_LOG10) * rng.standard_normal(problem.num_tasks)
            order = order_of(problem.arrays, first.to_go_s * (1.0 + noise))
            meter.judge(placed(problem, order))
