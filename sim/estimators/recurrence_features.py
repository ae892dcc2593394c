"""What a regression may read of each job at its submission: recurrence, owner, gang, time."""

import numpy as np

from sim.arrays import FloatArray
from sim.estimators.recurrence import (
    SHORTEST_S,
    Past,
    everyone,
    first_known,
    group_keys,
    past_of,
    user_keys,
)
from sim.traces.trace import Trace
from sim.traits import codes_of

HOUR_S, HOURS, DAYS = 3600.0, 24, 7
NAMES = (
    "gang", "group_last", "group_mean", "group_median", "group_count", "user_last", "user_median",
    "user_count", "vc_median", "gang_median", "median", "hour", "weekday",
)  # fmt: skip


def recurrence_features(trace: Trace, prior_s: float) -> FloatArray:
    """(J, F) columns NAMES.

    Seconds and gangs are natural logarithms, counts ln(1 + count). Statistics of a group without a
    finished run are those of its user; statistics of users, virtual clusters and gang sizes without
    one are those of all jobs; before any job has finished, `prior_s`. Hours and days count from the
    trace's origin, whatever time of day that is: only their period matters.

    Args:
        trace: J jobs.
        prior_s: above 0.
    """
    group = past_of(trace, group_keys(trace))
    user = past_of(trace, user_keys(trace))
    vc = past_of(trace, codes_of(trace.vc)).median_s
    gang = past_of(trace, trace.num_gpus).median_s
    median = first_known([past_of(trace, everyone(trace)).median_s], prior_s)

    def owners(column: str) -> FloatArray:
        return first_known([getattr(user, column), median], prior_s)

    def groups(column: str) -> FloatArray:
        return first_known([getattr(group, column), owners(column)], prior_s)

    hour = np.floor(trace.submit_s / HOUR_S)
    return np.stack(
        [
            np.log(trace.num_gpus),
            *(_ln(groups(column)) for column in ("last_s", "mean_s", "median_s")),
            _counts(group),
            _ln(owners("last_s")),
            _ln(owners("median_s")),
            _counts(user),
            _ln(first_known([vc, median], prior_s)),
            _ln(first_known([gang, median], prior_s)),
            _ln(median),
            hour % HOURS,
            (hour // HOURS) % DAYS,
        ],
        axis=1,
    )


def _ln(seconds: FloatArray) -> FloatArray:
    logs: FloatArray = np.log(np.maximum(seconds, SHORTEST_S))
    return logs


def _counts(past: Past) -> FloatArray:
    logs: FloatArray = np.log1p(past.count)
    return logs
