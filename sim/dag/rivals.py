"""Searches that whales are held against: genetic, local along the critical path, and learned.

The learned one is a linear policy that places tasks, trained on the problem by REINFORCE.
"""

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.dag.list_scheduling import Lanes, first_gap, new_lanes, placed, put
from sim.dag.plan import Plan, Schedule, arrives_s, order_of, plan_of_schedule, slack_s
from sim.dag.problem import DagArrays, DagProblem
from sim.dag.search import Judged, Meter, Start, random_gpus, random_start
from sim.jit import kernel

POPULATION = 20
ELITE = 2  # that live on unchanged
TOURNAMENT = 3
MUTATIONS = 1.0  # GPUs that change in a child, on average
NOISE = 0.05  # of a moved task's start, over the makespan


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
        herd = [meter.judge(start.plan) for start in first]
        while meter.left:
            herd.sort(key=lambda one: one.makespan_s)
            young = []
            for _ in range(min(POPULATION - ELITE, meter.left)):
                young.append(_child(meter, _picked(herd, rng), _picked(herd, rng), rng))
            herd = herd[:ELITE] + young


def _picked(herd: list[Judged], rng: np.random.Generator) -> Judged:
    rows = rng.integers(len(herd), size=TOURNAMENT)
    return herd[min(rows.tolist(), key=lambda row: herd[row].makespan_s)]


def _child(meter: Meter, one: Judged, other: Judged, rng: np.random.Generator) -> Judged:
    """Of two parents: the tasks that start before a random time from one, the rest of the other."""
    problem, mine_s, other_s = meter.problem, one.schedule.start_s, other.schedule.start_s
    cut = rng.uniform(0.0, one.makespan_s)
    mine = mine_s < cut
    gpu = np.where(mine, one.plan.gpu, other.plan.gpu)
    start_s = np.where(mine, mine_s, np.maximum(other_s, cut))
    moved = np.flatnonzero(rng.random(len(gpu)) < MUTATIONS / len(gpu))
    gpu[moved] = random_gpus(problem, moved, rng)
    shaken = rng.random(len(gpu)) < MUTATIONS / len(gpu)
    start_s = start_s + NOISE * one.makespan_s * rng.standard_normal(len(gpu)) * shaken
    return meter.judge(pinned_plan_of(problem, gpu, start_s))


def pinned_plan_of(problem: DagProblem, gpu: IntArray, start_s: FloatArray) -> Plan:
    """Tasks on these GPUs, placed in order of these starts, gaps filled."""
    order = order_of(problem.arrays, start_s.max(initial=0.0) - start_s)
    return placed(problem, order, pinned=gpu)


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
    near = near[problem.machines.memory_gib[near] >= graph.need_gib[task]]
    if len(near) and rng.random() < NEAR:
        return int(rng.choice(near))
    return int(random_gpus(problem, np.array([task]), rng)[0])


def _kicked(problem: DagProblem, gpu: IntArray, rng: np.random.Generator) -> IntArray:
    moved = np.flatnonzero(rng.random(len(gpu)) < KICK)
    kicked = gpu.copy()
    kicked[moved] = random_gpus(problem, moved, rng)
    return kicked


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
    for place in range(len(order)):  # parents first: their GPUs and ends are read
        task = order[place]
        _look(dag, task, seen, lanes)
        total = _odds(dag, task, weights, seen, odds)
        left = chance[task] * total
        chosen = -1
        for here in range(len(odds)):  # never one without odds, however sums round
            if odds[here] > 0.0 and (left >= 0.0 or chosen < 0):
                chosen = here
                left -= odds[here]
        for feature in range(len(weights)):  # gradient of log softmax: chosen less expected
            mean = 0.0
            for here in range(len(odds)):  # a mean over odds, to which misfits add 0
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
    for here in range(len(seen)):  # also those too small: `_odds` leaves them out
        length = dag.work[task] / dag.speed[here]
        ready = arrives_s(dag, task, here, lanes.gpu, lanes.finish)
        begin, _ = first_gap(lanes, here, ready, length)
        last = lanes.last[here]
        seen[here, 0] = begin + length
        seen[here, 1] = ready
        seen[here, 2] = 0.0 if last < 0 else lanes.finish[last]
        seen[here, 3] = length
        mean += length / len(seen)
    for feature in range(seen.shape[1]):  # each has a least of its own
        least = seen[0, feature]
        for here in range(1, len(seen)):  # the first is the least so far
            least = min(least, seen[here, feature])
        for here in range(len(seen)):  # in place, so only once the least is known
            seen[here, feature] = (seen[here, feature] - least) / max(mean, 1e-12)


@kernel
def _odds(
    dag: DagArrays, task: int, weights: FloatArray, seen: FloatArray, odds: FloatArray
) -> float:
    """Fill the odds, 0 where the task does not fit, and return their sum."""
    top = -np.inf
    for here in range(len(odds)):  # first the highest score, to be taken off all
        score = 0.0
        for feature in range(len(weights)):  # few terms, always added in one order
            score += weights[feature] * seen[here, feature]
        odds[here] = score if dag.need[task] <= dag.memory[here] else -np.inf
        top = max(top, odds[here])
    total = 0.0
    for here in range(len(odds)):  # less the highest, so that no exponential overflows
        odds[here] = np.exp(odds[here] - top)
        total += odds[here]
    return total
