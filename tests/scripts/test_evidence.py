"""What counts as one piece of evidence in the tables of `tune_baselines` and `learn_*`."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpuyard.reproduction.learning import Learned
from gpuyard.reproduction.tune_baselines import tuning_rows
from sim.report.job_times import mean_interval
from sim.report.league import LeagueRun
from tests.report.conftest import row


def test_cells_that_play_the_same_jobs_are_one_run_of_a_setting():
    ratios = {0: 1.1, 1: 1.2, 2: 1.3}
    runs = [
        LeagueRun(f"load {load}", "w", row(name, factor * load * (window + 1), window=window))
        for load in (0.9, 1.1)
        for window, ratio in ratios.items()
        for name, factor in (("las@best", 1.0), ("las@default", ratio))
    ]
    best, default = tuning_rows(runs, between="@", confidence=0.95)
    assert (best["setting"], best["best"], default["runs"]) == ("best", 1, 6)
    logs = mean_interval(np.log(list(ratios.values())), 0.95)  # of three windows, not of six runs
    assert default["ratio"] == pytest.approx(math.exp(logs.centre))
    assert default["ratio_high"] == pytest.approx(math.exp(logs.high))


def test_arms_that_were_held_against_other_windows_have_no_ratio():
    def learned(first: int) -> Learned:
        held: dict[str, Any] = {"part": "validation", "first": first, "windows": 2}
        return Learned("arm", 0, Path(), "zero", "look_ahead",
                       {"held_out": held | {"ln_mean_jct_s": [1.0, 2.0]}})  # fmt: skip

    assert learned(0).ratio_to(learned(0)).centre == 1.0
    assert math.isnan(learned(0).ratio_to(learned(1000)).centre)
