"""Conservation on runs of the real kernel with failures, leases, outages, DAGs and sharing."""

import dataclasses

import numpy as np
import pytest

from sim.errors import SimulationError
from sim.report.balance import balance_of, check_run
from sim.report.gpu_use import attempts_of, queue_by_partition, tenancy_of
from sim.report.summary import summarise
from sim.report.timeline import (
    available_over_time,
    jobs_over_time,
    left_s,
    outcomes,
    queue_over_time,
    stops,
)
from sim.run import Kind
from tests.report.run_builder import log_with

SEEDS = range(12)
AGAIN = (Kind.READY, Kind.PREEMPT, Kind.FAIL, Kind.EVICT, Kind.EXPIRE)


@pytest.mark.parametrize("seed", SEEDS)
def test_everything_that_happens_is_accounted_for(eventful, seed):
    run = eventful(seed)
    check_run(run)
    metrics = summarise(run)
    balance = balance_of(run)
    parts = balance.useful + balance.lost + balance.restart + balance.overhead + balance.withdrawn
    assert parts + balance.unfinished == pytest.approx(balance.held)
    assert balance.held == pytest.approx(run.run_gpu_s.sum())
    assert 0 <= metrics["gpu_util_available_frac"] <= 1 + 1e-9
    assert metrics["jobs_unfinished"] == 0
    assert metrics["jobs_finished"] + metrics["jobs_withdrawn"] == len(run.jobs)
    assert metrics["interference_frac"] >= 0 and metrics["comm_frac"] > 0
    available = available_over_time(run)
    assert available.value.max() <= run.topology.num_gpus and available.value.min() >= 0


def test_these_runs_have_every_kind_of_event(eventful):
    seen = set().union(*(set(eventful(seed).log.kind.tolist()) for seed in SEEDS))
    assert seen == set(Kind) - {Kind.FORWARD}


@pytest.mark.parametrize("seed", SEEDS)
def test_the_queue_is_what_a_simple_count_says(eventful, seed):
    """Jobs are walked one by one, in the way of a reader who has never seen the code."""
    run = eventful(seed)
    log, precedence = run.log, run.jobs.precedence
    waiting, done, waits_s, before_s = set(), set(), 0.0, float(log.time_s[0])
    parents = [
        set(precedence.parents[a:b].tolist())
        for a, b in zip(precedence.first[:-1], precedence.first[1:], strict=True)
    ]
    good = {j for j in range(len(run.jobs)) if run.jobs.fates.outcome[j] == 0}
    for time_s, kind, job in zip(
        log.time_s.tolist(), log.kind.tolist(), log.job.tolist(), strict=True
    ):
        waits_s += len(waiting) * (time_s - before_s)
        before_s = time_s
        if kind == Kind.FINISH:
            done.add(job)
        elif kind in AGAIN or (kind == Kind.ARRIVAL and parents[job] <= done & good):
            waiting.add(job)
        elif kind in (Kind.START, Kind.WITHDRAW):
            waiting.discard(job)
    end = np.array([log.time_s[-1]])
    assert queue_over_time(run).integral(end)[0] == pytest.approx(waits_s)
    assert queue_over_time(run).value.min() >= 0
    assert queue_over_time(run).value[-1] == 0 and jobs_over_time(run).value[-1] == 0
    assert sum(q.integral(end)[0] for q in queue_by_partition(run)) == pytest.approx(waits_s)


@pytest.mark.parametrize("seed", SEEDS)
def test_attempts_and_tenancy_hold_the_same_gpu_seconds(eventful, seed):
    run = eventful(seed)
    attempts = attempts_of(run)
    length_s = attempts.end_s - attempts.start_s
    assert np.bincount(attempts.job, weights=length_s, minlength=len(run.jobs)) == pytest.approx(
        run.run_s
    )
    tenancy = tenancy_of(run, np.arange(run.topology.num_gpus))
    held = np.bincount(tenancy.job, tenancy.end_s - tenancy.start_s, len(run.jobs))
    assert held == pytest.approx(run.run_gpu_s)
    assert (tenancy.place < tenancy.tenants).all() and tenancy.tenants.max() <= 2


def test_outcomes_agree_with_what_the_log_and_the_trace_say(eventful):
    for seed in SEEDS:
        run = eventful(seed)
        derived = outcomes(dataclasses.replace(run, outcome=None))
        assert derived.tolist() == run.outcome.tolist()
        assert not np.isnan(left_s(run)).any()


@pytest.mark.parametrize("kind", [Kind.FAIL, Kind.EVICT, Kind.EXPIRE, Kind.WITHDRAW])
def test_a_lost_end_is_refused(eventful, kind):
    """Whatever ends an attempt: without it the run's accounts disagree."""
    for seed in SEEDS:
        run = eventful(seed)
        rows = np.flatnonzero((run.log.kind == kind) & stops(run.log))
        if len(rows):
            break
    keep = np.arange(len(run.log.kind)) != rows[0]
    with pytest.raises(SimulationError):
        summarise(dataclasses.replace(run, log=log_with(run.log, keep)))
