"""The prior's scores from an observation, compiled: as `marl.policy.linear_prior`."""

import math
from dataclasses import dataclass

import numpy as np

from marl.codec.observe import Buffers
from sim.arrays import FloatArray
from sim.handle import Handle
from sim.jit import kernel
from sim.scoring.scores import (
    AGE_SCALE,
    DURATION_SCALE,
    HOUR_S,
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
from sim.scoring.weights import Units


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
