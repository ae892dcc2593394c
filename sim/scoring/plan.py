"""What the linear score decides on: a scratch, weights, candidates, and its orders.

These are carried out on the state itself, at once; the counts of the scratch go along.
"""

from dataclasses import dataclass

import numpy as np

from sim.arrays import FloatArray, IntArray, RowArray
from sim.errors import GpuYardError
from sim.handle import Handle
from sim.jit import array_kernel, kernel
from sim.kernel.apply import LEGAL, check_gpus, hand_over, preempt, start_on
from sim.kernel.rates import rerate
from sim.kernel.records import PREEMPT, sort_orders
from sim.scoring.refresh import measure_room, refresh, write_waiting
from sim.scoring.scratch import Scratch
from sim.scoring.table import Column, ForwardWeight, StartWeight, SuspendWeight
from sim.scoring.weights import ScoreWeights, Units, units_of

INT, FLOAT = np.int64, np.float64

# The best candidate of its kind so far.
BEST = np.dtype([("row", INT), ("server", INT), ("shared", INT), ("score", FLOAT)], align=True)
BEST_START, BEST_OLD, MOVE, SUSPEND = range(4)  # rows of plan.best

ORDERS = np.dtype(
    [
        ("suspends", INT),  # 1: suspensions are candidates; fixed for a run
        # Of the decision being made.
        ("first_row", INT),  # where its orders begin in the log
        ("first_gpu", INT),
        ("mixed", INT),  # 1: they are not all starts
        ("wake_s", FLOAT),  # when the next waiting job runs out of patience; inf
        # If a start was refused: verdict of `sim.kernel.apply`, job and GPU.
        ("verdict", INT),
        ("job", INT),
        ("what", INT),
    ],
    align=True,
)


LOOK, BEGIN, CLEAR, MAKE_ROOM = range(
    4
)  # in Plan.routine: what is called by address (`sim.routine`)


@dataclass(frozen=True, eq=False)
class Plan(Handle):
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


def plan_on(scratch: Scratch, weights: ScoreWeights) -> Plan:
    """A plan for the run of `scratch`, by these weights and layers.

    Raises:
        GpuYardError: there are more or fewer weights, or inputs of a layer, than features.
    """
    suspends = weights.suspend is not None
    orders = np.zeros(1, dtype=ORDERS)
    orders["suspends"] = suspends
    suspend = weights.suspend if weights.suspend is not None else np.zeros(len(SuspendWeight))
    return Plan(
        scratch=scratch,
        routine=np.zeros(4, dtype=INT),
        start_weight=_one_each(weights.start, StartWeight, "start"),
        forward_weight=_one_each(weights.forward, ForwardWeight, "forward"),
        suspend_weight=_one_each(suspend, SuspendWeight, "suspend"),
        start_units=units_of(weights.start_layer, len(StartWeight), "start"),
        forward_units=units_of(weights.forward_layer, len(ForwardWeight), "forward"),
        suspend_units=units_of(weights.suspend_layer, len(SuspendWeight), "suspend"),
        start_x=np.zeros(len(StartWeight)),
        forward_x=np.zeros(len(ForwardWeight)),
        suspend_x=np.zeros(len(SuspendWeight)),
        best=np.zeros(4, dtype=BEST),
        orders=orders,
    )


def _one_each(weights: FloatArray, group: type[Column], name: str) -> FloatArray:
    if np.shape(weights) != (len(group),):
        raise GpuYardError(
            f"weights of {name} have shape {np.shape(weights)}; there must be one for each of "
            f"its {len(group)} features"
        )
    return np.ascontiguousarray(weights, dtype=FLOAT)


@kernel
def open_decision(plan: Plan) -> None:
    """Lay out the scratch; remember where the orders begin in the log."""
    orders, world = plan.orders[0], plan.scratch.state.world[0]
    orders.first_row, orders.first_gpu = world.num_logged, world.num_logged_gpus
    orders.mixed, orders.verdict = 0, LEGAL
    refresh(plan.scratch)
    plan.scratch.game[0].decision += 1


@array_kernel
def close_decision(plan: Plan) -> None:
    """The log in its order, new speeds, and when to be asked again."""
    orders, state = plan.orders[0], plan.scratch.state
    if orders.mixed != 0:
        sort_orders(state, orders.first_row, orders.first_gpu)
        at = orders.first_row
        while at < state.world[0].num_logged and state.log[at].kind == PREEMPT:
            row = state.job[state.log[at].job]
            row.seen_progress_s = row.progress_s
            at += 1
    rerate(state)
    state.world[0].wake_s = orders.wake_s


@kernel
def start(plan: Plan, at: int, m: int) -> None:
    """Start waiting row `at`, of partition `m`, on `chosen`; what is refused ends the decision."""
    orders, scratch, state = plan.orders[0], plan.scratch, plan.scratch.state
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
    scratch.touched[job] = scratch.game[0].decision
    measure_room(scratch, m)


@kernel
def suspend(plan: Plan, job: int) -> None:
    """Suspend a running job: it waits in its partition, which decides anew.

    It waits behind the others, whatever its age. What it loses is seen from the next decision on:
    one decision weighs a job by what it had left as that began.
    """
    orders, scratch, row = plan.orders[0], plan.scratch, plan.scratch.state.job[job]
    seen_s = row.seen_progress_s
    preempt(scratch.state, job)
    row.seen_progress_s = seen_s
    orders.mixed = 1
    part, gang = scratch.partition[row.partition], scratch.job[job].gang
    part.running -= 1
    part.waiting += gang
    part.jobs_waiting += 1
    part.due = 1
    write_waiting(scratch, scratch.game[0].num_waiting, job)
    scratch.game[0].num_waiting += 1
    scratch.touched[job] = scratch.game[0].decision
    measure_room(scratch, row.partition)


@kernel
def forward(plan: Plan, at: int, target: int) -> None:
    """Hand waiting row `at` to `target`, which has to decide anew."""
    scratch, job = plan.scratch, plan.scratch.waiting[at].job
    gang = scratch.job[job].gang
    home, there = scratch.partition[scratch.state.job[job].partition], scratch.partition[target]
    hand_over(scratch.state, job, target)
    scratch.waiting[at].moved = 1
    plan.orders[0].mixed = 1
    home.wanted -= gang
    home.waiting -= gang
    home.jobs_waiting -= 1
    there.wanted += gang
    there.waiting += gang
    there.jobs_waiting += 1
    there.due = 1
