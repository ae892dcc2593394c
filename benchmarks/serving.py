"""Requests a second that `gpuyard serve` answers, with one client that keeps its connection.

    python benchmarks/serving.py [--json FILE] [--seconds 10] [--only sjf agents] [--waiting 50]

Service and client are two processes on one core (`--cores 2`: on two). The cluster has 512 GPUs,
four fifths of which are held; so many jobs wait, and one request in two frees some GPUs first, so
that there is something to decide. `busy_ms` is the processor time of the service for a request, and
`requests_per_busy_s` what one core does that nobody else, the client included, takes time from.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from gpuyard.serving.client import Connection

ROOT = Path(__file__).resolve().parents[1]
SERVED = {
    "fifo": ("scheduler=fifo",),
    "sjf": ("scheduler=sjf",),
    "sjf, sharing": ("scheduler=sjf", "sharing=selective", "placer=compact_wait"),
    "linear score": ("scheduler=linear_score", "placer=compact_wait", "agents.count=8"),
    "agents": ("scheduler=marl", "checkpoint=pretrained", "agents.count=8"),
}
HELD_SHARE, WAITING, STATES, WARM = 0.8, 50, 200, 20
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


@contextmanager
def served(words: tuple[str, ...], folder: Path) -> Iterator[tuple[Connection, int]]:
    """A service in a process of its own, and its number."""
    command = [
        sys.executable, str(ROOT / "scripts" / "serve.py"), "topology=medium_leaf_spine",
        "port=0", f"hydra.run.dir={folder}", *words,
    ]  # fmt: skip
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        if "answering at" not in line:
            raise SystemExit("the service did not start")
        try:
            yield Connection(line.split()[2], None, 60.0), process.pid
        finally:
            process.send_signal(signal.SIGINT)


def states(
    cluster: dict[str, Any], rng: np.random.Generator, waiting: int = WAITING
) -> list[dict[str, Any]]:
    """Requests: the cluster four fifths full, a queue, and every second time room for some."""
    return [_state(cluster, rng, waiting, frees=at % 2 == 0) for at in range(STATES)]


def _state(
    cluster: dict[str, Any], rng: np.random.Generator, waiting: int, *, frees: bool
) -> dict[str, Any]:
    now_s, running = 100_000.0, list[dict[str, Any]]()
    for server in cluster["servers"]:
        at, last = server["first_gpu"], server["first_gpu"] + server["gpus"]
        while at < last:
            gang = min(int(rng.choice([1, 2, 4, 8])), last - at)
            if rng.random() < (HELD_SHARE if frees else 1.0):
                started_s = now_s - rng.uniform(10, 9000)
                running.append(
                    {"placement": list(range(at, at + gang)), "started_s": started_s}
                    | _job(cluster, rng, f"r{len(running)}")
                )
            at += gang
    queue = [
        {
            "gpus": int(rng.choice([1, 2, 4, 8, 16])),
            "submitted_s": now_s - rng.uniform(0, 5000),
            "partition": int(rng.integers(cluster["partitions"])),
        }
        | _job(cluster, rng, f"q{at}")
        for at in range(waiting)
    ]
    return {"time_s": now_s, "queue": queue, "running": running}


def _job(cluster: dict[str, Any], rng: np.random.Generator, name: str) -> dict[str, Any]:
    profile = str(rng.choice(cluster["profiles"]))
    return {"id": name, "estimate_s": float(rng.lognormal(7, 1.5)), "profile": profile}


def busy_s(process: int) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS


def measured(service: Connection, process: int, seconds: float, waiting: int) -> dict[str, float]:
    """Ask for so many seconds."""
    cluster = service.call("GET", "/cluster")
    bodies = states(cluster, np.random.default_rng(0), waiting)
    for body in bodies[:WARM]:
        service.call("POST", "/decide", body)
    taken_s, starts, before_s = list[float](), 0, busy_s(process)
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        asked = time.perf_counter()
        answer = service.call("POST", "/decide", bodies[len(taken_s) % STATES])
        taken_s.append(time.perf_counter() - asked)
        starts += sum(order["action"] == "start" for order in answer["decisions"])
    wall_s, count = time.perf_counter() - began, len(taken_s)
    each_s = (busy_s(process) - before_s) / count
    return {
        "requests_per_s": count / wall_s,
        "requests_per_busy_s": 1.0 / each_s,
        "p50_ms": 1e3 * float(np.quantile(taken_s, 0.5)),
        "p99_ms": 1e3 * float(np.quantile(taken_s, 0.99)),
        "busy_ms": 1e3 * each_s,
        "starts": starts / count,
        "running": float(np.mean([len(body["running"]) for body in bodies])),
        "body_bytes": float(np.mean([len(json.dumps(body)) for body in bodies])),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--waiting", type=int, default=WAITING)
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="sjf and agents for one second each")
    parser.add_argument("--only", nargs="*", default=list(SERVED), choices=list(SERVED))
    parser.add_argument("--folder", type=Path, default=ROOT / "runs" / "serving")
    options = parser.parse_args()
    if options.quick:
        options.only, options.seconds = ["sjf", "agents"], 1.0
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.cores])
    rows = {}
    for name in options.only:
        with served(SERVED[name], options.folder / re.sub(r"\W+", "_", name)) as (service, process):
            rows[name] = measured(service, process, options.seconds, options.waiting)
        figures = "  ".join(f"{key} {value:,.1f}" for key, value in rows[name].items())
        print(f"{name:14} {figures}", flush=True)
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
