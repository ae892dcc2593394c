"""`benchmarks/serving.py` asks a real service and counts."""

from pathlib import Path

import pytest

from tests.benchmarks.running import run_benchmark


@pytest.mark.slow
def test_it_answers_a_hundred_requests_a_second_of_its_own_time(tmp_path: Path):
    """Of SJF; the agents, who decide 60 times a request, do so on an idle machine only."""
    rows, printed = run_benchmark("serving", "--folder", str(tmp_path), folder=tmp_path)
    assert "sjf" in printed and "agents" in printed
    assert min(row["starts"] for row in rows.values()) > 1
    assert rows["sjf"]["requests_per_busy_s"] > 100  # 240 or so where it was written
    assert rows["agents"]["requests_per_busy_s"] > 60  # 116 or so
