"""`fit_interference.py`: says what it was fitted on, and leaves a model that runs can use."""

import json
import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = ("model.json", "errors.json", "model_card.md")


def test_without_measured_rows_it_says_so_and_the_model_is_usable(done, trace):
    fitted = done("fit_interference", "data_dir=nowhere", "folds=2")
    assert "GENERATED rows (nowhere holds no measured pairs)" in fitted.out
    assert [name for name in FILES if not (fitted.folder / name).is_file()] == []
    assert "generated" in (fitted.folder / "model_card.md").read_text()
    assert "residual_trees" in json.dumps(json.loads((fitted.folder / "errors.json").read_text()))
    done(
        "simulate", "workload=csv", f"workload.path={trace}", "scheduler=lif",
        f"belief.model.path={fitted.folder / 'model.json'}", folder="used",
    )  # fmt: skip


def test_measured_rows_are_named(done):
    data = Path(os.environ.get("GPUYARD_DATA", ROOT / ".." / "shared" / "data")).resolve()
    if not (data / "colocation" / "gavel_pairs.csv").is_file():
        pytest.skip("no measured pairs: set GPUYARD_DATA to their folder")
    assert (
        f"MEASURED rows from {data}" in done("fit_interference", f"data_dir={data}", "folds=2").out
    )


@pytest.mark.parametrize(
    ("word", "told"),
    [("folds=1", "folds is 1"), ("data_dir=no.csv", "no.csv"), ("seed=-1", "seed is -1")],
)
def test_what_cannot_be_is_one_message(start, word, told):
    start("fit_interference", word).failed_with(told)
