"""The published search with its greedy generator: running-time-gap plans."""

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.dag.bounds import running_times_s
from sim.dag.plan import Plan
from sim.dag.problem import DagArrays
from sim.dag.protocol import Meter, Start
from sim.dag.whales import draw_step, target_of
from sim.jit import kernel


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
        whales = [meter.judge(start.plan) for start in starts[: meter.left]]
        at = [running_times_s(problem, whale.plan.gpu) for whale in whales]
        order = np.arange(problem.num_tasks)
        load = np.empty(problem.num_gpus)
        while meter.left:
            leader = min(range(len(whales)), key=lambda w: whales[w].makespan_s)
            for whale in range(len(whales)):
                if (whale == leader and len(whales) > 1) or not meter.left:
                    continue
                step = draw_step(meter.spent_share, rng)
                target = target_of(step, whale, leader, len(whales), rng)
                hope = at[target] + step.factor * (at[target] - at[whale])
                gpu = np.empty(problem.num_tasks, dtype=np.int64)
                nearest_loads(problem.arrays, hope, load, gpu)
                whales[whale] = meter.judge(Plan(gpu, order))
                at[whale] = running_times_s(problem, gpu)


@kernel
def nearest_loads(dag: DagArrays, hope: FloatArray, load: FloatArray, gpu: IntArray) -> None:
    """Fill `gpu` (n,): of those that a task fits, the one whose load with it is nearest to hope."""
    load[:] = 0.0
    for task in range(len(hope)):
        best = np.inf
        for here in range(len(load)):
            if dag.need[task] > dag.room[here]:
                continue
            gap = abs(hope[task] - (load[here] + dag.work[task] / dag.speed[here]))
            if gap < best:
                best = gap
                gpu[task] = here
        load[gpu[task]] += dag.work[task] / dag.speed[gpu[task]]
