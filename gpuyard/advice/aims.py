"""What schedulers are ranked by, of runs and of the trace, bootstrapped by stretches of time."""

from dataclasses import dataclass

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray
from sim.jobs import JobTable
from sim.report.job_times import (
    SLOWDOWN_BOUND_S,
    blocked_s,
    counted,
    jct_s,
    queue_delay_s,
    slowdown,
    widening,
)
from sim.report.timeline import Steps, gpu_changes, gpus_over_time, steps_of_changes
from sim.run import Kind, Run
from sim.times import HOUR_S
from sim.topology.topology import Topology

RESAMPLES = 999
SEED = 0  # equal runs give equal intervals, and schedulers are paired: all see the same draws
P95 = 0.95
CONFIDENCE = 0.95  # at which draws of few blocks are widened
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
    "lost_gpu_h": Aim("GPU-hours lost to stops", "gpu_h"),
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
class FinishedJobs:
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


def draws_of(blocks: int) -> FloatArray:
    """(1 + R, B) how often each block counts: each once, then R draws with replacement."""
    shares = np.full(blocks, 1.0 / blocks)
    drawn = np.random.default_rng(SEED).multinomial(blocks, shares, RESAMPLES)
    return np.concatenate([np.ones((1, blocks)), drawn.astype(np.float64)])


def measured(finished: FinishedJobs, weights: FloatArray) -> dict[str, FloatArray]:
    """Each aim under each row of `weights` (R, B); NaN where nothing is there to measure."""
    whole = np.ones(len(finished.block), dtype=np.bool_)
    with np.errstate(invalid="ignore", divide="ignore"):
        return {
            "jct_mean_s": _mean(finished, finished.jct_s, whole, weights),
            "jct_p95_s": _percentile(finished, finished.jct_s, weights),
            "large_gang_wait_s": _mean(finished, finished.wait_s, finished.large, weights),
            "user_fairness": _fairness(finished, weights),
            "gpu_util_frac": (weights @ finished.busy_gpu_s) / (weights @ finished.offered_gpu_s),
            "lost_gpu_h": weights @ finished.lost_gpu_h,
        }


def bootstrapped(finished: FinishedJobs, blocks: int) -> dict[str, FloatArray]:
    """Each aim (1 + R,): the value, then draws of `blocks`, as far from it as t of so few asks for.

    Percentiles of few blocks are narrow: at 95 %, of ten they held in 88 of 100 cases. Draws move
    by logarithms, so that ratios of two rows are widened alike and nothing falls below 0.
    """
    found, wider = measured(finished, draws_of(blocks)), widening(max(blocks, 2), CONFIDENCE)
    for aim, values in found.items():
        if values[0] > 0:
            values[1:] = values[0] * (values[1:] / values[0]) ** wider
        if aim in ("user_fairness", "gpu_util_frac"):
            np.minimum(values, 1.0, out=values)
    return found


def _mean(
    finished: FinishedJobs, values: FloatArray, chosen: BoolArray, weights: FloatArray
) -> FloatArray:
    blocks = weights.shape[1]
    sums = np.bincount(finished.block[chosen], weights=values[chosen], minlength=blocks)
    counts = np.bincount(finished.block[chosen], minlength=blocks)
    means: FloatArray = (weights @ sums) / (weights @ counts)
    return means


def _percentile(finished: FinishedJobs, values: FloatArray, weights: FloatArray) -> FloatArray:
    """p95: of the jobs as they are as everywhere, of draws the order statistic at that share."""
    if not len(values):
        return np.full(len(weights), NAN)
    order = np.argsort(values, kind="stable")
    ranked, block = values[order], finished.block[order]
    found = np.full(len(weights), NAN)
    for row, weight in enumerate(weights):
        passed = np.cumsum(weight[block])
        if passed[-1] > 0:
            found[row] = ranked[np.searchsorted(passed, P95 * passed[-1])]
    found[0] = np.percentile(values, 100 * P95)
    return found


def _fairness(finished: FinishedJobs, weights: FloatArray) -> FloatArray:
    """Jain's index of the users' mean slowdowns: 1 if all are equal, 1 / users at worst."""
    known = finished.user >= 0
    if not known.any():
        return np.full(len(weights), NAN)
    names, user = np.unique(finished.user[known], return_inverse=True)
    blocks, users = weights.shape[1], len(names)
    cell = finished.block[known] * users + user
    shape = (blocks, users)
    counts = np.bincount(cell, minlength=blocks * users).reshape(shape).astype(np.float64)
    slow = finished.slowdown[known]
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


def large_gang(jobs: JobTable, topology: Topology, given: int | None) -> int:
    """GPUs from which a gang is large: `given`, else more than a server has.

    Where no job is that large, a whole server; where none has that either, the largest gang.
    """
    if given is not None:
        return given
    server = int(topology.gpus_per_server.max())
    most = int(jobs.num_gpus.max())
    return server + 1 if most > server else min(server, most)


def finished_of_run(run: Run, blocks: Blocks, large: int) -> FinishedJobs:
    """Of the finished, measured jobs."""
    chosen = counted(run)
    busy = gpus_over_time(gpu_changes(run.log), tenants=1)
    return FinishedJobs(
        block=blocks.of_job[chosen],
        jct_s=jct_s(run)[chosen],
        wait_s=queue_delay_s(run)[chosen],
        slowdown=slowdown(run)[chosen],
        large=run.jobs.num_gpus[chosen] >= large,
        user=users_of(run.jobs)[chosen],
        busy_gpu_s=_by_block(busy, blocks),
        offered_gpu_s=_offered(run.topology, blocks),
        lost_gpu_h=_lost_gpu_h(run, blocks),
    )


def finished_of_trace(
    jobs: JobTable, waited_s: FloatArray, topology: Topology, blocks: Blocks, large: int
) -> FinishedJobs:
    """Of the measured jobs as the trace has them.

    `waited_s` (J,) is from submission to start as it was, NaN: the job never began; `large` the
    GPUs from which a gang is large.
    """
    chosen = jobs.measured & ~np.isnan(waited_s)
    jct = waited_s + jobs.duration_s
    busy = _busy_as_it_was(jobs, waited_s)
    # The log may start a job before its parents end.
    ready_s = np.minimum(blocked_s(jobs, jobs.submit_s + jct), waited_s)
    return FinishedJobs(
        block=blocks.of_job[chosen],
        jct_s=jct[chosen],
        wait_s=(waited_s - ready_s)[chosen],
        slowdown=((jct - ready_s) / np.maximum(jobs.duration_s, SLOWDOWN_BOUND_S))[chosen],
        large=jobs.num_gpus[chosen] >= large,
        user=users_of(jobs)[chosen],
        busy_gpu_s=_by_block(busy, blocks),
        offered_gpu_s=_offered(topology, blocks),
        lost_gpu_h=np.full(blocks.count, NAN),
    )


def peak_gpus(jobs: JobTable, waited_s: FloatArray) -> float:
    """GPUs that ran at once in the trace, at most; parts of one count as parts."""
    return float(_busy_as_it_was(jobs, waited_s).value.max(initial=0.0).round(6))


def _busy_as_it_was(jobs: JobTable, waited_s: FloatArray) -> Steps:
    began = ~np.isnan(waited_s)
    start_s = (jobs.submit_s + waited_s)[began]
    end_s, gpus = start_s + jobs.duration_s[began], jobs.gang_gpus[began]
    time_s, change = np.concatenate([start_s, end_s]), np.concatenate([gpus, -gpus])
    order = np.argsort(time_s, kind="stable")
    return steps_of_changes(time_s[order], change[order])


def users_of(jobs: JobTable) -> IntArray:
    """(J,) users, where none is known virtual clusters; -1: unknown."""
    if jobs.identity is None:
        return np.full(len(jobs), -1, dtype=np.int64)
    user = jobs.identity.user
    return user if np.any(user >= 0) else jobs.identity.vc


def unserved(jobs: JobTable, done: BoolArray) -> int:
    """Users of measured jobs none of which is `done` (J,)."""
    user = users_of(jobs)
    asked = jobs.measured & (user >= 0)
    return len(np.setdiff1d(user[asked], user[asked & done]))


def stops_of(run: Run) -> int:
    """How often measured jobs lost their GPUs to others; leases renewed at once are no stops."""
    log, stops = run.log, (Kind.PREEMPT, Kind.EXPIRE)
    rows = np.flatnonzero(np.isin(log.kind, (*stops, Kind.START)))
    rows = rows[run.jobs.measured[log.job[rows]]]
    rows = rows[np.argsort(log.job[rows], kind="stable")]
    stopped = np.isin(log.kind[rows], stops)
    this, after = rows[:-1], rows[1:]
    again = stopped[:-1] & ~stopped[1:] & (log.job[this] == log.job[after])
    again &= log.time_s[this] == log.time_s[after]
    pairs = zip(this[again].tolist(), after[again].tolist(), strict=True)
    renewed = sum(np.array_equal(log.gpus[stop], log.gpus[start]) for stop, start in pairs)
    return int(stopped.sum()) - renewed


def _lost_gpu_h(run: Run, blocks: Blocks) -> FloatArray:
    """(B,) GPU-hours of restarts and of work done twice."""
    lost = np.zeros(len(run.jobs))
    if run.run_gpu_s is not None and run.served_gpu_s is not None:
        lost += np.maximum(run.run_gpu_s - run.served_gpu_s, 0.0)
    if run.lost_s is not None:
        lost += run.lost_s * run.jobs.num_gpus
    chosen: BoolArray = blocks.of_job >= 0
    weights = lost[chosen] / HOUR_S
    return np.bincount(blocks.of_job[chosen], weights, blocks.count).astype(np.float64)


def _by_block(busy: Steps, blocks: Blocks) -> FloatArray:
    return np.diff(busy.integral(blocks.edge_s))


def _offered(topology: Topology, blocks: Blocks) -> FloatArray:
    offered: FloatArray = np.diff(blocks.edge_s) * topology.num_gpus
    return offered
