"""`fit_interference.py` and `judge_mixes.py`: what they were fitted on, leave, and score."""

from pathlib import Path

import pytest

from interference.data_sets import write_csv
from tests.interference.pair_worlds import rows_of_world, smooth_norm, solos_of_world
from tests.interference.published_files import GAVEL_HEADER, gavel_folder, gavel_pairs, write_rows

ROOT = Path(__file__).resolve().parents[2]
FILES = (
    "model.json", "error_table.md", "error_table.csv", "model_card.md", "worst.csv",
    "worst_by_model.csv",
)  # fmt: skip
QUICK = ("models=[constant,linear]", "folds=2", "figures=false")
HELD_OUT = ("Mid", 16)


@pytest.mark.slow
def test_without_measured_rows_it_says_so_and_the_model_is_usable(done, trace):
    empty = trace.parent / "empty"
    empty.mkdir()
    fitted = done("fit_interference", f"data_dir={empty}", "models=[linear]", "folds=2")
    assert f"GENERATED rows ({empty} holds no measured pairs)" in fitted.out.replace("\n", "")
    assert [name for name in FILES if not (fitted.folder / name).is_file()] == []
    assert "generated" in fitted.text("model_card.md")
    errors = fitted.table("error_table.csv")
    assert set(errors.model) == {"linear"}
    assert "generated/k80, pair" in fitted.out
    assert len(list(fitted.folder.glob("heat_generated_*_pair.png"))) == 3
    done(
        "simulate", "workload=csv", f"workload.path={trace}", "scheduler=lif", "belief=linear",
        f"belief.model.path={fitted.folder / 'model.json'}", folder="used",
    )  # fmt: skip


def test_measured_rows_are_named(done, real_data):
    fitted = done("fit_interference", f"data_dir={real_data}", "data_sets=[deepshare]", *QUICK)
    assert f"MEASURED rows from {real_data}: deepshare" in fitted.out
    assert "Apache-2.0" in fitted.text("model_card.md")


def test_rows_of_ones_own_are_a_data_set(done, tmp_path):
    write_csv(tmp_path, rows_of_world(smooth_norm()), solos_of_world())
    fitted = done("fit_interference", f"data_dir={tmp_path / 'colocation.csv'}", *QUICK)
    errors = fitted.table("error_table.csv")
    assert list(errors.data_set.unique()) == ["made", "made/k", "made/v"]


@pytest.fixture
def new_rows(tmp_path: Path) -> tuple[Path, Path]:
    """A folder of measurements, and a file of pairs that it lacks, with a split each."""
    every = gavel_pairs()
    new = [row for row in every if HELD_OUT in ((row[1], row[2]), (row[3], row[4]))]
    folder = gavel_folder(tmp_path / "data", [row for row in every if row not in new])
    told = [[*row, "near" if row[1] == row[3] else "far"] for row in new]
    return folder, write_rows(tmp_path / "new.csv", (*GAVEL_HEADER, "split"), told)


def test_a_file_is_scored_without_folds(done, new_rows):
    folder, path = new_rows
    scored = done("fit_interference", f"data_dir={folder}", f"eval.rows={path}", *QUICK)
    errors = scored.table("error_table.csv")
    assert list(errors.data_set.unique()) == ["gavel", "gavel/k80", "gavel/v100"]
    assert set(errors.split) == {"near", "far"}
    assert set(errors.fitted_rows) == {0}
    assert "None of the rows was fitted." in scored.out
    assert not (scored.folder / "model.json").exists()
    assert not (scored.folder / "model_card.md").exists()


def test_files_and_folds_together(done, new_rows):
    folder, path = new_rows
    both = f"eval.rows=[{path},{folder / 'colocation' / 'gavel_pairs.csv'}]"
    fitted = done("fit_interference", f"data_dir={folder}", both, "eval.only=false", *QUICK)
    errors = fitted.table("error_table.csv").query("data_set == 'gavel'")
    assert set(errors.split) == {"pair", "model", "gpu_type", "near", "far", "file"}
    known = errors[errors.split == "file"]
    assert (known.fitted_rows == known.rows).all()
    assert errors.fitted_rows.isna().sum() == 2 * 3
    assert "IN-SAMPLE" in fitted.out
    assert (fitted.folder / "model.json").is_file()
    card = fitted.text("model_card.md")  # of held-out folds alone
    assert "| gavel | pair |" in card
    assert not [split for split in ("near", "far", "file") if f"| gavel | {split} |" in card]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("fit_interference folds=1", "folds is 1"),
        ("fit_interference data_dir=no.csv", "no.csv"),
        ("fit_interference models=[learnt]", "did you mean 'learned'"),
        ("fit_interference models=learned", "models is 'learned'; it must be a list like [a,b]"),
        ("fit_interference eval.rows=none.csv", "none.csv: no such file"),
        # Before any file is read.
        ("judge_mixes data_dir=nowhere most_rows=abc", "'abc'; it must be a whole number from 1"),
        ("judge_mixes data_dir=nowhere models=constant", "models is 'constant'"),
        ("judge_mixes data_dir=nowhere models=[nope]", "no interference model 'nope'"),
        ("judge_mixes data_dir=nowhere models=0", "models is 0; it must be a list like [a,b]"),
    ],
)
def test_what_cannot_be_is_one_message(start, words, told):
    start(*words.split()).failed_with(told)


@pytest.mark.slow
def test_models_know_more_of_mixes_than_their_size(done, real_data):
    few = ("most_rows=1500", "folds=2", "models=[constant,deep_set]")
    judged = done("judge_mixes", f"data_dir={real_data}", *few)
    lines = judged.table("mixes.csv")
    assert set(lines.data_set) == {"miso_mig", "miso_mps"}
    whole = lines[(lines.data_set == "miso_mps") & (lines.tenants == "all")]
    mae = whole.set_index("model").mae
    assert mae["deep_set"] < mae["crowd"] < mae["constant"]
