"""How time and memory grow: up to a million jobs on 100,000 GPUs.

    python benchmarks/scale.py [--json FILE] [--jobs N [N ...]]

Each size runs in a process of its own, whose peak memory is its answer. The exponent is that of
time over jobs, fitted to the logarithms: n log n from 1e5 to 1e6 jobs is 1.08.
"""

import argparse
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import linear_regression

from setup_run import NO_PHYSICS, bench, synthetic, write_csv

GPUS, LOAD = 100_000, 0.9
SIZES = (100_000, 300_000, 1_000_000)
GIB_OF_KIB = 1 / 2**20


def one(jobs: int, policy: str) -> dict[str, float]:
    """One run in this process."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "jobs.csv"
        write_csv(path, synthetic(jobs, GPUS, LOAD, 1))
        case = bench(
            "workload=csv", f"workload.path={path}", "topology=huge_leaf_spine",
            f"scheduler={policy}", "placer=packed", *NO_PHYSICS,
        )  # fmt: skip
    began = time.perf_counter()
    run = case.play()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * GIB_OF_KIB
    return {
        "jobs": jobs,
        "loop_s": run.loop_wall_s,
        "play_s": time.perf_counter() - began,
        "peak_gib": peak,
    }


def exponent(rows: list[dict[str, float]]) -> float:
    """Slope of ln time over ln jobs, least squares."""
    jobs, loop = ([math.log(row[key]) for row in rows] for key in ("jobs", "loop_s"))
    return linear_regression(jobs, loop).slope


def in_own_process(jobs: int, policy: str) -> dict[str, float]:
    """The numbers of `one`, from a fresh interpreter."""
    command = [sys.executable, __file__, "--one", str(jobs), "--policy", policy]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    numbers: dict[str, float] = json.loads(text.splitlines()[-1])
    return numbers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write all numbers to this file")
    parser.add_argument("--jobs", type=int, nargs="+", default=SIZES, help="sizes to run")
    parser.add_argument("--policies", nargs="+", default=("fifo", "las", "srtf"))
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--policy", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        print(json.dumps(one(options.one, options.policy)))
        return
    found: dict[str, object] = {}
    for policy in options.policies:
        in_own_process(min(options.jobs), policy)  # compiles
        rows = [in_own_process(jobs, policy) for jobs in options.jobs]
        for row in rows:
            print(
                f"{policy:5} {row['jobs']:>9,.0f} jobs: event loop {row['loop_s']:7.2f} s, "
                f"with building {row['play_s']:7.2f} s, peak {row['peak_gib']:5.2f} GiB"
            )
        print(f"{policy:5} time grows as jobs to the {exponent(rows):.2f}")
        found[policy] = {"rows": rows, "exponent": exponent(rows)}
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
