"""What the linear score decides on: a scratch, weights, candidates, and what has been ordered."""

from dataclasses import dataclass

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.errors import GpuYardError
from sim.handle import Handle
from sim.kernel.layout import RowArray
from sim.scoring.layer import Units, units_of
from sim.scoring.scratch import Scratch
from sim.scoring.table import Column, ForwardWeight, StartWeight, SuspendWeight
from sim.scoring.weights import ScoreWeights

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
