"""`benchmarks/serving.py` asks a real service and counts."""

from pathlib import Path

import pytest

from tests.benchmarks.running import run_benchmark


@pytest.mark.slow
def test_it_answers_a_hundred_requests_a_second_of_its_own_time(tmp_path: Path):
    rows, printed = run_benchmark("serving", "--folder", str(tmp_path), folder=tmp_path)
    assert "sjf" in printed
    assert rows["sjf"]["starts"] > 1
    assert rows["sjf"]["requests_per_busy_s"] > 100  # 240 or so where it was written
