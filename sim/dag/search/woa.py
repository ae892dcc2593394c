"""Plain whale optimisation: a position is a number for each task, rounded to a GPU."""

import numpy as np

from sim.arrays import FloatArray
from sim.dag.plan import Plan
from sim.dag.problem import DagProblem
from sim.dag.search.protocol import Judged, Meter, Start
from sim.dag.search.whales import draw_step, target_of


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
