"""What befalls jobs and servers over time: by hand, as series, and what is conserved."""

import dataclasses
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.errors import SimulationError
from sim.jobs import CANCELLED, FAILED, Fates, Precedence, Urgency
from sim.report.balance import balance_of, check_run, littles_law_gap
from sim.report.gpu_use import attempts_of, queue_by_partition, tenancy_of
from sim.report.job_times import counted, given_up
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


DOWN, UP = Kind.SERVER_DOWN, Kind.SERVER_UP


@pytest.fixture(scope="module")
def life(hand):
    """Six jobs on 2 servers of 2 GPUs; server 1 is down from 20 to 30.

    ::

        t (s)     0    10   20   30   40   50
        GPU 0     AAAAAAAAA AAAAAAAAA                 A: fails at 10, again 12-30
        GPU 1               DDDDDDDDDDDDDD            D: 1 GPU, 20-50
        GPU 2     BBBBBBBBBBxxxxxBBBBB                B: 2 GPUs, evicted at 20, again 30-40
        GPU 3     BBBBBBBBBBxxxxxBBBBB                C: withdrawn at 15, never ran
        GPU 2                         EEEEE           E: 40-45 until its lease ends, then 46-50
        GPU 3                         FFFFF           F: runs 40-48, withdrawn while it runs
    """
    job = hand.Job
    jobs = [
        job(0.0, 28.0, ((0.0, 10.0, [0]), (12.0, 30.0, [0])), ends=(Kind.FAIL, Kind.FINISH)),
        job(0.0, 30.0, ((0.0, 20.0, [2, 3]), (30.0, 40.0, [2, 3])), gpus=2,
            ends=(Kind.EVICT, Kind.FINISH)),
        job(5.0, 100.0, gpus=4, withdrawn_s=15.0),
        job(20.0, 30.0, ((20.0, 50.0, [1]),)),
        job(40.0, 9.0, ((40.0, 45.0, [2]), (46.0, 50.0, [2])), ends=(Kind.EXPIRE, Kind.FINISH)),
        job(40.0, 99.0, ((40.0, 48.0, [3]),), ends=(Kind.WITHDRAW,)),
    ]  # fmt: skip
    events = ((20.0, DOWN, [2, 3]), (30.0, UP, [2, 3]))
    return hand.build_run(jobs, 2, 2, 1, events, ("p100",))


def test_the_run_is_consistent(life):
    check_run(life)
    assert littles_law_gap(life) < 1e-12
    assert left_s(life).tolist() == [30, 40, 15, 50, 50, 48]
    finish_s = life.finish_s.copy()
    finish_s[2], finish_s[5] = 15.0, 48.0  # when the withdrawn jobs left
    other = dataclasses.replace(life, finish_s=finish_s)
    assert summarise(other) == pytest.approx(summarise(life), nan_ok=True)


def changed(life, **columns):
    """The run whose job table has other columns."""
    return dataclasses.replace(life, jobs=dataclasses.replace(life.jobs, **columns))


def test_jobs_wait_after_failing_and_no_more_after_withdrawal(life):
    queue = queue_over_time(life)
    times = np.array([4.0, 6.0, 11.0, 13.0, 16.0, 21.0, 31.0, 45.5, 49.0])
    #                        C     C, A   C     -    B     -     E     -
    assert queue.at(times).tolist() == [0, 1, 2, 1, 0, 1, 0, 1, 0]


def test_servers_that_are_down_take_their_gpus_away(life):
    assert available_over_time(life).at(np.array([0.0, 25.0, 30.0])).tolist() == [4, 2, 4]
    metrics = summarise(life)
    # held: A 28, B 2 x 30, D 30, E 9, F 8 = 135 of 4 x 50 nominal, 180 available
    assert metrics["busy_gpu_s"] == pytest.approx(135.0)
    assert metrics["gpu_util_frac"] == pytest.approx(135 / 200)
    assert metrics["availability_frac"] == pytest.approx(0.9)
    assert metrics["gpu_util_available_frac"] == pytest.approx(135 / 180)
    assert metrics["gpu_nominal_h"] == pytest.approx(200 / 3600)
    assert metrics["gpu_available_h"] == pytest.approx(180 / 3600)
    assert metrics["servers_down"] == 1
    # some job waits 5-15 and 20-30 and 45-46; free: GPU 1 then (5-15), GPU 0 10-12;
    # 20-30: nothing, since GPUs 2 and 3 are down; 45-46: GPUs 0 and 2
    assert metrics["gpu_idle_while_queued_frac"] == pytest.approx((10 + 2 + 2) / 200)


def test_counts_and_times_by_outcome(life):
    metrics = summarise(life)
    assert (metrics["jobs_finished"], metrics["jobs_withdrawn"]) == (4, 2)
    assert metrics["jobs_unfinished"] == 0
    assert outcomes(life).tolist() == [0, 0, CANCELLED, 0, 0, CANCELLED]
    assert metrics["jct_mean_s"] == pytest.approx((30 + 40 + 30 + 10) / 4)
    assert metrics["jct_cancelled_mean_s"] == pytest.approx((10 + 8) / 2)
    assert metrics["jobs_failed"] == 0 and np.isnan(metrics["jct_failed_mean_s"])
    never = np.full(6, np.inf)
    fates = Fates(np.array([FAILED, 0, 0, CANCELLED, 0, 0]), never)
    metrics = summarise(changed(life, fates=fates))
    assert [metrics[f"jobs_{name}"] for name in ("completed", "failed", "cancelled")] == [2, 1, 3]
    assert metrics["jct_failed_mean_s"] == 30.0
    own = dataclasses.replace(life, outcome=np.array([0, 0, 2, 1, 1, 2]))
    assert summarise(own)["jct_failed_mean_s"] == pytest.approx((30 + 10) / 2)


def test_jobs_without_work_that_were_given_up_count_for_no_scheduler(life):
    """Job 0 would have been withdrawn, had it waited: it found a place and ended at once."""
    work_s = np.where(np.arange(6) == 0, 0.0, life.jobs.duration_s)
    fates = Fates(np.zeros(6, dtype=np.int64), np.where(np.arange(6) < 2, 5.0, np.inf))
    told = changed(life, duration_s=work_s, fates=fates)
    assert counted(told).tolist() == [False, True, False, True, True, False]
    assert given_up(told).tolist() == [True, False, True, False, False, True]
    urgency = Urgency(np.zeros(6, dtype=int), np.full(6, 50.0))
    assert summarise(changed(told, urgency=urgency))["deadline_jobs"] == 3


def test_the_balance_of_gpu_seconds(life):
    metrics = summarise(life)
    assert metrics["held_gpu_s"] == pytest.approx(135.0)
    assert metrics["useful_gpu_s"] == pytest.approx(28 + 60 + 30 + 9)
    assert metrics["withdrawn_gpu_s"] == pytest.approx(8.0)
    assert metrics["overhead_gpu_s"] == pytest.approx(0.0)
    assert metrics["goodput_frac"] == pytest.approx(127 / 135)
    assert np.isnan(metrics["lost_gpu_s"]) and np.isnan(metrics["interference_frac"])
    part = np.array([1.0, 2.0, 0.0, 0.0, 0.0, 0.0])
    own = dataclasses.replace(life, lost_s=part, comm_s=2 * part, interference_s=part)
    metrics = summarise(own)
    assert metrics["lost_gpu_s"] == pytest.approx(1 + 2 * 2)
    assert metrics["overhead_gpu_s"] == pytest.approx(-5.0)
    assert metrics["interference_frac"] == pytest.approx(5 / 135)
    assert metrics["comm_frac"] == pytest.approx(10 / 135)
    assert metrics["comm_gpu_s"] == pytest.approx(10)


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [("lost_s", -1.0, "lost_s -1"), ("comm_s", np.nan, "comm_s nan"),
     ("interference_s", 28.5, "comm_s [+] interference_s")],
)  # fmt: skip
def test_parts_that_cannot_be_are_refused(life, column, value, words):
    part = np.zeros(6)
    part[0] = value
    with pytest.raises(SimulationError, match=f"job-0.*{words}"):
        check_run(dataclasses.replace(life, **{column: part}))


def test_gpu_seconds_that_appear_from_nowhere_are_refused(life):
    """The job's second attempt is logged on one GPU although its gang is two."""
    gpus = list(life.log.gpus)
    for event in np.flatnonzero((life.log.job == 1) & (life.log.time_s >= 30)):
        gpus[event] = gpus[event][:1]
    log = dataclasses.replace(life.log, gpus=tuple(gpus))
    with pytest.raises(SimulationError, match=r"job-1 held 50.*ran 60.*conserved"):
        check_run(dataclasses.replace(life, log=log))


@pytest.mark.parametrize(
    ("gpu", "events", "words"),
    [(2, ((20.0, DOWN, [2, 3]), (25.0, UP, [2, 3])), r"down for 5\.000 GPU-seconds"),
     (0, ((20.0, UP, [2, 3]),), r"a server gives back GPU 2 at t=20\.000")],
)  # fmt: skip
def test_jobs_on_servers_that_are_down_and_servers_up_before_they_went_down(
    hand, gpu, events, words
):
    run = hand.build_run([hand.Job(0.0, 30.0, ((0.0, 30.0, [gpu]),))], 2, 2, 1, events)
    with pytest.raises(SimulationError, match=words):
        summarise(run)


def test_logs_of_attempts_that_start_twice_or_of_times_that_go_back_are_refused(life):
    kind, run_s, time_s = life.log.kind.copy(), life.run_s.copy(), life.log.time_s.copy()
    kind[np.flatnonzero(kind == Kind.FAIL)[0]] = Kind.FORWARD
    run_s[0] = 30 - 0 - 12  # as the log now reads: -0 - 12 + 30
    twice = dataclasses.replace(life, log=dataclasses.replace(life.log, kind=kind), run_s=run_s)
    with pytest.raises(SimulationError, match=r"job-0 starts while it runs at t=12"):
        check_run(twice)
    time_s[int(np.flatnonzero(time_s == 12.0)[0])] = 3.0
    log = dataclasses.replace(life.log, time_s=time_s)
    with pytest.raises(SimulationError, match=r"t=3\.0.*before the one that precedes"):
        check_run(dataclasses.replace(life, log=log))


def test_deadlines(life):
    never = np.inf
    urgency = Urgency(np.zeros(6, dtype=int), np.array([29.0, 41.0, 1.0, never, 50.0, never]))
    metrics = summarise(changed(life, urgency=urgency))
    assert (metrics["deadline_jobs"], metrics["deadline_missed"]) == (3, 1)
    assert metrics["deadline_miss_frac"] == pytest.approx(1 / 3)
    assert np.isnan(summarise(life)["deadline_miss_frac"])


def test_workflows_last_from_first_submission_to_last_finish(hand):
    """0 -> 1 is one workflow (0-30); 2 -> 3 another, whose child is withdrawn before it is ready;

    4 is a job of no workflow.
    """
    job = hand.Job
    jobs = [
        job(0.0, 10.0, ((0.0, 10.0, [0]),)),
        job(0.0, 20.0, ((10.0, 30.0, [0]),), ready_s=10.0),
        job(5.0, 5.0, ((5.0, 8.0, [1]),), ends=(Kind.WITHDRAW,)),
        job(5.0, 5.0, withdrawn_s=8.0),
        job(6.0, 5.0, ((8.0, 13.0, [1]),)),
    ]
    run = hand.build_run(jobs, 1, 2, 1)
    precedence = Precedence(
        np.array([0, 0, 1, 1, 2, 2]), np.array([0, 2]), np.array([0, 0, 1, 1, -1])
    )
    metrics = summarise(changed(run, precedence=precedence))
    assert metrics["workflows_finished"] == 1
    assert metrics["workflow_time_mean_s"] == 30.0
    assert metrics["jobs_withdrawn"] == 2
    assert metrics["queue_len_mean"] == pytest.approx(2.0 / 30.0)  # only job 4 waits, 6-8
    assert summarise(hand.build_run(jobs[:1], 1, 2, 1))["workflows_finished"] == 0


def test_a_withdrawal_that_the_log_does_not_know_is_refused(life):
    keep = ~((life.log.kind == Kind.WITHDRAW) & (life.log.job == 2))
    log = log_with(life.log, keep)
    finish_s = life.finish_s.copy()
    finish_s[2] = 15.0
    with pytest.raises(SimulationError, match="Little's law"):
        check_run(dataclasses.replace(life, log=log, finish_s=finish_s))
