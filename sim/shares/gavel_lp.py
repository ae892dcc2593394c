"""Gavel's linear program: what share of the time each class of jobs runs on each type of GPU."""

from dataclasses import dataclass

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.errors import SimulationError

MAX_MIN, TOTAL_THROUGHPUT = "max_min", "total_throughput"
POLICIES = (MAX_MIN, TOTAL_THROUGHPUT)

# Of the least throughput, which the second program may give up: rounding, no more.
SLACK_FRAC = 1e-6
NOTHING = 1e-9  # shares below the solver's precision


@dataclass(frozen=True)
class Classes:
    """C classes of like jobs, K ways to run: one for each GPU type, and one for a mix of types."""

    jobs: IntArray  # (C,) jobs in each
    gpus: FloatArray  # (C,) GPUs that one of them asks for
    speed: FloatArray  # (C, K) work a second, over that with an equal share of every type; 0: no
    use: FloatArray  # (K, T) of which types the GPUs of each way are; rows sum to 1


def time_shares(classes: Classes, gpus_of_type: IntArray, policy: str) -> FloatArray:
    """(C, K) share of the time that each job of a class should run in each way.

    `max_min` makes the least of (GPUs x normalised throughput) over the jobs as large as it can
    be, and what is then left as useful as it can be; `total_throughput` only makes the sum of
    (GPUs x normalised throughput) large. Narayanan and others, "Heterogeneity-aware cluster
    scheduling policies for deep learning workloads", OSDI 2020, section 4. A job is in one place
    at a time, and all together hold no more GPUs of a type than there are. Like jobs get like
    shares, which loses nothing since the programs are convex.

    Args:
        classes: what wants to run; those whose speeds are all 0 get nothing.
        gpus_of_type: (T,) GPUs of each type.
        policy: one of `POLICIES`.

    Raises:
        SimulationError: the solver gave up.
    """
    shares = np.zeros(classes.speed.shape)
    rows, ways = np.nonzero(classes.speed > 0)
    if len(rows) == 0:
        return shares
    shares[rows, ways] = _solved(classes, gpus_of_type, policy, rows, ways)
    shares[shares < NOTHING] = 0.0
    return shares


def _solved(
    classes: Classes, gpus_of_type: IntArray, policy: str, rows: IntArray, ways: IntArray
) -> FloatArray:
    """Values of the pairs (rows, ways); the last variable of the programs is the least one."""
    pairs = len(rows)
    worth = classes.gpus[rows] * classes.speed[rows, ways]
    some, at = np.unique(rows, return_inverse=True)
    held = classes.jobs[rows] * classes.gpus[rows] * classes.use[ways].T  # (T, pairs)
    one_place = _sums(np.ones(pairs), at, len(some))
    types = np.hstack([held, np.zeros((len(gpus_of_type), 1))])
    lines = [one_place, types]
    limits = [np.ones(len(some)), gpus_of_type.astype(np.float64)]
    total = np.append(-classes.jobs[rows] * worth, 0.0)
    if policy == TOTAL_THROUGHPUT:
        return _best(total, lines, limits, None)
    at_least = _sums(-worth, at, len(some))
    at_least[:, -1] = 1.0
    lines, limits = [*lines, at_least], [*limits, np.zeros(len(some))]
    least = _best(np.append(np.zeros(pairs), -1.0), lines, limits, None)
    reached = np.bincount(at, worth * least).min()
    return _best(total, lines, limits, float(reached * (1.0 - SLACK_FRAC)))


def _sums(values: FloatArray, line: IntArray, lines: int) -> FloatArray:
    """(lines, pairs + 1) matrix that adds up the pairs of each line."""
    matrix = np.zeros((lines, len(values) + 1))
    matrix[line, np.arange(len(values))] = values
    return matrix


def _best(
    cost: FloatArray, lines: list[FloatArray], limits: list[FloatArray], least: float | None
) -> FloatArray:
    """The pairs' values where lines @ x <= limits and the cost is lowest; `least` bounds the last.

    Raises:
        SimulationError: the solver gave up.
    """
    # scipy.optimize takes a moment to import, which runs of other schedulers need not pay.
    from scipy.optimize import linprog

    bounds = [(0.0, None)] * (len(cost) - 1) + [(0.0 if least is None else least, None)]
    found = linprog(
        cost,
        A_ub=np.vstack(lines),
        b_ub=np.concatenate(limits),
        bounds=bounds,
        method="highs",
    )
    if found.status != 0 or found.x is None:
        raise SimulationError(f"gavel: the linear program has no answer: {found.message}")
    x: FloatArray = found.x[:-1]
    return x
