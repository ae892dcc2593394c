"""What the generator sees of a task's shortlist, and how it places: compiled, for all uses."""

from typing import NamedTuple

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray
from sim.dag.list_scheduling import NEAREST, Lanes, first_gap, nearest_gpus, put
from sim.dag.plan import arrives_s
from sim.dag.problem import DagArrays
from sim.jit import kernel

FEATURES = 9
VALID = 8  # the feature that is 1 for a GPU and 0 for an empty place
FAR = 20.0  # features are cut here, either way

# Of each GPU on the shortlist, times over `scale_s`: 0 gap between hoped-for and actual load;
# 1 end of the task, beyond the least; 2 how long the GPU waits for inputs; 3 length of the task;
# 4 outlook, beyond the least; 5 whether a parent is there; 6 whether the target has the task there;
# 7 end of the task beyond that of the plan so far, which is what the plan would end later.


class Hopes(NamedTuple):
    """What the plan to be made is hoped to look like."""

    order: IntArray  # (n,)
    hope: FloatArray  # (n,) load of each task's GPU at its end
    gpu: IntArray  # (n,) of the target's plan
    outlook: FloatArray  # (n, g), or (1, g)
    leaves: BoolArray  # (n,) tasks that the target's GPU is not shown for
    scale_s: float  # what times are measured in


class Scratch(NamedTuple):
    """Scratch of one plan in the making."""

    lanes: Lanes
    load: FloatArray  # (g,) when the last task of each GPU ends
    shortlist: IntArray  # (NEAREST,)
    gap: FloatArray  # (NEAREST,)
    seen: FloatArray  # (NEAREST, FEATURES)


class Weights(NamedTuple):
    """Of the network: two hidden layers for each GPU, the same for all."""

    first: FloatArray  # (hidden, FEATURES)
    first_bias: FloatArray  # (hidden,)
    second: FloatArray  # (hidden, hidden)
    second_bias: FloatArray  # (hidden,)
    last: FloatArray  # (hidden,)


@kernel
def look(dag: DagArrays, hopes: Hopes, task: int, scratch: Scratch) -> int:
    """Fill the scratch's shortlist and what is seen of it; returns how many GPUs are on it."""
    count = nearest_gpus(dag, task, hopes.hope[task], scratch.load, scratch.shortlist, scratch.gap)
    seen, lanes = scratch.seen, scratch.lanes
    seen[:] = 0.0
    least_end, least_out = np.inf, np.inf
    row = task if len(hopes.outlook) > 1 else 0
    so_far = 0.0
    for here in range(len(scratch.load)):
        so_far = max(so_far, scratch.load[here])
    for listed in range(count):
        here = scratch.shortlist[listed]
        length = dag.work[task] / dag.speed[here]
        ready = arrives_s(dag, task, here, lanes.gpu, lanes.finish)
        begin, _ = first_gap(lanes, here, ready, length)
        seen[listed, 0] = scratch.gap[listed]
        seen[listed, 1] = begin + length
        seen[listed, 2] = ready - scratch.load[here]
        seen[listed, 3] = length
        seen[listed, 4] = hopes.outlook[row, here]
        least_end = min(least_end, begin + length)
        least_out = min(least_out, hopes.outlook[row, here])
    for listed in range(count):
        here = scratch.shortlist[listed]
        seen[listed, 1] -= least_end
        seen[listed, 4] -= least_out
        for feature in range(5):
            cut = min(max(seen[listed, feature] / hopes.scale_s, -FAR), FAR)
            seen[listed, feature] = cut
        for edge in range(dag.first_parent[task], dag.first_parent[task + 1]):
            if lanes.gpu[dag.parent[edge]] == here:
                seen[listed, 5] = 1.0
        later = (least_end - so_far) / hopes.scale_s + seen[listed, 1]
        seen[listed, 7] = min(max(later, -FAR), FAR)
        seen[listed, 6] = 1.0 if hopes.gpu[task] == here and not hopes.leaves[task] else 0.0
        seen[listed, VALID] = 1.0
    return count


@kernel
def place(dag: DagArrays, task: int, here: int, scratch: Scratch) -> float:
    """Put the task in its first gap on GPU `here`; returns its end."""
    length = dag.work[task] / dag.speed[here]
    ready = arrives_s(dag, task, here, scratch.lanes.gpu, scratch.lanes.finish)
    begin, behind = first_gap(scratch.lanes, here, ready, length)
    put(scratch.lanes, task, here, begin, length, behind)
    scratch.load[here] = max(scratch.load[here], begin + length)
    return begin + length


@kernel
def place_by_value(
    dag: DagArrays, hopes: Hopes, weights: Weights, scratch: Scratch, hidden: FloatArray
) -> None:
    """Every task on the GPU of its shortlist that the network values most; `hidden` (2, h)."""
    for turn in range(len(hopes.order)):
        task = hopes.order[turn]
        count = look(dag, hopes, task, scratch)
        best, chosen = -np.inf, 0
        for listed in range(count):
            value = _value(weights, scratch.seen[listed], hidden)
            if value > best:
                best, chosen = value, listed
        place(dag, task, scratch.shortlist[chosen], scratch)


@kernel
def _value(weights: Weights, seen: FloatArray, hidden: FloatArray) -> float:
    """As `network.PlacementNetwork`: less the end of the task, plus what was learned."""
    for unit in range(len(weights.first)):
        total = weights.first_bias[unit]
        for feature in range(FEATURES):
            total += weights.first[unit, feature] * seen[feature]
        hidden[0, unit] = max(total, 0.0)
    value = -seen[1]
    for unit in range(len(weights.second)):
        total = weights.second_bias[unit]
        for before in range(len(weights.first)):
            total += weights.second[unit, before] * hidden[0, before]
        value += weights.last[unit] * max(total, 0.0)
    return value


def new_scratch(lanes: Lanes) -> Scratch:
    """An empty scratch for the GPUs of these lanes."""
    return Scratch(
        lanes,
        np.zeros(len(lanes.last)),
        np.zeros(NEAREST, dtype=np.int64),
        np.zeros(NEAREST),
        np.zeros((NEAREST, FEATURES)),
    )
