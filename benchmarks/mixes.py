"""What tables of mixes cost: the event loop with 2 and 4 jobs a GPU, by pairs and by a table.

    python benchmarks/mixes.py [--json FILE] [--jobs N] [--repeats N]

Synthetic jobs on 512 GPUs at load 1.3, FIFO, packed, sharing as soon as nothing is empty, so that
most jobs share; medians of the process time of the event loop, in turns. The table is that of a
power a hair above 1: practically the pairs' sums, so that both runs have the same events.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
from setup_run import Bench, bench, synthetic, write_csv

from sim.simulator import simulate

GPUS, SIZE, LOAD, SEED = 512, 8, 1.3, 7
CELLS = {
    "pairs_2": ("max_tenants=2",),
    "pairs_4": ("max_tenants=4",),
    "mixes_4": ("max_tenants=4", "mixes=power", "mixes.power=1.000001"),
    "host_2": ("max_tenants=2", "host=shared"),
}


def loop_s(case: Bench) -> tuple[float, float]:
    """Process seconds of one event loop, and the share of jobs that others slowed."""
    simulator = case.experiment.world.simulator(case.jobs)
    began = time.process_time()
    run = simulate(simulator, case.scheduler, 0, None)
    assert run.interference_s is not None
    return time.process_time() - began, float(np.mean(run.interference_s > 0))


def measured(path: Path, repeats: int) -> dict[str, float]:
    """Median seconds and share of slowed jobs by cell, and the ratio of mixes to pairs."""
    cases = {
        name: bench(
            "workload=csv", f"workload.path={path}", f"topology.servers={GPUS // SIZE}",
            "topology=large_leaf_spine", "scheduler=fifo", "placer=packed", "sharing=fallback",
            "estimator=oracle", "restart_s=0", *overrides,
        )
        for name, overrides in CELLS.items()
    }  # fmt: skip
    taken: dict[str, list[float]] = {name: [] for name in cases}
    slowed = {}
    for turn in range(repeats + 1):
        for name, case in cases.items():
            seconds, slowed[f"{name}_slowed_share"] = loop_s(case)
            if turn > 0:  # the first one compiles
                taken[name].append(seconds)
    medians = {f"{name}_s": median(values) for name, values in taken.items()}
    return {**medians, **slowed, "mixes_over_pairs": medians["mixes_4_s"] / medians["pairs_4_s"]}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=9)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "jobs.csv"
        write_csv(path, synthetic(given.jobs, GPUS, LOAD, SEED))
        figures = measured(path, given.repeats)
    for name, value in figures.items():
        print(f"{name:24} {value:.4g}")
    if given.json:
        given.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
