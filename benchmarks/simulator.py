"""The simulator against a bare loop, and against published simulators.

    python benchmarks/simulator.py [--json FILE] [--trace FILE] [--quick] [--cliffs]

1. A whole trace (Philly's 79,515 jobs where GPUYARD_DATA has them, else as many synthetic ones) on
   2,496 GPUs: each policy's event loop over the bare FIFO floor (`fifo`), medians of repeated
   runs, in turns so that all meet the same disturbances.
2. Four synthetic traces: jobs/s in the event loop, beside the fastest published simulator of each
   column as measured on traces of this kind (whole process; see docs/results/speed.md).
3. What an extra costs (`cliffs.py`): trace M with it over without it; --cliffs: only this.

The floor: strict FIFO, first fit, in one compiled function and nothing else. No speeds, no log, no
preemption, no checks: the least that a simulator which says where each gang ran has to do. Ratios
of the simulator's time to this one's say what everything else costs.
"""

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
from cliffs import Setting, cliffs
from numba import njit
from setup_run import NO_PHYSICS, Bench, bench, synthetic, write_csv

from sim.arrays import FloatArray, IntArray


@njit(cache=True)
def _push(times: FloatArray, jobs: IntArray, size: int, at_s: float, job: int) -> None:
    at = size
    while at > 0:
        above = (at - 1) // 2
        if times[above] <= at_s:
            break
        times[at], jobs[at] = times[above], jobs[above]
        at = above
    times[at], jobs[at] = at_s, job


@njit(cache=True)
def _pop(times: FloatArray, jobs: IntArray, size: int) -> None:
    """Drop the first of `size` entries."""
    last = size - 1
    at_s, job, at = times[last], jobs[last], 0
    while True:
        below = 2 * at + 1
        if below >= last:
            break
        if below + 1 < last and times[below + 1] < times[below]:
            below += 1
        if times[below] >= at_s:
            break
        times[at], jobs[at] = times[below], jobs[below]
        at = below
    times[at], jobs[at] = at_s, job


@njit(cache=True)
def _take(free: IntArray, holder: IntArray, size: int, gang: int, job: int, out: IntArray) -> None:
    """First fit: write the ids of `gang` free GPUs to `out`, server by server."""
    found = 0
    for server in range(len(free)):
        if free[server] == 0:
            continue
        for gpu in range(server * size, (server + 1) * size):
            if holder[gpu] < 0:
                holder[gpu] = job
                free[server] -= 1
                out[found] = gpu
                found += 1
                if found == gang:
                    return


@njit(cache=True)
def _give_back(free: IntArray, holder: IntArray, size: int, gpus: IntArray) -> None:
    for gpu in gpus:
        holder[gpu] = -1
        free[gpu // size] += 1


@njit(cache=True)
def fifo(
    submit_s: FloatArray, num_gpus: IntArray, duration_s: FloatArray, servers: int, size: int
) -> tuple[FloatArray, IntArray]:
    """Finish times (J,) and the GPUs of all jobs one after the other."""
    jobs = len(submit_s)
    free, total = np.full(servers, size, np.int64), servers * size
    holder = np.full(total, -1, np.int64)
    first = np.zeros(jobs + 1, np.int64)
    first[1:] = np.cumsum(num_gpus)
    placed = np.empty(first[jobs], np.int64)
    times, running, size_now = np.empty(total), np.empty(total, np.int64), 0
    finish_s, head, arrived, done = np.empty(jobs), 0, 0, 0
    while done < jobs:
        now_s = times[0] if size_now > 0 else np.inf
        if arrived < jobs and submit_s[arrived] < now_s:
            now_s = submit_s[arrived]
        while size_now > 0 and times[0] <= now_s:
            job = running[0]
            _pop(times, running, size_now)
            size_now -= 1
            finish_s[job] = now_s
            done += 1
            total += num_gpus[job]
            _give_back(free, holder, size, placed[first[job] : first[job + 1]])
        while arrived < jobs and submit_s[arrived] <= now_s:
            arrived += 1
        while head < arrived and num_gpus[head] <= total:
            gang = num_gpus[head]
            _take(free, holder, size, gang, head, placed[first[head] : first[head + 1]])
            total -= gang
            _push(times, running, size_now, now_s + duration_s[head], head)
            size_now += 1
            head += 1
    return finish_s, placed


DATA = Path(os.environ.get("GPUYARD_DATA", "../shared/data"))
PHILLY = DATA / "traces" / "philly_jobs.csv.gz"
PHILLY_JOBS, SERVERS, SIZE = 79_515, 312, 8
POLICIES = {
    "fifo": ("scheduler=fifo", *NO_PHYSICS),
    "las": ("scheduler=las", *NO_PHYSICS),
    "srtf": ("scheduler=srtf", *NO_PHYSICS),
    "physics": ("scheduler=fifo", "placer=packed", "sharing=fallback", "network=max_min"),
}
# name: jobs, GPUs, load, seed; jobs/s of the fastest published simulator there.
TRACES = {
    "S": (1_000, 64, 0.9, 7, 2_551),
    "M": (10_000, 512, 0.9, 7, 2_259),
    "L": (10_000, 2_496, 0.9, 7, 3_126),
    "H": (10_000, 64, 0.95, 11, 1_421),
}


def floor_s(case: Bench) -> float:
    """Seconds of one bare run over the same jobs."""
    jobs = case.jobs
    submit_s, duration_s = np.array(jobs.submit_s), np.array(jobs.duration_s)
    began = time.perf_counter()
    fifo(submit_s, jobs.num_gpus.astype(np.int64), duration_s, SERVERS, SIZE)
    return time.perf_counter() - began


def against_floor(workload: tuple[str, ...], repeats: int) -> dict[str, float]:
    """Median seconds of the floor and of each policy, and the ratios."""
    cases = {
        name: bench(*workload, "topology=large_leaf_spine", "estimator=oracle", *overrides)
        for name, overrides in POLICIES.items()
    }
    seconds: dict[str, list[float]] = {"floor": [], **{name: [] for name in cases}}
    for turn in range(repeats + 1):
        taken = {"floor": floor_s(cases["fifo"])}
        taken |= {name: case.play().loop_wall_s for name, case in cases.items()}
        for name, value in taken.items():
            if turn > 0:  # the first one compiles
                seconds[name].append(value)
    medians = {name: median(values) for name, values in seconds.items()}
    ratios = {f"{name}_over_floor": medians[name] / medians["floor"] for name in cases}
    return {**ratios, **{f"{name}_s": value for name, value in medians.items()}}


def against_peers(folder: Path, repeats: int, share: float) -> dict[str, float]:
    """Jobs/s in the event loop by trace, placer and policy, and over the fastest peer."""
    rates: dict[str, float] = {}
    for name, (jobs, gpus, load, seed, peer) in TRACES.items():
        path = folder / f"{name}.csv"
        write_csv(path, synthetic(int(jobs * share), gpus, load, seed))
        for policy in ("fifo", "las", "srtf"):
            for placer in ("consolidated", "packed"):
                case = bench(
                    "workload=csv", f"workload.path={path}", f"topology.servers={gpus // SIZE}",
                    "topology=large_leaf_spine", f"placer={placer}", *POLICIES[policy],
                )  # fmt: skip
                case.play()
                loop_s = median(case.play().loop_wall_s for _ in range(repeats))
                rate = len(case.jobs) / loop_s
                rates[f"{name}_{policy}_{placer}_jobs_per_s"] = rate
                rates[f"{name}_{policy}_{placer}_over_peer"] = rate / peer
    return rates


def of_extras(folder: Path, repeats: int, share: float) -> dict[str, float]:
    """The ratios `cliff_<what>` on trace M."""
    jobs, gpus, load, seed, _ = TRACES["M"]
    path = folder / "extras.csv"
    write_csv(path, synthetic(int(jobs * share), gpus, load, seed))
    return cliffs(Setting(path, gpus // SIZE), repeats)


def of_policies(folder: Path, given: Path, repeats: int, share: float) -> dict[str, float]:
    """Against the floor on `given`, or where it is not there on synthetic jobs; against peers."""
    trace = given
    if share < 1.0 or not trace.is_file():
        trace = folder / "whole.csv"
        write_csv(trace, synthetic(int(PHILLY_JOBS * share), SERVERS * SIZE, 0.4, 1))
        print(f"{given} not used: synthetic jobs instead")
    numbers = against_floor(("workload=csv", f"workload.path={trace}"), repeats)
    return numbers | against_peers(folder, repeats, share)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write all numbers to this file")
    parser.add_argument("--trace", type=Path, default=PHILLY, help="a trace as workload=csv reads")
    parser.add_argument("--quick", action="store_true", help="a twentieth of the jobs, one repeat")
    parser.add_argument("--cliffs", action="store_true", help="only what an extra costs")
    options = parser.parse_args()
    repeats, share = (1, 0.05) if options.quick else (5, 1.0)
    with tempfile.TemporaryDirectory() as name:
        folder, numbers = Path(name), dict[str, float]()
        if not options.cliffs:
            numbers |= of_policies(folder, options.trace, repeats, share)
        numbers |= of_extras(folder, repeats, share)
    for key, value in numbers.items():
        print(f"{key:40} {value:12,.4g}")
    if options.json is not None:
        options.json.write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
