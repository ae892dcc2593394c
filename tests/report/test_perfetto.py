"""The Perfetto trace: it parses, and says what the run says."""

import gzip
import json
from collections import defaultdict

import pytest

from sim.report.perfetto import write_perfetto
from sim.run import Kind


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


def test_names_with_quotes_survive(hand, tmp_path):
    run = hand.build_run([hand.Job(0.0, 1.0, ((0.0, 1.0, [0]),))], 1, 1, 1)
    run.jobs.job_id[0] = 'a "b"\\\n'
    assert slices(load(run, tmp_path))[0]["name"] == 'a "b"\\\n'


def test_times_are_counted_from_the_first_submission(hand, tmp_path):
    start_s = 1.5e9  # a trace in seconds since 1970
    run = hand.build_run([hand.Job(start_s, 7.25, ((start_s, start_s + 7.25, [0]),))], 1, 1, 1)
    (only,) = slices(load(run, tmp_path))
    assert (only["ts"], only["dur"]) == (0, 7_250_000)


def test_equal_runs_give_equal_bytes(eventful, tmp_path):
    for name in ("a", "b"):
        write_perfetto(eventful(1), tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_full_disk_leaves_no_half_trace(eventful, tmp_path, monkeypatch):
    import os

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_perfetto(eventful(1), tmp_path / "trace.json.gz")
    assert list(tmp_path.iterdir()) == []
