"""Replaying a log, every way in which it can be wrong, and the Perfetto trace."""

import dataclasses
import gzip
import json
import os
from collections import defaultdict

import numpy as np
import pytest

from sim.files import ReportError
from sim.report.perfetto import write_perfetto
from sim.report.replay import Replay, clock, event_line, heat_map, ranges
from sim.report.timeline import queue_over_time, unusable_changes
from sim.run import Kind
from tests.report.run_builder import recorded_of


@pytest.fixture(scope="module")
def shared(hand):
    """2 servers of 2 GPUs: A on 0 and 1 from 0 to 20; B joins on 1, 5-10; server 1 is down 8-9."""
    jobs = [
        hand.Job(0.0, 20.0, ((0.0, 20.0, [0, 1]),), gpus=2),
        hand.Job(5.0, 5.0, ((5.0, 10.0, [1]),)),
    ]
    events = ((8.0, Kind.SERVER_DOWN, [2, 3]), (9.0, Kind.SERVER_UP, [2, 3]))
    return hand.build_run(jobs, 2, 2, 1, events)


def replay_of(run, **changes):
    log = dataclasses.replace(run.log, **changes)
    return Replay(recorded_of(dataclasses.replace(run, log=log)), max_tenants=2)


def test_every_step_of_a_small_log(shared):
    replay = replay_of(shared)
    seen = []
    while replay.position < len(replay):
        replay.forward()
        seen.append((replay.now_s, replay.queue_length, replay.free_gpus, tuple(replay.tenants)))
    assert seen == [
        (0, 1, 4, (0, 0, 0, 0)), (0, 0, 2, (1, 1, 0, 0)),
        (5, 1, 2, (1, 1, 0, 0)), (5, 0, 2, (1, 2, 0, 0)),
        (8, 0, 0, (1, 2, 0, 0)), (9, 0, 2, (1, 2, 0, 0)),
        (10, 0, 2, (1, 1, 0, 0)), (20, 0, 4, (0, 0, 0, 0)),
    ]  # fmt: skip
    replay.finish()
    replay.go_to(4)
    assert replay.tenants == [1, 2, 0, 0]


@pytest.mark.parametrize("seed", range(6))
def test_eventful_logs_are_consistent_and_agree_with_the_metrics(eventful, seed):
    run = eventful(seed)
    replay = Replay(recorded_of(run), max_tenants=2)
    queue, away = queue_over_time(run), unusable_changes(run.log)
    while replay.position < len(replay):
        replay.forward()
        after = replay.position == len(replay) or run.log.time_s[replay.position] > replay.now_s
        if after:
            now = np.array([replay.now_s])
            assert replay.queue_length == queue.at(now)[0]
            past = away.time_s <= replay.now_s
            assert replay.free_gpus == run.topology.num_gpus - away.gpus_with(1)[past].sum()
    replay.finish()


@pytest.mark.parametrize(
    ("event", "gpus", "words"),
    [
        (1, [0, 0], "event 1 .*names a GPU twice: 0, 0"),
        (1, [0], "event 1 .*starts on 1 GPU, its gang is 2"),
        (1, [0, 9], "event 1 .*takes GPU 9; the cluster has 4"),
        (6, [3], "event 6 .*finish of job job-1 gives back GPUs 3, it held 1"),
        (5, [1, 2], "event 5 .*server_up brings up GPU 1, which was not down"),
        (4, [1], "before event 5: GPUs 1 are held although their server went down"),
    ],
)
def test_wrong_gpus(shared, event, gpus, words):
    lists = [each.copy() for each in shared.log.gpus]
    lists[event] = np.array(gpus, dtype=np.int64)
    with pytest.raises(ReportError, match=words):
        replay_of(shared, gpus=tuple(lists)).finish()


@pytest.mark.parametrize(
    ("event", "kind", "words"),
    [
        (0, Kind.FORWARD, "absent, not waiting"), (1, Kind.ARRIVAL, "waiting, not absent"),
        (3, Kind.EXPIRE, "waiting, not running"), (7, Kind.FORWARD, "running, not waiting"),
        (3, Kind.READY, "waiting, not blocked"),
    ],
)  # fmt: skip
def test_wrong_kinds(shared, event, kind, words):
    kinds = shared.log.kind.copy()
    kinds[event] = kind
    with pytest.raises(ReportError, match=f"event {event} .*comes while the job is {words}"):
        replay_of(shared, kind=kinds).finish()


def test_who_is_withdrawn_while_it_waits_gives_nothing_back(hand):
    """It runs from 0 to 5, and from 10 to 12, when it is withdrawn; its second start is missing.

    Its first one stands for both in the file of jobs.
    """
    twice = hand.Job(0.0, 20.0, ((0.0, 5.0, [0]), (10.0, 12.0, [1])),
                     ends=(Kind.PREEMPT, Kind.WITHDRAW))  # fmt: skip
    run = hand.build_run([twice], 1, 2, 1)
    replay_of(run).finish()
    kept = np.array([0, 1, 2, 4])
    columns = {
        name: getattr(run.log, name)[kept] for name in ("time_s", "kind", "job", "partition")
    }
    less = replay_of(run, **columns, gpus=[run.log.gpus[event] for event in kept.tolist()])
    with pytest.raises(ReportError, match=r"event 3 .*withdraw .* gives back GPUs 1, it held none"):
        less.finish()


def test_gpus_that_are_not_given_back_times_that_go_back_and_one_tenant_too_many(shared, cut_off):
    words = "event 4, the last: GPUs are held by 1 job; the first is job job-0 with GPUs 1"
    with pytest.raises(ReportError, match=words):
        replay_of(cut_off).finish()
    time_s = shared.log.time_s.copy()
    time_s[6] = 7.0
    with pytest.raises(ReportError, match=r"event 6 .*goes back from t=9"):
        replay_of(shared, time_s=time_s).finish()
    words = r"event 3 \(t=5\.0 s\): start of job job-1 takes GPU 1, which has 1 tenants already"
    with pytest.raises(ReportError, match=words):
        Replay(recorded_of(shared), max_tenants=1).finish()


def test_lines_and_maps(shared):
    replay = replay_of(shared)
    replay.go_to(5)
    line = event_line(replay, 4)
    words = ("#4", "server_down", "server 1", "queue 0", "free 0/4", "GPUs 2-3")
    assert [word for word in words if word not in line] == []
    assert heat_map(replay, width=80, height=40).splitlines()[1].split()[-2:] == ["12", "xx"]
    assert heat_map(replay, width=20, height=40).splitlines()[1].endswith("█x")
    assert len(heat_map(replay, width=80, height=0).splitlines()) == 2  # one sign a rack
    assert ranges([3, 1, 2, 9]) == "1-3,9"
    assert (clock(86400 * 2 + 3661.04), clock(59.96)) == ("2d 01:01:01.0", "00:01:00.0")


def load(run, tmp_path):
    write_perfetto(run, tmp_path / "trace.json.gz")
    with gzip.open(tmp_path / "trace.json.gz", "rt", encoding="utf-8") as file:
        return json.load(file)["traceEvents"]


def slices(events):
    return [event for event in events if event["ph"] == "X"]


@pytest.mark.parametrize("seed", range(6))
def test_slices_are_the_attempts(eventful, tmp_path, seed):
    run = eventful(seed)
    events = load(run, tmp_path)
    held_us, gang = defaultdict(int), {}
    ends = {}
    for event in slices(events):
        assert event["ts"] >= ends.get(event["tid"], 0), "slices of a thread overlap"
        ends[event["tid"]] = event["ts"] + event["dur"]
        held_us[event["name"]] += event["dur"]
        gang[event["name"]] = event["args"]["gang"]
    for row, name in enumerate(run.jobs.job_id):
        if name in gang:
            assert held_us[name] / 1e6 == pytest.approx(run.run_gpu_s[row], abs=1e-4)
            assert gang[name] == run.jobs.num_gpus[row]
        else:
            assert run.run_s[row] == 0
    starts = int((run.log.kind == Kind.START).sum())
    attempts = {(event["name"], event["args"]["attempt"]) for event in slices(events)}
    assert len(attempts) == starts


def test_the_gang_of_an_elastic_job_is_what_each_attempt_holds(hand, tmp_path):
    attempts = ((0.0, 10.0, [0, 1]), (10.0, 20.0, [1, 2, 3]))  # of the four it asked for
    run = hand.build_run([hand.Job(0.0, 20.0, attempts, gpus=4)], 2, 2, 1)
    gangs = [(event["args"]["attempt"], event["args"]["gang"]) for event in
             slices(load(run, tmp_path))]  # fmt: skip
    assert gangs == [(1, 2)] * 2 + [(2, 3)] * 3


def test_threads_are_gpus_and_their_second_tenants(gantt_run, tmp_path):
    events = load(gantt_run, tmp_path)
    names = {
        event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"
    }
    used = {event["tid"] for event in slices(events)}
    assert used <= set(names)
    assert {names[tid] for tid in used} == {
        "GPU 0 (id 0)", "GPU 1 (id 1)", "GPU 0 (id 2)", "GPU 1 (id 3)", "GPU 0 (id 2, tenant 2)",
    }  # fmt: skip
    servers = [event["args"]["name"] for event in events if event["name"] == "process_name"]
    assert servers == [
        "cluster hand", "server 0 (rack 0, v100)", "server 1 (rack 0, v100)",
    ]  # fmt: skip
    first = next(event for event in slices(events) if event["name"] == "job-2")
    assert first["args"] == {"gang": 2, "profile": 0, "partition": 1, "attempt": 1}
    assert (first["ts"], first["dur"]) == (10_000_000, 5_000_000)


@pytest.fixture(scope="module")
def gantt_run(hand):
    """C (10-15 on 2 and 3, again 30-40 on 0 and 1) joins D (10-40) on GPU 2."""
    job = hand.Job
    jobs = [
        job(0.0, 20.0, ((0.0, 20.0, [0, 1]),), gpus=2),
        job(10.0, 20.0, ((10.0, 40.0, [2]),), home=1),
        job(10.0, 15.0, ((10.0, 15.0, [2, 3]), (30.0, 40.0, [0, 1])), gpus=2, home=1),
    ]
    events = ((2.0, Kind.SERVER_DOWN, [2, 3]), (3.0, Kind.SERVER_UP, [2, 3]))
    return hand.build_run(jobs, 2, 2, 2, events)


def test_counters_decisions_and_servers(gantt_run, tmp_path):
    events = load(gantt_run, tmp_path)
    busy = [
        (event["ts"] / 1e6, event["args"]["value"])
        for event in events
        if event["ph"] == "C" and event["name"] == "busy GPUs"
    ]
    assert busy == [(0, 2), (10, 4), (15, 3), (20, 1), (30, 3), (40, 0)]
    instants = [event for event in events if event["ph"] == "i"]
    told = [(event["ts"] / 1e6, event["name"]) for event in instants]
    assert told == [
        (0, "start 1"), (10, "start 2"), (15, "preempt 1"), (30, "start 1"),
        (2, "server down"), (3, "server up"),
    ]  # fmt: skip
    assert {event["pid"] for event in instants if "server" in event["name"]} == {3}


def test_jobs_that_the_run_cuts_off_are_marked(cut_off, tmp_path):
    events = slices(load(cut_off, tmp_path))
    assert [event["args"].get("unfinished") for event in events] == [None, True]
    assert events[1]["dur"] == 25_000_000


def test_times_are_counted_from_the_first_submission_and_names_with_quotes_survive(hand, tmp_path):
    start_s = 1.5e9  # a trace in seconds since 1970
    run = hand.build_run([hand.Job(start_s, 7.25, ((start_s, start_s + 7.25, [0]),))], 1, 1, 1)
    run.jobs.job_id[0] = 'a "b"\\\n'
    (only,) = slices(load(run, tmp_path))
    assert (only["name"], only["ts"], only["dur"]) == ('a "b"\\\n', 0, 7_250_000)


def test_equal_runs_give_equal_bytes_and_a_full_disk_no_half_trace(eventful, tmp_path, monkeypatch):
    for name in ("a", "b"):
        write_perfetto(eventful(1), tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_perfetto(eventful(1), tmp_path / "trace.json.gz")
    assert {path.name for path in tmp_path.iterdir()} == {"a", "b"}
