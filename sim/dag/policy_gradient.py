"""A learned rival: a linear policy that places tasks, trained on the problem by REINFORCE."""

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.dag.evaluate import arrives_s
from sim.dag.list_scheduling import Lanes, first_gap, new_lanes, put
from sim.dag.plan import Schedule, plan_of_schedule
from sim.dag.problem import DagArrays
from sim.dag.protocol import Meter, Start
from sim.dag.ranks import order_of
from sim.jit import kernel

BATCH = 10  # plans between two updates
LEARNING_RATE = 0.3
BEGIN = (-10.0, 0.0, 0.0, 0.0)  # at first: GPUs where the task ends early are likelier
FEATURES = len(BEGIN)  # end, arrival of inputs, load, time of the task itself


class PolicyGradientSearch:
    """Tasks in the first start plan's order; softmax over GPUs of a linear score of four times.

    The times are the task's end, the arrival of its inputs, the GPU's load and the task's length
    there, each beyond the least over GPUs, in units of the mean length of the task. Batches of ten
    plans, their mean as baseline, steps of Adam's size. In the manner of the learned placers that
    the paper compares with (its own are not public): what is learned is the policy, on the plans
    that it may judge.
    """

    name = "policy_gradient"

    def search(self, starts: list[Start], meter: Meter, rng: np.random.Generator) -> None:
        """See `Search`."""
        problem = meter.problem
        order = order_of(problem.arrays, starts[0].to_go_s)
        meter.judge(starts[0].plan)
        weights = np.array(BEGIN)
        first, second, turn = np.zeros(FEATURES), np.zeros(FEATURES), 0
        while meter.left:
            count = min(BATCH, meter.left)
            ends, slopes = np.empty(count), np.empty((count, FEATURES))
            for row in range(count):
                lanes = new_lanes(problem.num_tasks, problem.num_gpus)
                place_by_policy(
                    problem.arrays, order, weights, rng.random(problem.num_tasks), slopes[row],
                    np.zeros((problem.num_gpus, FEATURES)), np.zeros(problem.num_gpus), lanes,
                )  # fmt: skip
                plan = plan_of_schedule(lanes.gpu, Schedule(lanes.start, lanes.finish))
                ends[row] = meter.judge(plan).makespan_s
            worth = (ends.mean() - ends) / max(float(ends.std()), 1e-12)
            turn += 1
            slope = (worth[:, None] * slopes).mean(axis=0)
            first, second = 0.9 * first + 0.1 * slope, 0.99 * second + 0.01 * slope**2
            size = np.sqrt(second / (1 - 0.99**turn)) + 1e-12
            weights = weights + LEARNING_RATE * first / (1 - 0.9**turn) / size


@kernel
def place_by_policy(  # noqa: PLR0917  (compiled)
    dag: DagArrays, order: IntArray, weights: FloatArray, chance: FloatArray, slope: FloatArray,
    seen: FloatArray, odds: FloatArray, lanes: Lanes,
) -> None:  # fmt: skip
    """Place every task by the policy; `slope` becomes the gradient of the log probability.

    `chance` (n,) draws the GPUs; `seen` (g, 4) and `odds` (g,) are scratch.
    """
    slope[:] = 0.0
    for place in range(len(order)):
        task = order[place]
        _look(dag, task, seen, lanes)
        total = _odds(dag, task, weights, seen, odds)
        left = chance[task] * total
        chosen = -1
        for here in range(len(odds)):
            if odds[here] > 0.0 and (left >= 0.0 or chosen < 0):
                chosen = here
                left -= odds[here]
        for feature in range(len(weights)):
            mean = 0.0
            for here in range(len(odds)):
                mean += odds[here] / total * seen[here, feature]
            slope[feature] += seen[chosen, feature] - mean
        length = dag.work[task] / dag.speed[chosen]
        ready = arrives_s(dag, task, chosen, lanes.gpu, lanes.finish)
        begin, behind = first_gap(lanes, chosen, ready, length)
        put(lanes, task, chosen, begin, length, behind)


@kernel
def _look(dag: DagArrays, task: int, seen: FloatArray, lanes: Lanes) -> None:
    """Fill the four times, each beyond its least, over the mean length of the task."""
    mean = 0.0
    for here in range(len(seen)):
        length = dag.work[task] / dag.speed[here]
        ready = arrives_s(dag, task, here, lanes.gpu, lanes.finish)
        begin, _ = first_gap(lanes, here, ready, length)
        last = lanes.last[here]
        seen[here, 0] = begin + length
        seen[here, 1] = ready
        seen[here, 2] = 0.0 if last < 0 else lanes.finish[last]
        seen[here, 3] = length
        mean += length / len(seen)
    for feature in range(seen.shape[1]):
        least = seen[0, feature]
        for here in range(1, len(seen)):
            least = min(least, seen[here, feature])
        for here in range(len(seen)):
            seen[here, feature] = (seen[here, feature] - least) / max(mean, 1e-12)


@kernel
def _odds(
    dag: DagArrays, task: int, weights: FloatArray, seen: FloatArray, odds: FloatArray
) -> float:
    """Fill the odds, 0 where the task does not fit, and return their sum."""
    top = -np.inf
    for here in range(len(odds)):
        score = 0.0
        for feature in range(len(weights)):
            score += weights[feature] * seen[here, feature]
        odds[here] = score if dag.need[task] <= dag.room[here] else -np.inf
        top = max(top, odds[here])
    total = 0.0
    for here in range(len(odds)):
        odds[here] = np.exp(odds[here] - top)
        total += odds[here]
    return total
