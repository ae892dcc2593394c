"""What the linear score decides on: a scratch, weights, candidates, their scores, and its orders.

The orders are carried out on the state itself, at once; the counts of the scratch go along. The
scores of starts, forwards and suspensions: `docs/policies/linear_score.md`.

"""

import math
from dataclasses import dataclass

import numpy as np

from sim.arrays import FloatArray, IntArray, RowArray
from sim.errors import GpuYardError
from sim.handle import Handle
from sim.jit import array_kernel, kernel
from sim.kernel.rates import rerate
from sim.kernel.records import PREEMPT, sort_orders
from sim.kernel.step import LEGAL, check_gpus, hand_over, preempt, start_on
from sim.scoring.features import weigh_forward, weigh_placement
from sim.scoring.room import age_s, left_s, load_of, occupancy_of, pressure_of
from sim.scoring.scratch import Scratch
from sim.scoring.suspending import weigh_suspension
from sim.scoring.table import (
    FORWARD_OF_ROW,
    START_OF_PAIR,
    SUSPEND_OF_ROW,
    Column,
    ForwardWeight,
    StartWeight,
    SuspendWeight,
)
from sim.scoring.weights import ScoreWeights, Units, add_product, units_of
from sim.scoring.window import measure_room, refresh, write_waiting
from sim.times import HOUR_S

INT, FLOAT = np.int64, np.float64

# The best candidate of its kind so far.
BEST = np.dtype([("row", INT), ("server", INT), ("shared", INT), ("score", FLOAT)], align=True)
BEST_START, BEST_OLD, MOVE, SUSPEND = range(4)  # rows of scoring.best

ORDERS = np.dtype(
    [
        ("suspends", INT),  # 1: suspensions are candidates; fixed for a run
        # Of the decision being made.
        ("first_row", INT),  # where its orders begin in the log
        ("first_gpu", INT),
        ("mixed", INT),  # 1: they are not all starts
        ("wake_s", FLOAT),  # when the next waiting job runs out of patience; inf
        # If a start was refused: verdict of `sim.kernel.step`, job and GPU.
        ("verdict", INT),
        ("job", INT),
        ("what", INT),
    ],
    align=True,
)


LOOK, BEGIN, CLEAR, MAKE_ROOM = range(
    4
)  # in Scoring.routine: what is called by address (`sim.handle`)


@dataclass(frozen=True, eq=False)
class Scoring(Handle):
    """One run under the linear score."""

    scratch: Scratch  # holds the run's state, or a copy
    routine: IntArray  # (4,) addresses (`sim.scoring.deciding.link`)
    start_weight: FloatArray  # (StartWeight,)
    forward_weight: FloatArray  # (ForwardWeight,)
    suspend_weight: FloatArray  # (SuspendWeight,)
    start_units: Units  # what the score of a start adds to its linear part
    forward_units: Units
    suspend_units: Units
    start_x: FloatArray  # (StartWeight,) features of the placement at hand
    forward_x: FloatArray  # (ForwardWeight,)
    suspend_x: FloatArray  # (SuspendWeight,)
    best: RowArray  # (4,) BEST
    orders: RowArray  # (1,) ORDERS


def scoring_on(scratch: Scratch, weights: ScoreWeights) -> Scoring:
    """A scoring for the run of `scratch`, by these weights and layers.

    Raises:
        GpuYardError: there are more or fewer weights, or inputs of a layer, than features.
    """
    suspends = weights.suspend is not None
    orders = np.zeros(1, dtype=ORDERS)
    orders["suspends"] = suspends
    suspend = weights.suspend if weights.suspend is not None else np.zeros(len(SuspendWeight))
    return Scoring(
        scratch=scratch, routine=np.zeros(4, dtype=INT),
        start_weight=_one_each(weights.start, StartWeight, "start"),
        forward_weight=_one_each(weights.forward, ForwardWeight, "forward"),
        suspend_weight=_one_each(suspend, SuspendWeight, "suspend"),
        start_units=units_of(weights.start_layer, len(StartWeight), "start"),
        forward_units=units_of(weights.forward_layer, len(ForwardWeight), "forward"),
        suspend_units=units_of(weights.suspend_layer, len(SuspendWeight), "suspend"),
        start_x=np.zeros(len(StartWeight)), forward_x=np.zeros(len(ForwardWeight)),
        suspend_x=np.zeros(len(SuspendWeight)), best=np.zeros(4, dtype=BEST), orders=orders,
    )  # fmt: skip


def _one_each(weights: FloatArray, group: type[Column], name: str) -> FloatArray:
    if np.shape(weights) != (len(group),):
        raise GpuYardError(
            f"weights of {name} have shape {np.shape(weights)}; there must be one for each of "
            f"its {len(group)} features"
        )
    return np.ascontiguousarray(weights, dtype=FLOAT)


@kernel
def open_decision(scoring: Scoring) -> None:
    """Lay out the scratch; remember where the orders begin in the log."""
    orders, world = scoring.orders[0], scoring.scratch.state.world[0]
    orders.first_row, orders.first_gpu = world.num_logged, world.num_logged_gpus
    orders.mixed, orders.verdict = 0, LEGAL
    refresh(scoring.scratch)
    scoring.scratch.scalars[0].decision += 1


@array_kernel
def close_decision(scoring: Scoring) -> None:
    """The log in its order, new speeds, and when to be asked again."""
    orders, state = scoring.orders[0], scoring.scratch.state
    if orders.mixed != 0:
        sort_orders(state, orders.first_row, orders.first_gpu)
        at = orders.first_row
        while at < state.world[0].num_logged and state.log[at].kind == PREEMPT:  # they stand first
            row = state.job[state.log[at].job]
            row.seen_progress_s = row.progress_s
            at += 1
    rerate(state)
    state.world[0].wake_s = orders.wake_s


@kernel
def start(scoring: Scoring, at: int, m: int) -> None:
    """Start waiting row `at`, of partition `m`, on `chosen`; what is refused ends the decision."""
    orders, scratch, state = scoring.orders[0], scoring.scratch, scoring.scratch.state
    job, part = scratch.waiting[at].job, scratch.partition[m]
    gang = scratch.job[job].gang
    verdict, gpu = check_gpus(state, job, scratch.chosen, gang)
    if verdict != LEGAL:
        orders.verdict, orders.job, orders.what = verdict, job, gpu
        return
    start_on(state, job, scratch.chosen, gang, np.inf)
    part.running += 1
    part.waiting -= gang
    part.jobs_waiting -= 1
    scratch.touched[job] = scratch.scalars[0].decision
    measure_room(scratch, m)


@kernel
def suspend(scoring: Scoring, job: int) -> None:
    """Suspend a running job: it waits in its partition, which decides anew.

    It waits behind the others, whatever its age. What it loses is seen from the next decision on:
    one decision weighs a job by what it had left as that began.
    """
    orders, scratch, row = scoring.orders[0], scoring.scratch, scoring.scratch.state.job[job]
    seen_s = row.seen_progress_s
    preempt(scratch.state, job)
    row.seen_progress_s = seen_s
    orders.mixed = 1
    part, gang = scratch.partition[row.partition], scratch.job[job].gang
    part.running -= 1
    part.waiting += gang
    part.jobs_waiting += 1
    part.due = 1
    write_waiting(scratch, scratch.scalars[0].num_waiting, job)
    scratch.scalars[0].num_waiting += 1
    scratch.touched[job] = scratch.scalars[0].decision
    measure_room(scratch, row.partition)


@kernel
def forward(scoring: Scoring, at: int, target: int) -> None:
    """Hand waiting row `at` to `target`, which has to decide anew."""
    scratch, job = scoring.scratch, scoring.scratch.waiting[at].job
    gang = scratch.job[job].gang
    home, other = scratch.partition[scratch.state.job[job].partition], scratch.partition[target]
    hand_over(scratch.state, job, target)
    scratch.waiting[at].moved = 1
    scoring.orders[0].mixed = 1
    home.wanted -= gang
    home.waiting -= gang
    home.jobs_waiting -= 1
    other.wanted += gang
    other.waiting += gang
    other.jobs_waiting += 1
    other.due = 1


# So that features are of the order of 1: an hour is 0, and so on.
DURATION_SCALE = 2.5
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
def weigh_partition(scoring: Scoring, m: int) -> None:
    """Fill what all jobs of partition `m` have in common."""
    x = scoring.start_x
    x[StartWeight.BIAS] = 1.0
    x[StartWeight.OCCUPANCY] = occupancy_of(scoring.scratch, m)
    x[StartWeight.PRESSURE] = pressure_of(scoring.scratch, m)


@kernel
def weigh_job(scoring: Scoring, job: int) -> None:
    """Fill what all placements of `job` have in common."""
    x, scratch = scoring.start_x, scoring.scratch
    waited_s = age_s(scratch, job)
    x[StartWeight.DURATION] = _duration(scratch, job)
    x[StartWeight.AGE] = log_age(waited_s)
    x[StartWeight.RELATIVE_AGE] = 0.0
    if scratch.scalars[0].use_durations != 0:
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
def start_score(scoring: Scoring, job: int, m: int) -> float:
    """Score of the placement at hand."""
    scratch = scoring.scratch
    spread = weigh_placement(scratch, job, m)
    fill_start(scoring.start_x, scratch.pair, spread, scratch.here[0].shared)
    return score_of(scoring.start_x, scoring.start_weight, scoring.start_units)


@kernel
def forward_score(scoring: Scoring, i: int, home: int, target: int) -> float:
    """Score of handing place `i` of the window of partition `home` to `target`."""
    x, scratch = scoring.forward_x, scoring.scratch
    job = scratch.waiting[scratch.window[i]].job
    weigh_forward(scratch, i, home, target)
    x[ForwardWeight.BIAS] = 1.0
    x[ForwardWeight.DURATION] = _duration(scratch, job)
    x[ForwardWeight.GANG] = _gang(scratch, job)
    hops = scratch.state.job[job].forwards / scratch.scalars[0].max_forwards
    fill_forward(x, scratch.forward, load_of(scratch, home) - load_of(scratch, target), hops)
    return score_of(x, scoring.forward_weight, scoring.forward_units)


@kernel
def weigh_newcomer(scoring: Scoring, job: int) -> None:
    """Fill what all suspensions for `job` have in common."""
    x, scratch = scoring.suspend_x, scoring.scratch
    x[SuspendWeight.BIAS] = 1.0
    x[SuspendWeight.DURATION] = _duration(scratch, job)
    x[SuspendWeight.AGE] = log_age(age_s(scratch, job))
    x[SuspendWeight.GANG] = _gang(scratch, job)


@kernel
def suspend_score(scoring: Scoring, job: int, home: int, target: int) -> float:
    """Score of the victims at hand, of partition `target`, for `job`, of `home`."""
    weigh_suspension(scoring.scratch, job, home, target)
    fill_suspension(scoring.suspend_x, scoring.scratch.suspension)
    return score_of(scoring.suspend_x, scoring.suspend_weight, scoring.suspend_units)


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
    for h in range(len(hidden)):  # in place: kernels make no arrays
        hidden[h] = units.bias[h]
    add_product(x, units.inner, hidden)
    added = 0.0
    for h in range(len(hidden)):
        # tanh, to 1e-16, in half the time of the library's: most of a layer's time
        added += units.outer[h] * (1.0 - 2.0 / (math.exp(2.0 * hidden[h]) + 1.0))
    return added
