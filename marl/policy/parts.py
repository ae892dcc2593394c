"""Weights of the network's parts and prior as compiled code reads them, and what they give."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from marl.env.observe import Buffers
from sim.arrays import FloatArray
from sim.handle import Handle
from sim.jit import kernel
from sim.scoring.scores import (
    AGE_SCALE,
    DURATION_SCALE,
    LEAST_DUE,
    fill_forward,
    fill_start,
    fill_suspension,
    log_age,
    score_of,
)
from sim.scoring.table import (
    ForwardWeight,
    OfContext,
    OfForward,
    OfJob,
    OfPair,
    StartWeight,
    SuspendWeight,
)
from sim.scoring.weights import Units, add_product, copy_numbers
from sim.times import HOUR_S

NORM_EPSILON = 1e-5  # of torch's LayerNorm


class Update(NamedTuple):
    """`gnn.base.Update`: own state (I wide) and neighbours' mean (J wide) to H numbers."""

    own: FloatArray  # (I, H); I is 0 where a node has no state yet
    neighbour: FloatArray  # (J, H)
    bias: FloatArray  # (H,)


class Norm(NamedTuple):
    """A LayerNorm over H numbers."""

    weight: FloatArray  # (H,)
    bias: FloatArray  # (H,)


class Two(NamedTuple):
    """`marl.policy.pair_score.two_layers`: I numbers to O."""

    inner: FloatArray  # (I, hidden)
    inner_bias: FloatArray  # (hidden,)
    outer: FloatArray  # (hidden, O)
    outer_bias: FloatArray  # (O,)


class Joint(NamedTuple):
    """`marl.policy.pair_score.JointScore`: features of a pair, its row and the state to a score."""

    of_pair: FloatArray  # (P, hidden)
    bias: FloatArray  # (hidden,)
    of_row: FloatArray  # (R, hidden)
    of_state: FloatArray  # (Z, hidden)
    score: FloatArray  # (hidden,)
    last: FloatArray  # (1,)


@kernel
def bend(x: FloatArray) -> None:
    """ReLU, in place."""
    for i in range(len(x)):
        x[i] = max(x[i], 0.0)


@kernel
def update(own: FloatArray, neighbour: FloatArray, by: Update, out: FloatArray) -> None:
    """A node's new state; `own` is not read where it has none yet."""
    copy_numbers(by.bias, out)
    add_product(neighbour, by.neighbour, out)
    if len(by.own) > 0:
        add_product(own, by.own, out)
    bend(out)


@kernel
def norm(x: FloatArray, by: Norm) -> None:
    """LayerNorm, in place."""
    mean, square = 0.0, 0.0
    for i in range(len(x)):  # the mean first: squares are taken around it
        mean += x[i]
    mean /= len(x)
    for i in range(len(x)):  # in a second pass: in one, large numbers would lose digits
        square += (x[i] - mean) ** 2
    scale = 1.0 / np.sqrt(square / len(x) + NORM_EPSILON)
    for i in range(len(x)):  # in place: the sums are done
        x[i] = (x[i] - mean) * scale * by.weight[i] + by.bias[i]


@kernel
def two_layers(x: FloatArray, by: Two, hidden: FloatArray, out: FloatArray) -> None:
    """Fill out (O,); `hidden` is scratch."""
    copy_numbers(by.inner_bias, hidden)
    add_product(x, by.inner, hidden)
    bend(hidden)
    copy_numbers(by.outer_bias, out)
    add_product(hidden, by.outer, out)


@kernel
def joint_score(pair: FloatArray, by: Joint, shared: FloatArray, hidden: FloatArray) -> float:
    """The score of a pair; `shared` (hidden,) is what row and state give, and the bias."""
    copy_numbers(shared, hidden)
    add_product(pair, by.of_pair, hidden)
    total = by.last[0]
    for h in range(len(hidden)):
        total += max(hidden[h], 0.0) * by.score[h]
    return total


@kernel
def share(row: FloatArray, by: Joint, of_state: FloatArray, shared: FloatArray) -> None:
    """Fill `shared` for the pairs of a row; `of_state` (hidden,) is what the state gives."""
    for h in range(len(shared)):
        shared[h] = by.bias[h] + of_state[h]
    add_product(row, by.of_row, shared)


@dataclass(frozen=True, eq=False)
class Prior(Handle):
    """Weights, layers and how much they count; scale 0: there is no prior."""

    scale: FloatArray  # (1,)
    start: FloatArray  # (StartWeight,)
    forward: FloatArray  # (ForwardWeight,)
    suspend: FloatArray  # (SuspendWeight,)
    start_units: Units
    forward_units: Units
    suspend_units: Units
    start_x: FloatArray  # features at hand
    forward_x: FloatArray
    suspend_x: FloatArray


@kernel
def read_job(prior: Prior, buffers: Buffers, w: int) -> None:
    """Fill what all candidates of row `w` of the window have in common."""
    job, context = buffers.jobs[w], buffers.context
    x, ahead, room = prior.start_x, prior.forward_x, prior.suspend_x
    ln_left_s = job[OfJob.LEFT] * 2.5 + 7.0
    age_s = math.expm1(job[OfJob.AGE] * 10.0)
    x[StartWeight.BIAS] = 1.0
    x[StartWeight.DURATION] = (ln_left_s - math.log(HOUR_S)) / DURATION_SCALE
    x[StartWeight.AGE] = log_age(age_s)
    x[StartWeight.RELATIVE_AGE] = np.log1p(age_s / math.exp(ln_left_s)) / AGE_SCALE
    x[StartWeight.GANG] = job[OfJob.GANG]
    x[StartWeight.OCCUPANCY] = 1.0 - context[OfContext.EMPTY]
    x[StartWeight.PRESSURE] = context[OfContext.PRESSURE]
    ahead[ForwardWeight.BIAS] = 1.0
    ahead[ForwardWeight.DURATION] = x[StartWeight.DURATION]
    ahead[ForwardWeight.GANG] = x[StartWeight.GANG]
    room[SuspendWeight.BIAS] = 1.0
    room[SuspendWeight.DURATION] = x[StartWeight.DURATION]
    room[SuspendWeight.AGE] = x[StartWeight.AGE]
    room[SuspendWeight.GANG] = x[StartWeight.GANG]


@kernel
def prior_start(prior: Prior, buffers: Buffers, w: int, s: int, mode: int) -> float:
    """Scaled score of a start; `read_job` comes first."""
    x, pair = prior.start_x, buffers.pairs[w, s, mode]
    fill_start(x, pair, pair[OfPair.SPREAD] + pair[OfPair.CONTENTION], mode)
    score = score_of(x, prior.start, prior.start_units)
    due = buffers.jobs[w, OfJob.OLD] > 0.0 and pair[OfPair.COMPACT] > 0.0 and mode == 0
    return prior.scale[0] * (max(score, LEAST_DUE) if due else score)


@kernel
def prior_forward(prior: Prior, buffers: Buffers, w: int, m: int) -> float:
    """Scaled score of a forward."""
    x, row = prior.forward_x, buffers.forwards[w, m]
    made, left = buffers.jobs[w, OfJob.FORWARDS], row[OfForward.HOPS_LEFT]
    fill_forward(x, row, -row[OfForward.LOAD_DIFFERENCE], made / max(made + left, 1e-6))
    return prior.scale[0] * score_of(x, prior.forward, prior.forward_units)


@kernel
def prior_suspension(prior: Prior, buffers: Buffers, w: int, m: int) -> float:
    """Scaled score of a suspension."""
    x = prior.suspend_x
    fill_suspension(x, buffers.suspensions[w, m])
    return prior.scale[0] * score_of(x, prior.suspend, prior.suspend_units)
