"""`benchmarks/first_run.py --quick` writes the numbers that it promises."""

from pathlib import Path

import pytest

from tests.benchmarks.running import run_benchmark


@pytest.mark.slow
def test_quick_numbers(tmp_path: Path) -> None:
    numbers, printed = run_benchmark("first_run", folder=tmp_path)
    cold, warm = numbers["first_sjf_cold_s"], numbers["first_sjf_warm_s"]
    assert cold > warm > 0  # something was compiled, and found again
    assert numbers["first_sjf_over_warm"] == pytest.approx(cold / warm)
    assert "sjf " in printed
