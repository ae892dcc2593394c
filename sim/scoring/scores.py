"""The scores of starts, forwards and suspensions: `docs/policies/linear_score.md`."""

import math

import numpy as np

from sim.arrays import FloatArray
from sim.jit import kernel
from sim.scoring.costs import weigh_placement
from sim.scoring.plan import Plan
from sim.scoring.room import age_s, left_s, load_of, occupancy_of, pressure_of
from sim.scoring.rows import weigh_forward
from sim.scoring.scratch import Scratch
from sim.scoring.suspending import weigh_suspension
from sim.scoring.table import (
    FORWARD_OF_ROW,
    START_OF_PAIR,
    SUSPEND_OF_ROW,
    ForwardWeight,
    StartWeight,
    SuspendWeight,
)
from sim.scoring.weights import Units, add_product

# So that features are of the order of 1: an hour is 0, and so on.
HOUR_S, DURATION_SCALE = 3600.0, 2.5
AGE_UNIT_S, AGE_SCALE = 600.0, 2.5
GANG_SCALE = 4.0
LEAST_DUE = 1e-3  # score of a start that agents must not put off: above *wait*, which has 0
MOST_DIFFERENCE = 3.0  # of loads: an empty partition beside a swamped one is not worth more
# Places of weights, and of the columns that they weigh as they are.
_START_AT = tuple(int(weight) for weight, _ in START_OF_PAIR)
_PAIR_AT = tuple(int(column) for _, column in START_OF_PAIR)
_FORWARD_AT = tuple(int(weight) for weight, _ in FORWARD_OF_ROW)
_ROW_AT = tuple(int(column) for _, column in FORWARD_OF_ROW)
_SUSPEND_AT = tuple(int(weight) for weight, _ in SUSPEND_OF_ROW)
_SUSPENSION_AT = tuple(int(column) for _, column in SUSPEND_OF_ROW)


@kernel
def _duration(scratch: Scratch, job: int) -> float:
    """Logarithm of the predicted hours left, scaled; 0 where durations are not looked at."""
    return float(np.log(left_s(scratch, job) / HOUR_S) / DURATION_SCALE)


@kernel
def _gang(scratch: Scratch, job: int) -> float:
    """log2 of the gang, scaled: 16 GPUs are 1."""
    return float(np.log2(scratch.job[job].gang) / GANG_SCALE)


@kernel
def weigh_partition(plan: Plan, m: int) -> None:
    """Fill what all jobs of partition `m` have in common."""
    x = plan.start_x
    x[StartWeight.BIAS] = 1.0
    x[StartWeight.OCCUPANCY] = occupancy_of(plan.scratch, m)
    x[StartWeight.PRESSURE] = pressure_of(plan.scratch, m)


@kernel
def weigh_job(plan: Plan, job: int) -> None:
    """Fill what all placements of `job` have in common."""
    x, scratch = plan.start_x, plan.scratch
    waited_s = age_s(scratch, job)
    x[StartWeight.DURATION] = _duration(scratch, job)
    x[StartWeight.AGE] = log_age(waited_s)
    x[StartWeight.RELATIVE_AGE] = 0.0
    if scratch.game[0].use_durations != 0:
        x[StartWeight.RELATIVE_AGE] = np.log1p(waited_s / left_s(scratch, job)) / AGE_SCALE
    x[StartWeight.GANG] = _gang(scratch, job)


@kernel
def log_age(waited_s: float) -> float:
    """Logarithm of an age, scaled."""
    return float(np.log1p(waited_s / AGE_UNIT_S) / AGE_SCALE)


@kernel
def fill_start(x: FloatArray, pair: FloatArray, spread: float, shared: int) -> None:
    """Fill what x (StartWeight,) has of a placement (OfPair,); the rest is there.

    `spread` is the pair's spread and contention in one.
    """
    x[StartWeight.SPREAD] = spread
    x[StartWeight.SPREAD_X_OCCUPANCY] = spread * x[StartWeight.OCCUPANCY]
    x[StartWeight.SPREAD_X_DURATION] = spread * x[StartWeight.DURATION]
    x[StartWeight.SPREAD_X_PRESSURE] = spread * x[StartWeight.PRESSURE]
    x[StartWeight.SHARED] = shared
    x[StartWeight.SHARED_X_PRESSURE] = shared * x[StartWeight.PRESSURE]
    for k in range(len(_START_AT)):
        x[_START_AT[k]] = pair[_PAIR_AT[k]]


@kernel
def fill_forward(x: FloatArray, row: FloatArray, difference: float, hops: float) -> None:
    """Fill what x (ForwardWeight,) has of a partition (OfForward,), by the loads' difference."""
    x[ForwardWeight.LOAD_DIFFERENCE] = min(max(difference, -MOST_DIFFERENCE), MOST_DIFFERENCE)
    x[ForwardWeight.HOPS] = hops
    for k in range(len(_FORWARD_AT)):
        x[_FORWARD_AT[k]] = row[_ROW_AT[k]]


@kernel
def fill_suspension(x: FloatArray, row: FloatArray) -> None:
    """Fill what x (SuspendWeight,) has of victims (OfSuspension,)."""
    for k in range(len(_SUSPEND_AT)):
        x[_SUSPEND_AT[k]] = row[_SUSPENSION_AT[k]]


@kernel
def start_score(plan: Plan, job: int, m: int) -> float:
    """Score of the placement at hand."""
    scratch = plan.scratch
    spread = weigh_placement(scratch, job, m)
    fill_start(plan.start_x, scratch.pair, spread, scratch.here[0].shared)
    return score_of(plan.start_x, plan.start_weight, plan.start_units)


@kernel
def forward_score(plan: Plan, i: int, home: int, target: int) -> float:
    """Score of handing place `i` of the window of partition `home` to `target`."""
    x, scratch = plan.forward_x, plan.scratch
    job = scratch.waiting[scratch.window[i]].job
    weigh_forward(scratch, i, home, target)
    x[ForwardWeight.BIAS] = 1.0
    x[ForwardWeight.DURATION] = _duration(scratch, job)
    x[ForwardWeight.GANG] = _gang(scratch, job)
    hops = scratch.state.job[job].forwards / scratch.game[0].max_forwards
    fill_forward(x, scratch.forward, load_of(scratch, home) - load_of(scratch, target), hops)
    return score_of(x, plan.forward_weight, plan.forward_units)


@kernel
def weigh_newcomer(plan: Plan, job: int) -> None:
    """Fill what all suspensions for `job` have in common."""
    x, scratch = plan.suspend_x, plan.scratch
    x[SuspendWeight.BIAS] = 1.0
    x[SuspendWeight.DURATION] = _duration(scratch, job)
    x[SuspendWeight.AGE] = log_age(age_s(scratch, job))
    x[SuspendWeight.GANG] = _gang(scratch, job)


@kernel
def suspend_score(plan: Plan, job: int, home: int, target: int) -> float:
    """Score of the victims at hand, of partition `target`, for `job`, of `home`."""
    weigh_suspension(plan.scratch, job, home, target)
    fill_suspension(plan.suspend_x, plan.scratch.suspension)
    return score_of(plan.suspend_x, plan.suspend_weight, plan.suspend_units)


@kernel
def score_of(x: FloatArray, weights: FloatArray, units: Units) -> float:
    """Features x (F,) by their weights, and what a layer adds."""
    score = 0.0
    for i in range(len(x)):
        score += x[i] * weights[i]
    if len(units.outer) > 0:
        score += _bent(x, units)
    return score


@kernel
def _bent(x: FloatArray, units: Units) -> float:
    """What the layer adds."""
    hidden = units.hidden
    for h in range(len(hidden)):
        hidden[h] = units.bias[h]
    add_product(x, units.inner, hidden)
    added = 0.0
    for h in range(len(hidden)):
        # tanh, to 1e-16, in half the time of the library's: most of a layer's time
        added += units.outer[h] * (1.0 - 2.0 / (math.exp(2.0 * hidden[h]) + 1.0))
    return added
