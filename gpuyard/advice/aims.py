"""What schedulers are ranked by, with a block bootstrap over stretches of the trace's time."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray

RESAMPLES = 999
SEED = 0  # equal runs give equal intervals, and schedulers are paired: all see the same draws
P95 = 0.95
CHUNK = 100  # draws at a time where there is a number for every user
NAN = float("nan")


@dataclass(frozen=True)
class Aim:
    """One way to rank; `kind` says how its numbers are written."""

    words: str
    kind: str  # time, share, index or gpu_h
    more_is_better: bool = False


AIMS = {  # column of advice.csv
    "jct_mean_s": Aim("mean JCT", "time"),
    "jct_p95_s": Aim("p95 JCT", "time"),
    "large_gang_wait_s": Aim("mean wait of large gangs", "time"),
    "user_fairness": Aim("fairness among users", "index", more_is_better=True),
    "gpu_util_frac": Aim("GPU use", "share", more_is_better=True),
    "lost_gpu_h": Aim("GPU-hours lost to preemption", "gpu_h"),
}


@dataclass(frozen=True, kw_only=True)
class Blocks:
    """B consecutive stretches of the submissions, of about equally many measured jobs."""

    of_job: IntArray  # (J,) block of each job; -1: not measured
    edge_s: FloatArray  # (B + 1,) first submission of each block, and the last submission

    @property
    def count(self) -> int:
        """B."""
        return len(self.edge_s) - 1


def blocks_of(submit_s: FloatArray, measured: BoolArray, count: int) -> Blocks:
    """Cut the measured jobs (J,) by their order of submission into at most `count` blocks."""
    rows = np.flatnonzero(measured)
    count = max(min(count, len(rows)), 1)
    block = np.full(len(submit_s), -1, dtype=np.int64)
    block[rows] = np.arange(len(rows)) * count // max(len(rows), 1)
    firsts = [rows[np.searchsorted(block[rows], at)] for at in range(count)]
    edge_s = np.append(submit_s[firsts], submit_s[rows[-1]])
    return Blocks(of_job=block, edge_s=edge_s)


@dataclass(frozen=True, kw_only=True)
class Told:
    """What is known of n finished, measured jobs, and of B blocks."""

    block: IntArray  # (n,)
    jct_s: FloatArray  # (n,)
    wait_s: FloatArray  # (n,) without GPUs
    slowdown: FloatArray  # (n,) JCT over work, of 10 s at least
    large: BoolArray  # (n,) gangs that count as large
    user: IntArray  # (n,) -1: unknown
    busy_gpu_s: FloatArray  # (B,)
    offered_gpu_s: FloatArray  # (B,) all GPUs of the cluster times the length of the block
    lost_gpu_h: FloatArray  # (B,) NaN: not known


Measure = Callable[[Told, FloatArray], FloatArray]


def draws_of(blocks: int) -> FloatArray:
    """(1 + R, B) how often each block counts: each once, then R draws with replacement."""
    shares = np.full(blocks, 1.0 / blocks)
    drawn = np.random.default_rng(SEED).multinomial(blocks, shares, RESAMPLES)
    return np.concatenate([np.ones((1, blocks)), drawn.astype(np.float64)])


def measured(told: Told, weights: FloatArray) -> dict[str, FloatArray]:
    """Each aim under each row of `weights` (R, B); NaN where nothing is there to measure."""
    whole = np.ones(len(told.block), dtype=np.bool_)
    with np.errstate(invalid="ignore", divide="ignore"):
        return {
            "jct_mean_s": _mean(told, told.jct_s, whole, weights),
            "jct_p95_s": _percentile(told, told.jct_s, weights),
            "large_gang_wait_s": _mean(told, told.wait_s, told.large, weights),
            "user_fairness": _fairness(told, weights),
            "gpu_util_frac": (weights @ told.busy_gpu_s) / (weights @ told.offered_gpu_s),
            "lost_gpu_h": weights @ told.lost_gpu_h,
        }


def _mean(told: Told, values: FloatArray, chosen: BoolArray, weights: FloatArray) -> FloatArray:
    blocks = weights.shape[1]
    sums = np.bincount(told.block[chosen], weights=values[chosen], minlength=blocks)
    counts = np.bincount(told.block[chosen], minlength=blocks)
    means: FloatArray = (weights @ sums) / (weights @ counts)
    return means


def _percentile(told: Told, values: FloatArray, weights: FloatArray) -> FloatArray:
    """p95: of the jobs as they are as everywhere, of draws the order statistic at that share."""
    if not len(values):
        return np.full(len(weights), NAN)
    order = np.argsort(values, kind="stable")
    ranked, block = values[order], told.block[order]
    found = np.full(len(weights), NAN)
    for row, weight in enumerate(weights):
        passed = np.cumsum(weight[block])
        if passed[-1] > 0:
            found[row] = ranked[np.searchsorted(passed, P95 * passed[-1])]
    found[0] = np.percentile(values, 100 * P95)
    return found


def _fairness(told: Told, weights: FloatArray) -> FloatArray:
    """Jain's index of the users' mean slowdowns: 1 if all are equal, 1 / users at worst."""
    known = told.user >= 0
    if not known.any():
        return np.full(len(weights), NAN)
    names, user = np.unique(told.user[known], return_inverse=True)
    blocks, users = weights.shape[1], len(names)
    cell = told.block[known] * users + user
    shape = (blocks, users)
    counts = np.bincount(cell, minlength=blocks * users).reshape(shape).astype(np.float64)
    slow = told.slowdown[known]
    sums = np.bincount(cell, slow, blocks * users).reshape(shape).astype(np.float64)
    parts = [_jain(weights[at : at + CHUNK], sums, counts) for at in range(0, len(weights), CHUNK)]
    return np.concatenate(parts)


def _jain(weights: FloatArray, sums: FloatArray, counts: FloatArray) -> FloatArray:
    """(R,) of the users (U,) with jobs in each draw."""
    jobs = weights @ counts
    means = np.where(jobs > 0, (weights @ sums) / np.maximum(jobs, 1.0), 0.0)
    present = (jobs > 0).sum(axis=1)
    index: FloatArray = means.sum(axis=1) ** 2 / (present * (means**2).sum(axis=1))
    return index
