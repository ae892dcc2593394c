"""`benchmarks/plans.py` writes the numbers that it promises."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_small_numbers(tmp_path: Path) -> None:
    path = tmp_path / "plans.json"
    done = subprocess.run(
        [sys.executable, "benchmarks/plans.py", "--tasks", "2000", "--gpus", "50", "--plans", "20",
         "--json", str(path)],
        cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    numbers = json.loads(path.read_text())
    assert all(value > 0 for value in numbers.values())
