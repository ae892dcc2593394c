"""Jobs by how they ended, deadlines that were missed, and workflows (DAGs of jobs)."""

import numpy as np

from sim.arrays import FloatArray
from sim.metrics.job_times import counted
from sim.metrics.leaving import left_s, outcomes, withdrawn
from sim.metrics.over_time import span_s
from sim.run import Run
from sim.traits import CANCELLED, COMPLETED, FAILED

NAN = float("nan")
NAMES = {"completed": COMPLETED, "failed": FAILED, "cancelled": CANCELLED}


def outcome_metrics(run: Run) -> dict[str, float | int]:
    """Number and mean JCT of measured jobs by outcome; withdrawn jobs count until they left.

    A job that was withdrawn is among the cancelled ones, so these means say how long the users
    of failed and cancelled jobs waited for that end.
    """
    outcome, measured = outcomes(run), run.jobs.measured
    took_s = left_s(run) - run.jobs.submit_s
    metrics: dict[str, float | int] = {}
    for name, value in NAMES.items():
        chosen = measured & (outcome == value)
        metrics[f"jobs_{name}"] = int(chosen.sum())
        metrics[f"jct_{name}_mean_s"] = float(took_s[chosen].mean()) if chosen.any() else NAN
    return metrics


def deadline_metrics(run: Run) -> dict[str, float | int]:
    """Measured jobs with a deadline, and those that missed it; NaN where the trace has none.

    A job that has not finished misses its deadline once that is past; withdrawn jobs are left
    out, since nobody waits for them any more.
    """
    urgency = run.jobs.urgency
    if urgency is None:
        return {"deadline_jobs": 0, "deadline_missed": 0, "deadline_miss_frac": NAN}
    chosen = run.jobs.measured & np.isfinite(urgency.deadline_s) & ~withdrawn(run)
    end_s = np.where(np.isnan(run.finish_s), span_s(run)[1], run.finish_s)
    missed = int(np.count_nonzero(chosen & (end_s > urgency.deadline_s)))
    jobs = int(chosen.sum())
    return {
        "deadline_jobs": jobs,
        "deadline_missed": missed,
        "deadline_miss_frac": missed / jobs if jobs else NAN,
    }


def workflow_times_s(run: Run) -> FloatArray:
    """(W,) last finish - first submission of each workflow whose jobs all finished and count."""
    precedence = run.jobs.precedence
    if precedence is None or not (precedence.workflow >= 0).any():
        return np.empty(0)
    member = precedence.workflow >= 0
    number = precedence.workflow[member]
    size = int(number.max()) + 1
    first_s, last_s = np.full(size, np.inf), np.full(size, -np.inf)
    np.minimum.at(first_s, number, run.jobs.submit_s[member])
    finish_s = np.where(counted(run), run.finish_s, np.inf)[member]  # inf spoils its workflow
    np.maximum.at(last_s, number, finish_s)
    times_s: FloatArray = last_s - first_s
    return times_s[np.isfinite(times_s)]


def workflow_metrics(run: Run) -> dict[str, float | int]:
    """Completion times of workflows; NaN where there is none."""
    times_s = workflow_times_s(run)
    known = len(times_s) > 0
    return {
        "workflows_finished": len(times_s),
        "workflow_time_mean_s": float(times_s.mean()) if known else NAN,
        "workflow_time_p95_s": float(np.percentile(times_s, 95)) if known else NAN,
    }
