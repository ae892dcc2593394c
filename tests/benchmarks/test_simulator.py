"""`benchmarks/simulator.py --quick` writes the numbers that it promises."""

from pathlib import Path

import pytest

from tests.benchmarks.running import run_benchmark

RATIOS = ("fifo_over_floor", "las_over_floor", "srtf_over_floor", "physics_over_floor")
CELLS = [
    f"{trace}_{policy}_{placer}_over_peer"
    for trace in "SMLH"
    for policy in ("fifo", "las", "srtf")
    for placer in ("consolidated", "packed")
]


@pytest.mark.slow
def test_quick_numbers(tmp_path: Path) -> None:
    numbers, printed = run_benchmark("simulator", folder=tmp_path)
    for key in (*RATIOS, *CELLS):
        assert isinstance(numbers[key], float), key
        assert numbers[key] > 0, key
        assert f"{key} " in printed, key
    # Loose: one short run on a machine that does other things too.
    assert max(numbers[key] for key in RATIOS) < 300
    assert min(numbers[key] for key in CELLS) > 2
