"""How long the first run of each kind takes, beside a warm one.

    python benchmarks/first_run.py [--json FILE] [--quick]

`scripts/simulate.py` as a user starts it, in processes of their own: the first kind with an empty
folder for compiled code, each further kind on top of what those before it left there, then each
again. Seconds by the clock and of the processor, Python's start and the results' writing included.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
WORKLOAD = ("workload.num_jobs=50",)
KINDS = {
    "sjf": ("scheduler=sjf",),
    "srtf": ("scheduler=srtf", "placer=first_fit"),
    "stealing": (
        "scheduler=sjf", "placer=compact_wait", "sharing=selective", "forwarding=steal",
        "agents.count=2",
    ),
    "linear_score": ("scheduler=linear_score", "agents.count=2"),
    "marl": ("scheduler=marl", "scheduler.checkpoint=pretrained", "agents.count=2"),
    "tiresias": ("scheduler=tiresias",),
}  # fmt: skip
QUICK = ("sjf",)


class Taken(NamedTuple):
    """What one run took."""

    wall_s: float
    cpu_s: float  # processor time: tells more where the machine does other things too


def run(kind: str, folder: Path) -> Taken:
    """One run as a user starts it; compiled code is kept in `folder`."""
    words = (*WORKLOAD, *KINDS[kind], f"hydra.run.dir={folder / 'run'}")
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder / "compiled")}
    began, before = time.perf_counter(), os.times()
    done = subprocess.run(
        [sys.executable, "scripts/simulate.py", *words],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    wall_s, after = time.perf_counter() - began, os.times()
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}\n{done.stderr}")
    user_s = after.children_user - before.children_user
    return Taken(wall_s, user_s + after.children_system - before.children_system)


def first_runs(kinds: tuple[str, ...], repeats: int) -> dict[str, float]:
    """Seconds cold and warm, and their ratio, of each kind in turn."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cold = {kind: run(kind, folder) for kind in kinds}
        warm = {kind: [run(kind, folder) for _ in range(repeats)] for kind in kinds}
    numbers: dict[str, float] = {}
    for kind in kinds:
        warm_s = median(each.wall_s for each in warm[kind])
        numbers[f"first_{kind}_cold_s"] = cold[kind].wall_s
        numbers[f"first_{kind}_warm_s"] = warm_s
        numbers[f"first_{kind}_over_warm"] = cold[kind].wall_s / warm_s
        numbers[f"first_{kind}_cold_cpu_s"] = cold[kind].cpu_s
        numbers[f"first_{kind}_warm_cpu_s"] = median(each.cpu_s for each in warm[kind])
    return numbers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write all numbers to this file")
    parser.add_argument("--quick", action="store_true", help="the first kind alone, one warm run")
    options = parser.parse_args()
    kinds, repeats = (QUICK, 1) if options.quick else (tuple(KINDS), 3)
    numbers = first_runs(kinds, repeats)
    columns = ("cold_s", "warm_s", "over_warm", "cold_cpu_s", "warm_cpu_s")
    print(f"{'kind':14}", *(f"{column:>11}" for column in columns))
    for kind in kinds:
        print(f"{kind:14}", *(f"{numbers[f'first_{kind}_{column}']:11.1f}" for column in columns))
    if options.json is not None:
        options.json.write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
