"""`benchmarks/simulator.py --quick` writes the numbers that it promises."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RATIOS = ("fifo_over_floor", "las_over_floor", "srtf_over_floor", "physics_over_floor")
CELLS = [
    f"{trace}_{policy}_{placer}_over_peer"
    for trace in "SMLH"
    for policy in ("fifo", "las", "srtf")
    for placer in ("consolidated", "packed")
]


@pytest.mark.slow
def test_quick_numbers(tmp_path: Path) -> None:
    path = tmp_path / "speed.json"
    done = subprocess.run(
        [sys.executable, "benchmarks/simulator.py", "--quick", "--json", str(path)],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    numbers = json.loads(path.read_text())
    for key in (*RATIOS, *CELLS):
        assert isinstance(numbers[key], float), key
        assert numbers[key] > 0, key
        assert f"{key} " in done.stdout, key
    # Loose: one short run on a machine that does other things too.
    assert max(numbers[key] for key in RATIOS) < 300
    assert min(numbers[key] for key in CELLS) > 2
