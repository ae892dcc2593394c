"""A run as a trace for ui.perfetto.dev: GPUs over time, in the Trace Event Format.

One process a server, one thread a GPU; a GPU with several tenants at once has one thread for each,
since slices of a thread must not overlap. One slice for each GPU of each attempt. A process
"cluster" holds the counters and the scheduler's decisions. Times are microseconds of simulated
time from the first submission.
"""

import gzip
import json
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

from sim.arrays import IntArray
from sim.files import atomic_file
from sim.report.gpu_use import Attempts, attempts_of
from sim.report.run_tables import server_names
from sim.report.timeline import Steps, gpu_changes, gpus_over_time, queue_over_time
from sim.run import Kind, Run

TRACE_FILE = "trace.json.gz"
CLUSTER = 1  # process of counters and decisions; viewers take process 0 for the idle one
FIRST_SERVER = 2  # process of server 0
DECISIONS = 1  # thread
FIRST_GPU = 2  # thread of GPU 0; no two threads of a trace have the same number
US_PER_S = 1_000_000
QUICK = 1  # gzip level: the file is a little larger and written in a third of the time
LINES_AT_ONCE = 5000
Clock = Callable[[float], int]  # seconds of the run -> whole microseconds of the trace


def write_perfetto(run: Run, path: Path) -> None:
    """Write the trace as gzipped JSON, whole or not at all; memory does not grow with slices.

    Raises:
        OSError: the folder cannot be written or is full.
    """
    with (
        atomic_file(path) as file,
        gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=QUICK, mtime=0) as packed,
    ):
        packed.write(b'{"displayTimeUnit":"ms","traceEvents":[\n')
        _write_lines(cast(BinaryIO, packed), trace_events(run))
        packed.write(b"\n]}\n")


def trace_events(run: Run) -> Iterator[str]:
    """The trace's events as JSON texts; slices of one thread come in order of time."""
    origin_s = float(run.jobs.submit_s[0])

    def clock(time_s: float) -> int:
        return round((time_s - origin_s) * US_PER_S)

    yield _name("process_name", CLUSTER, 0, f"cluster {run.topology.name}")
    yield _name("thread_name", CLUSTER, DECISIONS, f"decisions of {run.scheduler}")
    yield from _servers(run)
    yield from _slices(run, clock)
    yield from _counter("waiting jobs", queue_over_time(run), clock)
    yield from _counter("busy GPUs", gpus_over_time(gpu_changes(run.log), tenants=1), clock)
    yield from _decisions(run, clock)
    yield from _server_events(run, clock)


def _write_lines(file: BinaryIO, events: Iterator[str]) -> None:
    """Join with commas, several thousand at a time."""
    joint = ""
    while lines := list(islice(events, LINES_AT_ONCE)):
        file.write((joint + ",\n".join(lines)).encode())
        joint = ",\n"


def _name(what: str, process: int, thread: int, name: str) -> str:
    event = {"ph": "M", "name": what, "pid": process, "tid": thread, "args": {"name": name}}
    return json.dumps(event, separators=(",", ":"))


def _servers(run: Run) -> Iterator[str]:
    topology = run.topology
    gpu_types, names = topology.gpu_types, server_names(topology)
    for server in range(topology.num_servers):
        rack = int(topology.server_rack[server])
        gpu_type = gpu_types[int(topology.server_gpu_type[server])]
        process = server + FIRST_SERVER
        yield _name("process_name", process, 0, f"server {names[server]} (rack {rack}, {gpu_type})")
        yield (
            f'{{"ph":"M","name":"process_sort_index","pid":{process},"tid":0,'
            f'"args":{{"sort_index":{process}}}}}'
        )


def _slices(run: Run, clock: Clock) -> Iterator[str]:
    """One slice for each GPU of each attempt; threads are named when they are first used."""
    attempts = attempts_of(run)
    lane = lanes_of(run, attempts)
    gpu_server = run.topology.gpu_server.tolist()
    first_gpu = run.topology.server_first_gpu.tolist()
    lanes = int(lane.max(initial=0)) + 1
    named: set[int] = set()
    at = 0
    for row, event in enumerate(attempts.start_event.tolist()):
        body = _slice_body(run, attempts, row, clock)
        for gpu in run.log.gpus[event].tolist():
            server, thread = gpu_server[gpu], gpu * lanes + int(lane[at]) + FIRST_GPU
            if thread not in named:
                named.add(thread)
                tenant = f", tenant {int(lane[at]) + 1}" if lane[at] else ""
                label = f"GPU {gpu - first_gpu[server]} (id {gpu}{tenant})"
                yield _name("thread_name", server + FIRST_SERVER, thread, label)
            at += 1
            yield f'{{"ph":"X","pid":{server + FIRST_SERVER},"tid":{thread},{body}'


def _slice_body(run: Run, attempts: Attempts, row: int, clock: Clock) -> str:
    """What the slices of one attempt share."""
    job = int(attempts.job[row])
    start_us = clock(float(attempts.start_s[row]))
    length_us = clock(float(attempts.end_s[row])) - start_us
    cut = ',"unfinished":true' if attempts.open[row] else ""
    event = int(attempts.start_event[row])
    held, partition = len(run.log.gpus[event]), int(run.log.partition[event])
    return (
        f'"ts":{start_us},"dur":{length_us},"name":{json.dumps(str(run.jobs.job_id[job]))},'
        f'"args":{{"gang":{held},"profile":{int(run.jobs.profile[job])},'
        f'"partition":{partition},"attempt":{int(attempts.number[row])}{cut}}}}}'
    )


def lanes_of(run: Run, attempts: Attempts) -> IntArray:
    """(sum of GPUs of attempts,) the lowest lane of its GPU that is free when an attempt starts.

    Order: attempts, then the GPUs of each as logged. Lane 0 is a GPU's first tenant.
    """
    busy_until: dict[int, list[float]] = {}  # GPU -> end of the last slice of each lane
    found = []
    columns = (attempts.start_event, attempts.start_s, attempts.end_s)
    for event, start_s, end_s in zip(*(c.tolist() for c in columns), strict=True):
        for gpu in run.log.gpus[event].tolist():
            ends = busy_until.setdefault(gpu, [])
            lane = next((i for i, busy_s in enumerate(ends) if busy_s <= start_s), len(ends))
            ends[lane : lane + 1] = [end_s]
            found.append(lane)
    return np.array(found, dtype=np.int64)


def _counter(name: str, steps: Steps, clock: Clock) -> Iterator[str]:
    for time_s, value in zip(steps.time_s.tolist(), steps.value.tolist(), strict=True):
        yield (
            f'{{"ph":"C","pid":{CLUSTER},"name":"{name}","ts":{clock(time_s)},'
            f'"args":{{"value":{value:.0f}}}}}'
        )


def _decisions(run: Run, clock: Clock) -> Iterator[str]:
    """One instant for all orders that took effect at one time."""
    log = run.log
    rows = np.flatnonzero(np.isin(log.kind, (Kind.START, Kind.PREEMPT, Kind.FORWARD)))
    if not len(rows):
        return
    times_s, first = np.unique(log.time_s[rows], return_index=True)
    counts = {
        kind: np.add.reduceat((log.kind[rows] == kind).astype(np.int64), first).tolist()
        for kind in (Kind.START, Kind.PREEMPT, Kind.FORWARD)
    }
    for at, time_s in enumerate(times_s.tolist()):
        counted = {kind.name.lower(): counts[kind][at] for kind in counts if counts[kind][at]}
        name = ", ".join(f"{kind} {count}" for kind, count in counted.items())
        yield (
            f'{{"ph":"i","s":"t","pid":{CLUSTER},"tid":{DECISIONS},"ts":{clock(time_s)},'
            f'"name":"{name}","args":{json.dumps(counted, separators=(",", ":"))}}}'
        )


def _server_events(run: Run, clock: Clock) -> Iterator[str]:
    log = run.log
    for event in np.flatnonzero(np.isin(log.kind, (Kind.SERVER_DOWN, Kind.SERVER_UP))).tolist():
        if not len(log.gpus[event]):
            continue
        server = int(run.topology.gpu_server[log.gpus[event][0]])
        name = Kind(int(log.kind[event])).name.lower().replace("_", " ")
        yield (
            f'{{"ph":"i","s":"p","pid":{server + FIRST_SERVER},"tid":0,'
            f'"ts":{clock(float(log.time_s[event]))},"name":"{name}"}}'
        )
