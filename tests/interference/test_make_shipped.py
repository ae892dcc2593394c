"""The shipped files follow from the data and hold no row of it."""

from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from interference import make_shipped
from interference.gavel import MeasuredProfiles, read_pairs
from interference.readers.miso import DUMMY
from sim.physics.shipped_files import SHIPPED_DIR, shipped_rows

# Of a column's largest number. Least squares differ between processors by about 1e-16 of it; the
# last digit of a number that is written is 1e-8 of it or more.
ROUNDING = 1e-12

HEADER = "model,batches,sync_base_bytes,sync_bytes_per_doubling,gang_ok\n"
LM = "LM,5 10,-1.98e+07,1.18e+07,1\n"
RECOMMENDATION = "Recommendation,512 1024,3.55e+07,6.2e-10,0\n"


def columns(path: Path) -> dict[str, list[str]]:
    return pd.read_csv(path, dtype=str, keep_default_na=False).to_dict("list")


def numbers(texts: list[str]) -> list[float] | None:
    try:
        return [float(text) for text in texts]
    except ValueError:
        return None


def assert_same_table(mine: Path, theirs: Path) -> None:
    """The same columns and words in the same order; numbers are equal up to rounding."""
    table, shipped = columns(mine), columns(theirs)
    assert list(table) == list(shipped)
    for name, texts in shipped.items():
        expected, found = numbers(texts), numbers(table[name])
        if expected is None or found is None:
            assert table[name] == texts, f"{mine.name}: {name}"
            continue
        atol = ROUNDING * max(abs(value) for value in expected)
        told = f"{mine.name}: {name}"
        np.testing.assert_allclose(found, expected, rtol=0.0, atol=atol, err_msg=told)


def test_regenerating_gives_the_shipped_files(real_data, tmp_path):
    make_shipped.write_profiles(MeasuredProfiles(data_dir=real_data), tmp_path)
    make_shipped.write_pairs(real_data, tmp_path)
    make_shipped.write_a100(real_data, tmp_path)
    names = [path.name for path in sorted(SHIPPED_DIR.glob("*.csv"))]
    assert names == sorted(path.name for path in tmp_path.iterdir())
    for name in names:
        assert_same_table(tmp_path / name, SHIPPED_DIR / name)


@pytest.mark.parametrize(
    "wrong",
    [
        HEADER + LM.replace("1.18e+07", "1.19e+07") + RECOMMENDATION,
        HEADER + LM + RECOMMENDATION.replace("6.2e-10", "6.2e+01"),
        HEADER + LM + RECOMMENDATION.replace(",0", ",1"),
        HEADER + LM.replace("5 10", "5 20") + RECOMMENDATION,
        HEADER + RECOMMENDATION + LM,
        HEADER + LM,
        "\n".join(line.rpartition(",")[0] for line in (HEADER + LM + RECOMMENDATION).splitlines()),
        (HEADER + LM + RECOMMENDATION).replace("batches", "batch"),
    ],
    ids=["coefficient", "of_nothing", "flag", "word", "order", "row", "column", "header"],
)
def test_a_wrong_table_is_noticed(tmp_path, wrong):
    mine, theirs = tmp_path / "mine.csv", tmp_path / "theirs.csv"
    theirs.write_text(HEADER + LM + RECOMMENDATION)
    mine.write_text(HEADER + LM + RECOMMENDATION.replace("6.2e-10", "-1.22e-09"))
    assert_same_table(mine, theirs)  # of another processor
    mine.write_text(wrong)
    with pytest.raises(AssertionError):
        assert_same_table(mine, theirs)


def test_every_last_digit_of_the_shipped_numbers_counts():
    """The smallest change of a number that can be written is more than rounding."""
    for path in SHIPPED_DIR.glob("*.csv"):
        for name, texts in columns(path).items():
            values = numbers(texts)
            if values is None:
                continue
            steps = [10.0 ** Decimal(text).as_tuple().exponent for text in texts]
            noise = ROUNDING * max(abs(value) for value in values)
            told = [t for t, step in zip(texts, steps, strict=True) if step <= 10.0 * noise]
            assert told == (["6.2e-10"] if name == "sync_bytes_per_doubling" else []), path.name


def test_shipped_pairs_are_not_the_measured_ones(real_data):
    measured = {}
    rows = read_pairs(real_data)
    sides = rows.gpu_type, rows.victim, rows.aggressors, rows.norm_speed, rows.feasible
    for gpu_type, victim, (aggressor,), norm_speed, feasible in zip(*sides, strict=True):
        if feasible:
            measured[gpu_type, victim, aggressor] = norm_speed
    errors = [
        abs(float(row["norm_speed"]) - measured[key])
        for row in shipped_rows("pairs.csv")
        if (key := (row["gpu_type"], row["victim"], row["aggressor"])) in measured
    ]
    assert len(errors) > 500
    assert np.mean(errors) > 0.05


def test_large_batches_of_the_worst_model_do_not_fit_first():
    names = ("A/8", "A/16", "B/8", "B/16")
    infeasible = make_shipped.infeasible_by_model(names, {"A": 0.1, "B": 0.3}, 0.3)  # 3 of 10 pairs
    assert np.argwhere(np.triu(infeasible)).tolist() == [[1, 3], [2, 3], [3, 3]]
    np.testing.assert_array_equal(infeasible, infeasible.T)


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
    mixes = make_shipped.Mixes(
        profiles, victim[real], beside[real], ratio[real], np.repeat(np.arange(300), 7)[real]
    )
    fit = make_shipped.fit_mixes(mixes, np.ones(len(mixes.ratio), dtype=np.bool_))
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
    for step in make_shipped.read_sia(real_data):
        if step.placement == (1,):
            kind = "a100" if step.gpu_type in make_shipped.SIA_TYPES else step.gpu_type
            found.setdefault((kind, step.app, step.batch), []).append(step.step_s)
    for ours, theirs in (("t4", "aws"), ("rtx2080ti", "rtx"), ("rtx6000", "quad")):
        by_app: dict[str, list[float]] = {}
        for kind, app, batch in found:
            if kind == theirs and ("a100", app, batch) in found:
                ratio = np.mean(found["a100", app, batch]) / np.mean(found[kind, app, batch])
                by_app.setdefault(app, []).append(float(np.log(ratio)))
        mean = np.exp(np.mean([np.mean(logs) for logs in by_app.values()]))
        assert table[ours]["speed"] == pytest.approx(mean, abs=0.006), ours
