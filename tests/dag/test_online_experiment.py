"""`reproduce.py experiment=worl_online` in small: every rule on the same workflows."""

import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

ROOT = Path(__file__).resolve().parents[2]
OTHERS = {"fifo_skip+packed", "sjf+packed", "smallest_gang+packed", "srsf+packed", "srtf+packed"}


def test_small(tmp_path):
    words = ("experiment=worl_online", "debug=quick", "most_cells=1", "windows=1", "jobs=1")
    done = subprocess.run(
        [sys.executable, "scripts/reproduce.py", *words, f"hydra.run.dir={tmp_path}"],
        cwd=ROOT, env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    table = pd.read_csv(tmp_path / "comparison.csv").set_index("scheduler")
    plain = {"shortest_workflow", "first_workflow", "heft_ranks"}
    assert set(table.index) == {"worl_online", *plain, *OTHERS}
    assert (table["workflows_finished"] > 5).all() and (table["jobs_unfinished"] == 0).all()
    assert set(table.loc[["worl_online", *plain], "information"]) == {"oracle"}
    saved = pd.read_csv(tmp_path / "paper.csv").set_index("against")["measured"]
    time_s = table["workflow_time_mean_s"]
    expected = 1 - time_s["worl_online"] / time_s["sjf+packed"]
    assert saved["sjf+packed"] == pytest.approx(expected, abs=1e-3)
