"""Fits of the A100 on made mixes, and what Sia's profiles say of other types."""

from pathlib import Path

import numpy as np
import pytest
import yaml

from interference.make_a100 import SIA_TYPES, Mixes, fit_mixes, read_sia
from interference.readers.miso import DUMMY
from sim.physics.shipped_files import shipped_rows

TABLE = Path(__file__).parents[2] / "conf" / "gpu_table" / "shipped.yaml"


def test_made_mixes_give_their_coefficients_back():
    """Three models and the dummy in mixes of seven; ratio = alone (1 + sensitivity x loads)."""
    rng = np.random.default_rng(0)
    profiles = ("a/1", "b/1", "c/1", DUMMY)
    alone, sensitivity = np.array([0.5, 0.3, 0.8, 0.0]), np.array([0.4, 0.2, 0.7, 0.0])
    load = np.array([0.5, 1.0, 1.5, 0.0])
    jobs = rng.integers(0, 4, (300, 7))
    count = np.array([np.bincount(mix, minlength=4) for mix in jobs], dtype=float)
    victim, beside = jobs.ravel(), np.repeat(count, 7, axis=0)
    beside[np.arange(len(victim)), victim] -= 1.0
    real = victim != 3
    ratio = alone[victim] * (1.0 + sensitivity[victim] * (beside @ load))
    mixes = Mixes(
        profiles, victim[real], beside[real], ratio[real], np.repeat(np.arange(300), 7)[real]
    )
    fit = fit_mixes(mixes, np.ones(len(mixes.ratio), dtype=np.bool_))
    assert fit.alone == pytest.approx(alone, abs=1e-3)
    assert fit.sensitivity == pytest.approx(sensitivity, abs=1e-3)
    assert fit.load == pytest.approx(load, abs=1e-3)
    assert fit.ratio(mixes) == pytest.approx(mixes.ratio, rel=1e-3)


def test_the_shipped_errors_are_told_and_small():
    errors = {row["fit"]: float(row["mean_error"]) for row in shipped_rows("a100_errors.csv")}
    assert errors["steps"] < 0.05
    assert errors["mixes"] < 0.1
    assert errors["alone"] < 0.3


def test_speeds_by_sia_are_those_of_the_table(real_data):
    """Geometric mean over applications of the A100's step over the type's, one GPU."""
    table = yaml.safe_load(TABLE.read_text())
    found: dict[tuple[str, str, int], list[float]] = {}
    for step in read_sia(real_data):
        if step.placement == (1,):
            kind = "a100" if step.gpu_type in SIA_TYPES else step.gpu_type
            found.setdefault((kind, step.app, step.batch), []).append(step.step_s)
    for ours, theirs in (("t4", "aws"), ("rtx2080ti", "rtx"), ("rtx6000", "quad")):
        by_app: dict[str, list[float]] = {}
        for kind, app, batch in found:
            if kind == theirs and ("a100", app, batch) in found:
                ratio = np.mean(found["a100", app, batch]) / np.mean(found[kind, app, batch])
                by_app.setdefault(app, []).append(float(np.log(ratio)))
        mean = np.exp(np.mean([np.mean(logs) for logs in by_app.values()]))
        assert table[ours]["speed"] == pytest.approx(mean, abs=0.006), ours
