"""`judge_mixes.py`: models on mixes and slices, on MISO's rows."""

import json

import pytest


@pytest.mark.slow
def test_models_know_more_of_mixes_than_their_size(done, real_data):
    judged = done(
        "judge_mixes", f"data_dir={real_data}", "most_rows=1500", "folds=2",
        "models=[constant,extra_trees]",
    )  # fmt: skip
    found = json.loads((judged.folder / "mixes.json").read_text())
    assert set(found) == {"miso_mig", "miso_mps"}
    mae = {name: told["all"]["mae"] for name, told in found["miso_mps"].items()}
    assert mae["extra_trees"] < mae["crowd"] < mae["constant"]


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("most_rows=abc", ("most_rows is 'abc'", "whole number from 1, or null")),
        ("models=constant", ("models is 'constant'",)),
        ("models=[constant,nope]", ("no interference model 'nope'",)),
    ],
)
def test_what_cannot_be_is_told_before_any_file_is_read(start, tmp_path, word, told):
    start("judge_mixes", f"data_dir={tmp_path / 'nowhere'}", word).failed_with(*told)
