"""The features of a start, and its score; `docs/linear_score.md` has a table."""

import numpy as np

from sim.jit import kernel
from sim.linear.ahead import compact_in_s, holds_up, prolongs, wait_over_loss
from sim.linear.costs import left_s, weigh_costs
from sim.linear.desk import Desk
from sim.linear.filling import seat
from sim.linear.layout import HERE
from sim.scoring.table import StartWeight

# So that features are of the order of 1: an hour is 0, and so on.
HOUR_S, DURATION_SCALE = 3600.0, 2.5
AGE_UNIT_S, AGE_SCALE = 600.0, 2.5
GANG_SCALE = 4.0


@kernel
def duration_feature(desk: Desk, job: int) -> float:
    """Logarithm of the predicted hours left, scaled; 0 where durations are not looked at."""
    return float(np.log(left_s(desk, job) / HOUR_S) / DURATION_SCALE)


@kernel
def gang_feature(desk: Desk, job: int) -> float:
    """log2 of the gang, scaled: 16 GPUs are 1."""
    return float(np.log2(desk.job[job].gang) / GANG_SCALE)


@kernel
def weigh_partition(desk: Desk, m: int) -> None:
    """Fill what all jobs of partition `m` have in common."""
    part, x = desk.partition[m], desk.start_x
    up = max(part.up, 1)
    x[StartWeight.BIAS] = 1.0
    x[StartWeight.OCCUPANCY] = 1.0 - part.free / up
    x[StartWeight.PRESSURE] = np.log1p(part.waiting / up)


@kernel
def weigh_job(desk: Desk, job: int) -> None:
    """Fill what all placements of `job` have in common."""
    x = desk.start_x
    age_s = max(desk.game[0].now_s - desk.job[job].submit_s, 0.0)
    x[StartWeight.DURATION] = duration_feature(desk, job)
    x[StartWeight.AGE] = np.log1p(age_s / AGE_UNIT_S) / AGE_SCALE
    x[StartWeight.RELATIVE_AGE] = 0.0
    if desk.game[0].use_durations != 0:
        x[StartWeight.RELATIVE_AGE] = np.log1p(age_s / left_s(desk, job)) / AGE_SCALE
    x[StartWeight.GANG] = gang_feature(desk, job)


@kernel
def start_score(desk: Desk, job: int, m: int) -> float:
    """Score of the placement at hand."""
    x = desk.start_x
    shared = desk.place[HERE].shared
    if shared != 0:
        seat(desk)
    weigh_costs(desk, job, m)
    x[StartWeight.SPREAD_X_OCCUPANCY] = x[StartWeight.SPREAD] * x[StartWeight.OCCUPANCY]
    x[StartWeight.SPREAD_X_DURATION] = x[StartWeight.SPREAD] * x[StartWeight.DURATION]
    x[StartWeight.SPREAD_X_PRESSURE] = x[StartWeight.SPREAD] * x[StartWeight.PRESSURE]
    x[StartWeight.SHARED] = shared
    x[StartWeight.SHARED_X_PRESSURE] = shared * x[StartWeight.PRESSURE]
    if desk.game[0].look_ahead != 0:
        _look_ahead(desk, job, m)
    score = 0.0
    for i in range(len(x)):
        score += x[i] * desk.start_weight[i]
    return score


@kernel
def _look_ahead(desk: Desk, job: int, m: int) -> None:
    """Fill the features of the placement at hand that look ahead."""
    x, job_s, gang, ahead = desk.start_x, left_s(desk, job), desk.job[job].gang, desk.ahead
    if desk.place[HERE].shared == 0:
        seat(desk)
    gpus = desk.seats[:gang]
    wait_s = compact_in_s(ahead, ahead.release_s, gang, m)
    x[StartWeight.WAIT_OVER_LOSS] = wait_over_loss(
        wait_s, x[StartWeight.SPREAD] + x[StartWeight.OWN_SLOWDOWN], job_s
    )
    x[StartWeight.PROLONGS] = prolongs(ahead, gpus, job_s)
    x[StartWeight.HOLDS_UP] = holds_up(ahead, gpus, job_s, m)
