"""`simulate.py compiled=`: the same results with and without."""

import json

import pandas as pd

PLAIN = ("interference=none", "network=none", "topology=small_leaf_spine", "seed=1")


def test_python_and_compiled_code_write_the_same_jobs(done):
    words = ("workload.num_jobs=60", "scheduler=las", "placer=consolidated", *PLAIN)
    frames, metrics = [], []
    for compiled in ("true", "false"):
        folder = done("simulate", *words, f"compiled={compiled}").folder
        frames.append(pd.read_parquet(folder / "jobs.parquet"))
        metrics.append(json.loads((folder / "metrics.json").read_text()))
    pd.testing.assert_frame_equal(*frames)
    assert metrics[0]["decisions"] == metrics[1]["decisions"] > 0
    assert metrics[0]["jct_mean_s"] == metrics[1]["jct_mean_s"] > 0
    assert metrics[0]["decision_ms_mean"] is None
    assert metrics[1]["decision_ms_mean"] > 0


def test_neither_true_nor_false(start):
    outcome = start("simulate", "compiled=perhaps", *PLAIN)
    outcome.failed_with("compiled is 'perhaps'", "true or false")
