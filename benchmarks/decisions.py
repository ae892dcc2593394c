"""Milliseconds of a decision by cluster size, with the cluster four fifths full.

    python benchmarks/decisions.py [--json FILE] [--servers 16 64 256 1024]

A decision is for agents one agent's turn (the codec, the network and its answer), for the others
one round over all queues, with what lets time pass until it, for that is one compiled loop.
`--partition-servers` are what an agent owns; 0 leaves the cluster to 4 agents however large it is.
"""

import argparse
import itertools
import json
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from setup_run import Bench, bench

from sim.kernel.step import PAUSE
from sim.protocols import Loop, Scheduler
from sim.run import Kind
from sim.simulator import Simulator

SCHEDULERS = {
    "agents": ("scheduler=marl", "checkpoint=pretrained"),
    "agents, trained network": ("scheduler=marl", "checkpoint=pretrained_alone"),
    "linear score": ("scheduler=linear_score", "placer=compact_wait", "forwarding=steal"),
    "SJF, sharing, stealing": (
        "scheduler=sjf", "placer=compact_wait", "sharing=selective", "forwarding=steal",
    ),
}  # fmt: skip
FULL_SHARE, DECISIONS, WARM, AGENTS = 0.8, 200, 20, 4


def made(scheduler: str, servers: int, partition_servers: int) -> Bench:
    """A cluster of 8-GPU servers that gets more work than it can do."""
    agents = max(1, servers // partition_servers) if partition_servers else AGENTS
    return bench(
        "topology=medium_leaf_spine", f"topology.servers={servers}", f"agents.count={agents}",
        f"workload.num_jobs={servers * 60}", "workload.max_gang=16", "workload.load=3",
        "max_tenants=2", *SCHEDULERS[scheduler],
    )  # fmt: skip


def fill(simulator: Simulator, filler: Scheduler) -> None:
    """Play until most of the GPUs work."""
    filler.reset(0)
    loop = simulator.loop_of(filler)
    assert loop is not None
    while decided(simulator, loop):
        if (simulator.state.gpu["tenants"] > 0).mean() >= FULL_SHARE:
            return
    raise SystemExit("the workload ended before the cluster was full; give it more jobs")


def decided(simulator: Simulator, loop: Loop) -> bool:
    """Play until after the next decision, dropping the log before; False if there is none."""
    world = simulator.state.world
    world["num_logged"], world["num_logged_gpus"] = 0, 0
    return loop.play(loop.decisions + 1) == PAUSE


def decision_ms(simulator: Simulator, scheduler: Scheduler) -> list[float]:
    """Of each of the next decisions that start or forward something."""
    scheduler.reset(0)
    loop = simulator.loop_of(scheduler)
    found = timed_asking(simulator, scheduler) if loop is None else timed_loop(simulator, loop)
    return [seconds * 1e3 for seconds in itertools.islice(found, WARM, WARM + DECISIONS)]


def timed_loop(simulator: Simulator, loop: Loop) -> Iterator[float]:
    """Seconds in a compiled loop, what lets time pass until the decision included."""
    state, more = simulator.state, True
    while more:
        began = time.perf_counter()
        more = decided(simulator, loop)
        took_s = time.perf_counter() - began
        kinds = state.log["kind"][: int(state.world["num_logged"][0])]
        if np.isin(kinds, [Kind.START, Kind.FORWARD]).any():
            yield took_s


def timed_asking(simulator: Simulator, scheduler: Scheduler) -> Iterator[float]:
    """Seconds in `decide`."""
    views, again = simulator.views(scheduler.needs), False
    while again or simulator.advance():
        view = views.view()
        began = time.perf_counter()
        decision = scheduler.decide(view)
        took_s = time.perf_counter() - began
        if decision.starts or decision.forwards:
            yield took_s
        simulator.apply(decision)
        again = decision.again


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write all numbers to this file")
    parser.add_argument("--servers", type=int, nargs="+", default=(16, 64, 256, 1024))
    parser.add_argument("--partition-servers", type=int, default=0)
    options = parser.parse_args()
    rows: dict[str, dict[int, float]] = {name: {} for name in SCHEDULERS}
    print(f"{'scheduler':24} {'GPUs':>7}  median, ms  p95, ms")
    for servers in options.servers:
        for name in SCHEDULERS:
            case = made(name, servers, options.partition_servers)
            simulator = case.experiment.world.simulator(case.jobs)
            fill(simulator, made("SJF, sharing, stealing", servers, 0).scheduler)
            times = decision_ms(simulator, case.scheduler)
            median, high = statistics.median(times), statistics.quantiles(times, n=20)[-1]
            rows[name][servers * 8] = median
            print(f"{name:24} {servers * 8:7,}  {median:10.3f}  {high:7.3f}", flush=True)
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
