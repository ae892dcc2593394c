"""`judge_mixes.py`: models on mixes and slices, on MISO's rows."""

import pandas as pd
import pytest


@pytest.mark.slow
def test_models_know_more_of_mixes_than_their_size(done, real_data):
    judged = done(
        "judge_mixes", f"data_dir={real_data}", "most_rows=1500", "folds=2",
        "models=[constant,deep_set]",
    )  # fmt: skip
    lines = pd.read_csv(judged.folder / "mixes.csv")
    assert set(lines.data_set) == {"miso_mig", "miso_mps"}
    whole = lines[(lines.data_set == "miso_mps") & (lines.tenants == "all")]
    mae = whole.set_index("model").mae
    assert mae["deep_set"] < mae["crowd"] < mae["constant"]


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("most_rows=abc", ("most_rows is 'abc'", "whole number from 1, or null")),
        ("models=constant", ("models is 'constant'",)),
        ("models=[constant,nope]", ("no interference model 'nope'",)),
        ("models=[extra_trees]", ("'extra_trees'; it is a part of learned; use constant",)),
    ],
)
def test_what_cannot_be_is_told_before_any_file_is_read(start, tmp_path, word, told):
    start("judge_mixes", f"data_dir={tmp_path / 'nowhere'}", word).failed_with(*told)
