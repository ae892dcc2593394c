"""How and when jobs left the system: finished, withdrawn, or not at all."""

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray
from sim.event_log import Kind
from sim.run import Run
from sim.traits import CANCELLED, COMPLETED

IN_SYSTEM = -1
"""Outcome of a job that never left."""


def withdrawn(run: Run) -> BoolArray:
    """(J,) jobs that left by a WITHDRAW."""
    found = np.zeros(len(run.jobs), dtype=np.bool_)
    found[run.log.job[run.log.kind == Kind.WITHDRAW]] = True
    return found


def finished(run: Run) -> BoolArray:
    """(J,) jobs that did all their work, whatever came of it."""
    return ~np.isnan(run.finish_s) & ~withdrawn(run)


def left_s(run: Run) -> FloatArray:
    """(J,) when the job left the system; NaN if it never did.

    The finish time of `Run`, which withdrawn jobs may have too; else the time of the WITHDRAW.
    """
    found = run.finish_s.copy()
    events = np.flatnonzero(run.log.kind == Kind.WITHDRAW)
    jobs = run.log.job[events]
    missing = np.isnan(found[jobs])
    found[jobs[missing]] = run.log.time_s[events[missing]]
    return found


def outcomes(run: Run) -> IntArray:
    """(J,) COMPLETED, FAILED, CANCELLED, or IN_SYSTEM.

    Where the run does not say, a job that finished has the outcome of its trace (COMPLETED where
    that has none), and a withdrawn one is CANCELLED.
    """
    if run.outcome is not None:
        return run.outcome
    fates = run.jobs.fates
    done = np.full(len(run.jobs), COMPLETED) if fates is None else fates.outcome
    return np.select([withdrawn(run), finished(run)], [CANCELLED, done], IN_SYSTEM)
