"""Replaying a log: where it stands, and every way in which a log can be wrong."""

import dataclasses

import numpy as np
import pytest

from sim.files import ReportError
from sim.report.replay import Replay, clock, event_line, heat_map, ranges
from sim.report.timeline import queue_over_time, unusable_changes
from sim.run import Kind
from tests.report.recorded import recorded_of


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


def test_one_tenant_too_many(shared):
    replay = Replay(recorded_of(shared), max_tenants=1)
    words = r"event 3 \(t=5\.0 s\): start of job job-1 takes GPU 1, which has 1 tenants already"
    with pytest.raises(ReportError, match=words):
        replay.finish()


def changed_gpus(run, event, gpus):
    lists = [each.copy() for each in run.log.gpus]
    lists[event] = np.array(gpus, dtype=np.int64)
    return {"gpus": tuple(lists)}


@pytest.mark.parametrize(
    ("event", "gpus", "words"),
    [
        (1, [0, 0], "event 1 .*names a GPU twice: 0, 0"),
        (1, [0], "event 1 .*starts on 1 GPUs, its gang is 2"),
        (1, [0, 9], "event 1 .*takes GPU 9; the cluster has 4"),
        (6, [3], "event 6 .*finish of job job-1 gives back GPUs 3, it held 1"),
        (5, [1, 2], "event 5 .*server_up brings up GPU 1, which was not down"),
        (4, [1], "before event 5: GPUs 1 are held although their server went down"),
    ],
)
def test_wrong_gpus(shared, event, gpus, words):
    with pytest.raises(ReportError, match=words):
        replay_of(shared, **changed_gpus(shared, event, gpus)).finish()


def changed_kind(run, event, kind):
    kinds = run.log.kind.copy()
    kinds[event] = kind
    return {"kind": kinds}


@pytest.mark.parametrize(
    ("event", "kind", "words"),
    [
        (0, Kind.FORWARD, "event 0 .*comes while the job is absent, not waiting"),
        (1, Kind.ARRIVAL, "event 1 .*comes while the job is waiting, not absent"),
        (3, Kind.EXPIRE, "event 3 .*comes while the job is waiting, not running"),
        (7, Kind.FORWARD, "event 7 .*comes while the job is running, not waiting"),
        (3, Kind.READY, "event 3 .*comes while the job is waiting, not blocked"),
    ],
)
def test_wrong_kinds(shared, event, kind, words):
    with pytest.raises(ReportError, match=words):
        replay_of(shared, **changed_kind(shared, event, kind)).finish()


def test_gpus_that_are_not_given_back(cut_off):
    words = "event 4, the last: 1 jobs still hold GPUs; the first is job job-0 with GPUs 1"
    with pytest.raises(ReportError, match=words):
        replay_of(cut_off).finish()


def test_times_that_go_back(shared):
    time_s = shared.log.time_s.copy()
    time_s[6] = 7.0
    with pytest.raises(ReportError, match=r"event 6 .*goes back from t=9"):
        replay_of(shared, time_s=time_s).finish()


def test_lines_and_maps(shared):
    replay = replay_of(shared)
    replay.go_to(5)
    line = event_line(replay, 4)
    for word in ("#4", "server_down", "server 1", "queue 0", "free 0/4", "GPUs 2-3"):
        assert word in line
    assert heat_map(replay, width=80, height=40).splitlines()[1].split()[-2:] == ["12", "xx"]
    narrow = heat_map(replay, width=20, height=40).splitlines()
    assert narrow[1].endswith("█x")
    assert len(heat_map(replay, width=80, height=0).splitlines()) == 2  # one sign a rack


def test_texts():
    assert ranges([3, 1, 2, 9]) == "1-3,9"
    assert clock(86400 * 2 + 3661.04) == "2d 01:01:01.0"
    assert clock(59.96) == "00:01:00.0"
