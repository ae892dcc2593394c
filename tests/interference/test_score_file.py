"""Fitted models scored on files: whose rows, which splits, what was known, what is refused."""

import csv
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from interference.data_sets import data_sets, format_of, rows_of_file, write_csv
from interference.evaluation.score_file import COUNTS, Results, read_files, results_of, score
from interference.fit import fresh_models
from sim.arrays import objects
from sim.errors import PhysicsError
from tests.interference.pair_worlds import additive_norm, rows_of_world, solos_of_world
from tests.interference.published_files import GAVEL_HEADER, JOBS, gavel_folder, gavel_pairs, speed
from tests.interference.published_files import write_rows as written

QUICK = ("constant", "linear")
HELD_OUT = ("Mid", 16)
LUCID_HEADER = ("model1", "batchsize1", "amp1", "norm_1", "model2", "batchsize2", "amp2", "norm_2")
LUCID_ALONE = ("model", "batchsize", "amp", "speed", "gpu_util", "gmem_util", "gmem")
NET_HEADER = ("model", "gpus", "nodes", "other_model", "other_gpus", "other_nodes", "norm")


def scored(paths: list[Path], folder: Path, models=QUICK) -> Results:
    sets = data_sets(folder, seed=0)
    asked = read_files(paths, sets, folder=folder)
    return results_of(None, score(asked, sets, lambda: fresh_models(0, models)))


def errors(found: Results) -> pd.DataFrame:
    return found.errors.set_index(["data_set", "split", "model"]).sort_index()


def counts(found: Results) -> pd.DataFrame:
    return found.counts.set_index(["data_set", "split"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Gavel's form, without the pairs of `HELD_OUT`."""
    return gavel_folder(tmp_path / "data", [row for row in gavel_pairs() if not is_new(row)])


def is_new(row) -> bool:
    return HELD_OUT in ((row[1], row[2]), (row[3], row[4]))


def pairs_file(path: Path, rows, *, splits=None) -> Path:
    if splits is None:
        return written(path, GAVEL_HEADER, rows)
    told = [[*row, split] for row, split in zip(rows, splits, strict=True)]
    return written(path, (*GAVEL_HEADER, "split"), told)


def test_each_split_of_a_file_is_scored_on_rows_that_were_not_fitted(tmp_path, folder):
    new = [row for row in gavel_pairs() if is_new(row)]
    odd = [["k80", "Odd", "", "Low", 8, 1, 1, 0.9, 0.5, 1]]  # a model without a batch
    infeasible = [["k80", "Odd", 0, "Big", 8, 1, 1, "", "", 0]]
    splits = ["profile"] * len(new) + ["model"] * 2
    path = pairs_file(tmp_path / "new.csv", new + odd + infeasible, splits=splits)
    found = scored([path], folder)
    assert list(found.errors.data_set.unique()) == ["gavel", "gavel/k80", "gavel/v100"]
    assert list(found.predictions.split.unique()) == ["profile", "model"]
    assert set(found.errors[found.errors.data_set == "gavel/v100"].split) == {"profile"}
    of_model = counts(found).loc[("gavel", "model")]
    assert of_model[list(COUNTS)].tolist() == [2, 2, 0, 0, 0]
    assert of_model.new_models == ["Odd"]
    of_profile = counts(found).loc[("gavel", "profile")]
    assert (of_profile.fitted_rows, of_profile.new_models) == (0, [])
    assert of_profile.scored_rows == 2 * (2 * len(JOBS) - 1)  # a pair with itself is one row
    assert (errors(found).rows["gavel", "model"] == 2).all()


def test_the_errors_are_those_of_a_fit_on_all_rows_of_the_folder(tmp_path, folder):
    rows = [["k80", "Odd", 0, "Low", 8, 1, 1, 0.9, 0.5, 1]]
    found = scored([pairs_file(tmp_path / "odd.csv", rows)], folder)
    fitted = [
        value for row in gavel_pairs() if row[0] == "k80" and not is_new(row)
        for value in {(row[1], row[2]): row[8], (row[3], row[4]): row[7]}.values()
    ]  # fmt: skip
    own = np.mean([speed("k80", model) for model, _ in JOBS])
    assert np.mean(fitted) == pytest.approx(own, abs=0.05)  # the law, as a check of this test
    expected = np.mean([abs(0.9 - np.mean(fitted)), abs(0.5 - np.mean(fitted))])
    assert errors(found).mae["gavel", "file", "constant"] == pytest.approx(expected)


def test_rows_that_were_fitted_are_counted(tmp_path, folder):
    rows = gavel_pairs([("Big", 8), ("Low", 8)])  # both types, each with itself and the other
    path = pairs_file(tmp_path / "old.csv", rows)
    assert scored([path], folder).counts.fitted_rows.tolist() == [8, 4, 4]
    known = [row for row in rows if row[0] == "k80"]
    other = gavel_folder(tmp_path / "k80", [r for r in gavel_pairs() if r[0] == "k80"])
    seen = counts(scored([path], other)).loc[("gavel", "file")]
    assert (seen.scored_rows, seen.fitted_rows, seen.met_rows) == (8, len(known) + 1, 4)


def test_what_was_measured_together_is_no_feature(tmp_path, folder):
    rows = gavel_pairs([HELD_OUT, ("Low", 8)])
    other = [[*row[:5], 77, 99, *row[7:]] for row in rows]  # iso_a, iso_b of the pairs' file
    first = scored([pairs_file(tmp_path / "a.csv", rows)], folder)
    second = scored([pairs_file(tmp_path / "b.csv", other)], folder)
    np.testing.assert_array_equal(first.predictions.predicted, second.predictions.predicted)


def test_files_of_one_set_are_scored_together_and_of_several_side_by_side(tmp_path, folder):
    rows = gavel_pairs([HELD_OUT, ("Low", 8)])
    a = pairs_file(tmp_path / "a.csv", rows[:2], splits=["x", "y"])
    b = pairs_file(tmp_path / "b.csv", rows[2:3], splits=["x"])
    alone = [["N", 8, 0, 90, 50, 20, 900], ["N", 16, 0, 95, 60, 25, 990]]
    written(folder / "throughput" / "lucid_single.csv", LUCID_ALONE, alone)
    pair = ["N", 8, 0, 0.9, "N", 16, 0, 0.8]
    same = ["N", 8, 0, 0.7, "N", 8, 0, 0.7]
    written(folder / "colocation" / "lucid_pairs.csv", LUCID_HEADER, [pair])
    c = written(tmp_path / "c.csv", LUCID_HEADER, [same])
    found = scored([a, b, c], folder, models=("constant",))
    assert counts(found).scored_rows.to_dict() == {
        ("gavel", "x"): 2, ("gavel", "y"): 2, ("lucid", "file"): 2,
    }  # fmt: skip
    assert errors(found).mae["lucid", "file", "constant"] == pytest.approx(0.15)


def test_two_directions_of_a_pair_may_be_in_different_splits(tmp_path):
    written(
        tmp_path / "throughput" / "deepshare_isolated.csv",
        ("model", "gpus", "nodes", "samples_per_s"),
        [["N", 4, 2, 100], ["M", 4, 2, 50]],
    )
    pairs = [["N", 4, 2, "M", 4, 2, 0.9, "train"], ["M", 4, 2, "N", 4, 2, 0.6, "test"]]
    path = written(tmp_path / "net.csv", (*NET_HEADER, "split"), pairs)
    rows, _ = rows_of_file(path, folder=tmp_path)
    assert rows.split.tolist() == ["train", "test"]
    assert len(set(rows.group)) == 2


def test_rows_of_our_own_columns_bring_their_solo_profiles(tmp_path):
    rows, solos = rows_of_world(additive_norm()), solos_of_world()
    known, new = tmp_path / "known", tmp_path / "new"
    for place in (known, new):
        place.mkdir()
    fresh = rows.victim == "M0/1"
    beside = np.array(["M0/1" in others for others in rows.aggressors]) | fresh
    of_known = solos_of_world(names=("M3/7", *solos.profile[1:9]))
    write_csv(known, rows.take(~beside), of_known)
    write_csv(new, rows.take(beside), solos)
    found = scored([new / "colocation.csv"], known)
    assert counts(found).scored_rows["made", "file"] == beside.sum()
    assert counts(found).fitted_rows["made", "file"] == 0
    assert np.isfinite(errors(found).mae["made", "file", "linear"])


def test_rows_relative_to_the_best_of_a_group_are_left_out_and_counted(tmp_path):
    rows, solos = rows_of_world(additive_norm()), solos_of_world()
    best = rows.relative_to.copy()
    best[:9] = "best"
    write_csv(tmp_path, rows, solos)
    (tmp_path / "new").mkdir()
    changed = {**vars(rows), "relative_to": objects(best.tolist())}
    write_csv(tmp_path / "new", type(rows)(**changed), solos)
    found = counts(scored([tmp_path / "new" / "colocation.csv"], tmp_path)).loc[("made", "file")]
    assert (found.unmeasured_rows, found.scored_rows) == (9, len(rows) - 9)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("Low", "Lwo", r"new.csv:2: victim is 'Mid/16'|new.csv:2: aggressors is 'Lwo/8'; it has "
         r"no solo profile of gavel on k80; add one.*\(column model_b; runs alone are in .*"
         r"gavel_isolated.csv\)"),
        ("batch_b", "btch_b", r"new.csv:1: no column 'batch_b'; did you mean 'btch_b'"),
        ("k80", "t4", r"new.csv:2: victim is 'Mid/16'; it has no solo profile of gavel on t4"),
        (",1\n", ",0\n", r"norm_speed is 0.8; leave it empty where feasible is 0"),
        (",0.8,", ",,", r"norm_speed is nan; give a speed, or feasible 0 .*\(column norm_a\)"),
    ],
)  # fmt: skip
def test_faulty_files_are_told_with_line_column_and_fix(tmp_path, folder, old, new, message):
    path = pairs_file(tmp_path / "new.csv", gavel_pairs([HELD_OUT, ("Low", 8)])[1:2])
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(PhysicsError, match=message):
        scored([path], folder)


def test_files_that_cannot_be_scored_are_refused(tmp_path, folder):
    strange = written(tmp_path / "strange.csv", ("a", "b"), [[1, 2]])
    with pytest.raises(PhysicsError, match=r"csv:1: the columns a, b are of no known .*model_a"):
        format_of(strange)
    with pytest.raises(PhysicsError, match=r"none.csv: no such file; check the name"):
        scored([tmp_path / "none.csv"], folder)
    write_csv(tmp_path, rows_of_world(additive_norm()), solos_of_world())
    with pytest.raises(PhysicsError, match=r"are of 'made', but the data sets .* are gavel; set"):
        scored([tmp_path / "colocation.csv"], folder)
    nothing = pairs_file(tmp_path / "no.csv", [["k80", "Low", 8, "Big", 8, 1, 1, "", "", 0]])
    with pytest.raises(PhysicsError, match=r"no.csv: no row of gavel is feasible, measured"):
        scored([nothing], folder)
    with pytest.raises(PhysicsError, match=r"gavel need throughput/gavel_isolated.csv; set data"):
        rows_of_file(nothing, folder=None)


def test_the_published_sets_cut_in_two(tmp_path, real_data):
    """A fifth of the lines and one model are held out; the rest is fitted."""
    data = tmp_path / "data"
    (data / "colocation").mkdir(parents=True)
    (data / "throughput").symlink_to(real_data / "throughput")
    cut = {"gavel": "Transformer", "lucid": "PointNet", "deepshare_network": "DLRM"}
    rng = np.random.default_rng(0)
    for name, model in cut.items():
        _cut_in_two(real_data / "colocation" / f"{name}_pairs.csv", data, model, rng)
    paths = [data / f"{name}_pairs.csv" for name in cut]
    found = scored(paths, data)
    for name, model in zip(("gavel", "lucid", "deepshare"), cut.values(), strict=True):
        new, pairs = counts(found).loc[(name, "new")], counts(found).loc[(name, "pairs")]
        assert (new.new_models, pairs.new_models) == ([model], [])
        assert pairs.fitted_rows == new.fitted_rows == new.met_rows == 0
        mae = errors(found).mae[name, "pairs"]
        assert mae["linear"] < mae["constant"], name
    assert list(found.errors.data_set.unique()) == [
        "gavel", "gavel/k80", "gavel/p100", "gavel/v100", "lucid", "deepshare",
    ]  # fmt: skip
    whole = scored(paths, real_data, models=("constant",)).counts
    assert (whole.fitted_rows == whole.scored_rows).all()


def _cut_in_two(path: Path, data: Path, model: str, rng: np.random.Generator) -> None:
    with path.open(newline="", encoding="utf-8") as stream:
        header, *lines = list(csv.reader(stream))
    kept, held = [], []
    for line in lines:
        if model in line:
            held.append([*line, "new"])
        elif rng.random() < 0.2:
            held.append([*line, "pairs"])
        else:
            kept.append(line)
    written(data / "colocation" / path.name, header, kept)
    written(data / path.name, [*header, "split"], held)
