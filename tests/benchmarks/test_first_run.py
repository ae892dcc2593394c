"""`benchmarks/first_run.py --quick` writes the numbers that it promises."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_quick_numbers(tmp_path: Path) -> None:
    path = tmp_path / "first.json"
    done = subprocess.run(
        [sys.executable, "benchmarks/first_run.py", "--quick", "--json", str(path)],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    numbers = json.loads(path.read_text())
    cold, warm = numbers["first_sjf_cold_s"], numbers["first_sjf_warm_s"]
    assert cold > warm > 0  # something was compiled, and found again
    assert numbers["first_sjf_over_warm"] == pytest.approx(cold / warm)
    assert "sjf " in done.stdout
