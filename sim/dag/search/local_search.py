"""Random restarts with local search along the critical path."""

import numpy as np

from sim.arrays import IntArray
from sim.dag.priority import slack_s
from sim.dag.problem import DagProblem
from sim.dag.search.genetic import pinned_plan_of
from sim.dag.search.protocol import Judged, Meter, Start, random_gpus

CRITICAL = 0.9  # share of moves that take a task without slack
NEAR = 0.8  # share of moves to the GPU of a parent or child
PATIENCE = 300  # moves without gain before the next start
TINY = 1e-9  # of the makespan: slack that is rounding
KICK = 0.1  # share of the tasks that a new start moves, once the start plans are used up


class LocalSearch:
    """Moves one task at a time, most often a critical one, and keeps what is not worse.

    Most moves go to the GPU of a parent or child, which saves a transfer, the others to any that
    the task fits. After PATIENCE moves without gain it begins anew: from the next start
    plan, then from its best plan with some tasks moved at random.
    """

    name = "local_search"

    def search(self, starts: list[Start], meter: Meter, rng: np.random.Generator) -> None:
        """See `Search`."""
        at = 0
        while meter.left:
            if at < len(starts):
                plan = starts[at].plan
            else:
                best = meter.best
                gpu = _kicked(meter.problem, best.plan.gpu, rng)
                plan = pinned_plan_of(meter.problem, gpu, best.schedule.start_s)
            at += 1
            _descend(meter, meter.judge(plan), rng)


def _descend(meter: Meter, here: Judged, rng: np.random.Generator) -> None:
    idle = 0
    while meter.left and idle < PATIENCE:
        gpu = here.plan.gpu.copy()
        task = _task(meter.problem, here, rng)
        gpu[task] = _place(meter.problem, here.plan.gpu, task, rng)
        found = meter.judge(pinned_plan_of(meter.problem, gpu, here.schedule.start_s))
        idle = 0 if found.makespan_s < here.makespan_s else idle + 1
        if found.makespan_s <= here.makespan_s:
            here = found


def _task(problem: DagProblem, here: Judged, rng: np.random.Generator) -> int:
    if rng.random() >= CRITICAL:
        return int(rng.integers(problem.num_tasks))
    plan, times = here.plan, here.schedule
    slack = slack_s(problem.arrays, plan.gpu, plan.order, times.start_s, times.finish_s)
    return int(rng.choice(np.flatnonzero(slack <= TINY * here.makespan_s)))


def _place(problem: DagProblem, gpu: IntArray, task: int, rng: np.random.Generator) -> int:
    graph = problem.graph
    parents = graph.parent[graph.first_parent[task] : graph.first_parent[task + 1]]
    children = graph.child[graph.first_child[task] : graph.first_child[task + 1]]
    near = np.setdiff1d(gpu[np.concatenate([parents, children])], [gpu[task]])
    near = near[problem.machines.room_gib[near] >= graph.need_gib[task]]
    if len(near) and rng.random() < NEAR:
        return int(rng.choice(near))
    return int(random_gpus(problem, np.array([task]), rng)[0])


def _kicked(problem: DagProblem, gpu: IntArray, rng: np.random.Generator) -> IntArray:
    moved = np.flatnonzero(rng.random(len(gpu)) < KICK)
    kicked = gpu.copy()
    kicked[moved] = random_gpus(problem, moved, rng)
    return kicked
