"""Time series, and conservation laws on runs in which everything happens."""

import dataclasses
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.errors import SimulationError
from sim.report.balance import balance_of, check_run, littles_law_gap
from sim.report.gpu_use import attempts_of, queue_by_partition, tenancy_of
from sim.report.summary import summarise
from sim.report.timeline import (
    Steps,
    available_over_time,
    gpu_changes,
    jobs_over_time,
    left_s,
    outcomes,
    queue_over_time,
    running_count,
    span_s,
    steps_of_changes,
    stops,
    timeline_of,
    utilisation_over_time,
)
from sim.run import EventLog, GpuLists, Kind
from tests.report.run_builder import log_with


def test_utilisation_and_queue_of_the_gantt_chart(gantt):
    utilisation, queue = utilisation_over_time(gantt), queue_over_time(gantt)
    times = np.array([-1.0, 0.0, 12.0, 17.0, 25.0, 33.0, 37.0, 40.0])
    assert utilisation.at(times) * 4 == pytest.approx([0, 2, 4, 4, 3, 4, 3, 0])
    assert queue.at(times) == pytest.approx([0, 0, 2, 2, 1, 0, 0, 0])
    timeline = timeline_of(gantt, bins=7)
    assert timeline.gpu_util_frac.sum() * 40.0 / 7 * 4 == pytest.approx(125.0)
    assert timeline.queue_jobs.sum() * 40.0 / 7 == pytest.approx(30.0)
    assert timeline.time_s[0] == 0.0


def test_steps_integrate_between_any_two_times_and_changes_at_one_instant_are_one():
    steps = Steps(np.array([1.0, 3.0, 4.0]), np.array([2.0, 5.0, 0.0]))
    assert steps.integral(np.array([0.0, 1.0, 2.0, 3.5, 9.0])) == pytest.approx([0, 0, 2, 6.5, 9])
    assert steps.mean(2.0, 4.0) == pytest.approx((2 + 5) / 2)
    assert steps.mean(4.0, 4.0) == 0.0
    steps = steps_of_changes(np.array([1.0, 1.0, 2.0]), np.array([1, 1, -2]))
    assert steps.time_s.tolist() == [1.0, 2.0] and steps.value.tolist() == [2.0, 0.0]


def test_sums_inside_groups_are_those_of_a_loop_however_large_the_numbers():
    rng = np.random.default_rng(0)
    for most in (3, 2**16, 2**40):
        group, change = rng.integers(most, size=500) // 2 * 2, rng.choice([-1, 1], 500)
        total: dict[int, int] = {}
        for which, moved, count in zip(group, change, running_count(group, change), strict=True):
            total[which] = total.get(which, 0) + moved
            assert count == total[which]


def test_millions_of_changes_are_kept_narrow():
    turns, gpus = 2000, 64  # one job that starts and stops on all GPUs
    sizes = np.full(2 * turns, gpus)
    log = EventLog(
        time_s=np.arange(2.0 * turns),
        kind=np.tile([Kind.START, Kind.PREEMPT], turns),
        job=np.zeros(2 * turns, dtype=np.int64),
        partition=np.zeros(2 * turns, dtype=np.int64),
        gpus=GpuLists(np.append(0, np.cumsum(sizes)), np.tile(np.arange(gpus), 2 * turns)),
    )
    gpu_changes(log)  # what the first call imports does not count
    tracemalloc.start()
    changes = gpu_changes(log)
    kept, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    rows = 2 * turns * gpus
    assert changes.after.tolist() == ([1] * gpus + [0] * gpus) * turns
    assert kept / rows < 15 and most / rows < 45, (kept / rows, most / rows)


@st.composite
def fifo_jobs(draw):
    """(submit, duration, gpus) of up to 30 jobs on 6 GPUs."""
    job = st.tuples(st.floats(0, 1e4), st.floats(0, 1e3), st.integers(1, 6))
    return sorted(draw(st.lists(job, min_size=1, max_size=30)))


def run_fifo(hand, jobs):
    """Run jobs in order of submission, each on the GPUs that are free first; no sharing."""
    free_s, made, earliest_s = np.zeros(6), [], 0.0
    for submit_s, duration_s, gpus in jobs:
        chosen = np.argsort(free_s, kind="stable")[:gpus]
        earliest_s = max(submit_s, earliest_s, float(free_s[chosen].max()))
        end_s = earliest_s + duration_s
        free_s[chosen] = end_s
        made.append(hand.Job(submit_s, duration_s, ((earliest_s, end_s, chosen.tolist()),), gpus))
    return hand.build_run(made, servers=3, gpus_per_server=2, partitions=1)


@settings(max_examples=60, deadline=None)
@given(fifo_jobs())
def test_gpu_seconds_and_jobs_are_conserved(hand, jobs):
    run = run_fifo(hand, jobs)
    start_s, end_s = span_s(run)
    busy_gpu_s = utilisation_over_time(run).mean(start_s, end_s) * (end_s - start_s) * 6
    assert busy_gpu_s == pytest.approx(float(np.sum(run.run_s * run.jobs.num_gpus)), abs=1e-6)
    assert littles_law_gap(run) < 1e-9
    assert gpu_changes(run.log).after.max() <= 1 or (run.run_s == 0).any()
    metrics = summarise(run)
    assert 0 <= metrics["gpu_util_frac"] <= 1 + 1e-9
    assert metrics["jct_mean_s"] >= metrics["queue_delay_mean_s"] - 1e-9
    assert metrics["shared_gpu_frac"] == pytest.approx(0.0, abs=1e-9)


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
    attempts, tenancy = attempts_of(run), tenancy_of(run, np.arange(run.topology.num_gpus))
    ran_s = np.bincount(attempts.job, attempts.end_s - attempts.start_s, len(run.jobs))
    assert ran_s == pytest.approx(run.run_s)
    held = np.bincount(tenancy.job, tenancy.end_s - tenancy.start_s, len(run.jobs))
    assert held == pytest.approx(run.run_gpu_s)
    assert (tenancy.place < tenancy.tenants).all() and tenancy.tenants.max() <= 2
    derived = outcomes(dataclasses.replace(run, outcome=None))  # from the log and the trace
    assert derived.tolist() == run.outcome.tolist()
    assert not np.isnan(left_s(run)).any()


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
