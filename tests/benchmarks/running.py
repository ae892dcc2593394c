"""A benchmark run as its users run it, and the numbers that it writes."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run_benchmark(name: str, *options: str, folder: Path) -> tuple[dict[str, float], str]:
    """The numbers of `benchmarks/<name>.py --quick`, and what it printed."""
    path = folder / f"{name}.json"
    done = subprocess.run(
        [sys.executable, f"benchmarks/{name}.py", *options, "--quick", "--json", str(path)],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(path.read_text()), done.stdout
