"""Tables, figures and the card, from predictions made by hand."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb
from matplotlib.image import imread
from rich.console import Console

from interference.data_sets import DataSet
from interference.evaluation import card, write
from interference.evaluation.judge import below_each_other, prediction_lines
from interference.evaluation.score_file import COUNTS, Results, Scores, results_of
from interference.evaluation.write import LEVELS, covered, grids, write_figures, write_tables
from interference.learned import SavedModel
from interference.models.encoding import Prediction
from sim.arrays import objects
from sim.report.table_text import rich_tables
from tests.interference import pair_worlds
from tests.interference.pair_worlds import NAMES, PROFILES

ROWS = pair_worlds.rows_of_world(pair_worlds.smooth_norm())
SOLOS = pair_worlds.solos_of_world()
NOISE = np.random.default_rng(0).normal(0.0, 0.05, len(ROWS))
OWN_SD = np.linspace(0.04, 0.06, len(ROWS))


def told(error, sd=0.05, rows=ROWS) -> pd.DataFrame:
    """Predictions that are off by `error`."""
    sd = np.broadcast_to(np.asarray(sd, dtype=np.float64), len(rows))
    return prediction_lines(rows, SOLOS, Prediction(rows.norm_speed + error, sd))


def folds(name: str = "made", **models: pd.DataFrame) -> pd.DataFrame:
    """One data set whose splits are alike."""
    models = models or {"constant": told(0.2), "linear": told(0.1), "learned": told(NOISE, OWN_SD)}
    judged = {(split, model): held for split in ("pair", "model") for model, held in models.items()}
    return below_each_other(judged, "split", "model").assign(data_set=name)


def results(name: str = "made", **models: pd.DataFrame) -> Results:
    return results_of(folds(name, **models), None)


def test_a_block_a_set_and_split_with_models_as_they_come_and_the_best_marked():
    found = card.error_text(results()).settings
    assert [title.split(" (")[0] for title, _ in found] == [
        "made, pair", "made, model", "made/k, pair", "made/k, model", "made/v, pair",
        "made/v, model",
    ]  # fmt: skip
    assert [cells[0] for cells in found[0][1]] == ["constant", "linear", "learned"]
    assert [cells[1] for cells in found[0][1]][:2] == ["0.2000", "0.1000"]
    marked = [cells[0] for _, rows in found for cells in rows if cells[1].endswith("*")]
    assert marked == ["learned"] * 6
    worse = card.error_text(results(linear=told(0.1), learned=told(-0.3))).settings
    assert [rows[0][1] for _, rows in worse] == ["0.1000 *"] * 6


def test_errors_have_nothing_where_a_measure_says_nothing(tmp_path):
    flat = told(0.0, OWN_SD).assign(predicted=0.5)
    write_tables(results(constant=flat), tmp_path)
    lines = pd.read_csv(tmp_path / "error_table.csv")
    assert np.isnan(lines["rank"][0])  # no order among equal predictions
    assert lines.mae[0] == pytest.approx(np.abs(0.5 - ROWS.norm_speed).mean())
    assert [*lines.data_set[:2], *lines.split[:2]] == ["made", "made", "pair", "model"]
    text = (tmp_path / "error_table.md").read_text()
    assert re.search(r"^\| constant.* \| - \| ", text, re.MULTILINE)


def scored(**facts: int) -> Results:
    """The results with more splits, of files; `facts` are numbers of rows of the split `new`."""

    def known(split: str, **counts: int) -> list[dict]:
        """Nine rows judged unless said."""
        counts = {"scored_rows": 9} | counts
        marks = [{key: i < counts.get(key, 0) for key in COUNTS} for i in range(9)]
        return [{"data_set": "made", "split": split, "gpu_type": "k", "new_models": (), **each}
                for each in marks]  # fmt: skip

    lines = [*known("pair"), *known("new", **facts),
             *known("none", scored_rows=0, infeasible_rows=4)]  # fmt: skip
    judged = {("made", split, "learned"): told(0.3) for split in ("pair", "new")}
    of_files = Scores(below_each_other(judged, "data_set", "split", "model"), pd.DataFrame(lines))
    return results_of(folds(), of_files)


def test_what_was_known_of_rows_of_a_file_is_told():
    notes = card.error_text(scored()).note.splitlines()
    assert "made, new: None of the rows was fitted." in notes
    assert not [note for note in notes if note.startswith("made, model")]
    few = "made, none: None of the rows was fitted. Left out: 4 infeasible rows, 0 without"
    assert [note for note in notes if note.startswith(few) and note.endswith("left to score.")]
    note = card.error_text(scored(fitted_rows=7, infeasible_rows=3)).note
    assert "made, new: IN-SAMPLE: 7 of 9 rows were fitted too" in note
    assert "Left out: 3 infeasible rows" in note
    lines = card.error_lines(scored(fitted_rows=7)).set_index(["data_set", "split", "model"])
    assert lines.fitted_rows["made", "new", "learned"] == 7
    assert np.isnan(lines.fitted_rows["made", "pair", "learned"])


def test_the_terminal_tells_whose_rows_were_fitted_and_the_errors(capsys):
    text = card.error_text(scored(fitted_rows=7))
    Console(width=200).print(rich_tables(text, texts=1))
    shown = capsys.readouterr().out
    assert "IN-SAMPLE: 7 of 9" in shown
    for title, rows in text.settings:
        assert title in shown
        for cells in rows:
            assert re.search(r"\s+".join(map(re.escape, cells)), shown)


def test_a_split_of_a_file_never_hides_one_of_the_folds():
    both = scored()
    assert list(both.predictions.split.unique()) == ["pair", "model", "pair (file)", "new"]
    mae = both.errors.set_index(["data_set", "split", "model"]).mae
    assert mae["made", "pair", "learned"] < 0.1
    assert mae["made", "pair (file)", "learned"] == pytest.approx(0.3)
    assert set(both.predictions[both.predictions.of_file].split) == {"pair (file)", "new"}


def test_grids_have_models_side_by_side_and_batches_by_size():
    mixed = ROWS.aggressors.copy()
    mixed[0] = (NAMES[0], NAMES[0])  # a mix, which has no cell
    rows = replace(ROWS, aggressors=mixed, group=np.arange(len(ROWS)))
    found = grids(told(0.1, rows=rows))
    assert list(found) == ["k", "v"]
    assert found["k"].profiles[:4] == ("M0/1", "M0/8", "M0/64", "M1/2")
    assert found["k"].models[:4] == ("M0", "M0", "M0", "M1")
    assert np.isnan(found["k"].measured[0, 0])
    assert not np.isnan(found["v"].measured).any()
    at = found["v"].profiles.index("M2/256")
    cell = (ROWS.gpu_type == "v") & (ROWS.victim == "M2/256")
    cell &= np.array([others == ("M1/2",) for others in ROWS.aggressors])
    assert found["v"].measured[at, 3] == ROWS.norm_speed[cell][0]
    twice = grids(pd.concat([told(0.0), told(0.2)]))["k"]  # judged twice: the mean
    for grid in (found["v"], twice):
        np.testing.assert_allclose(grid.predicted - grid.measured, 0.1)


def test_cells_without_a_pair_are_grey(tmp_path):
    whole = grids(told(NOISE))["k"]
    holes = whole.measured.copy()
    holes[0, :] = np.nan
    greys = []
    for name, measured in (("whole", whole.measured), ("holes", holes)):
        path = tmp_path / f"{name}.png"
        write.heat_map(replace(whole, measured=measured), title=name, path=path)
        grey = np.abs(imread(path)[..., :3] - to_rgb(write.MISSING)) < 1e-3
        greys.append(grey.all(axis=2).mean())
    assert greys[0] < 1e-3
    panels = 2 / (3 * PROFILES)  # a row of the first and of the last panel
    assert 0.2 * panels < greys[1] < panels


def test_intervals_of_right_width_cover_what_they_say():
    rng = np.random.default_rng(1)
    rows = ROWS.take(np.tile(np.arange(len(ROWS)), 40))
    many = told(rng.normal(0, 0.05, len(rows)), rows=rows)
    np.testing.assert_allclose(covered(many), LEVELS, atol=0.02)
    narrow = many.assign(sd=many.sd / 3)
    assert (covered(narrow) < covered(many) - 0.05).all()
    assert covered(told(0.0)).tolist() == [1.0] * len(LEVELS)
    # One spread a fit tells no rows apart.
    assert write.tells_rows_apart(told(0.0, OWN_SD))
    assert not write.tells_rows_apart(told(0.0, np.repeat([0.1, 0.2], len(ROWS) // 2)))


def test_the_worst_rows_and_models_are_those_of_the_learned_model():
    error = np.full(len(ROWS), 0.01)
    error[[5, 40]] = [0.5, -0.6]
    found = results(constant=told(0.9), learned=told(error))
    worst = card.worst_rows(found)
    first, second, third = worst.iloc[0], worst.iloc[1], worst.iloc[2]
    assert (first.victim, first.aggressors) == (ROWS.victim[40], ROWS.aggressors[40][0])
    assert (first.split, first.data_set) == ("pair", "made")
    assert first.predicted - first.measured == pytest.approx(-0.6)
    assert (second.victim, second.gpu_type) == (ROWS.victim[5], ROWS.gpu_type[5])
    assert abs(third.predicted - third.measured) == pytest.approx(0.01)
    assert len(worst) == 10
    models = card.by_victim_model(found).query("split == 'pair'")
    assert models.columns.tolist() == ["data_set", "split", "victim_model", "rows", "mae", "bias"]
    assert models.rows.tolist() == [54] * 3
    assert models.mae.is_monotonic_decreasing
    name = ROWS.victim[40].split("/")[0]
    own = models.set_index("victim_model").loc[name]
    expected = error[[v.startswith(name) for v in ROWS.victim]]
    assert own.mae == pytest.approx(np.abs(expected).mean())
    assert own.bias == pytest.approx(expected.mean())


def saved(source: str) -> SavedModel:
    table = np.full((2, PROFILES, PROFILES), 0.5)
    return SavedModel(("k", "v"), NAMES, {"learned": table}, {"learned": table}, table > 1, source)


@pytest.mark.parametrize("name", ["lucid", "mine", "a/k"])
def test_the_card_tells_licence_splits_baselines_and_what_is_unknown(name):
    found = results(name)
    rows = replace(ROWS, measured=np.arange(len(ROWS)) > 3)
    sets = {name: DataSet(rows, SOLOS, "measured")}
    page = card.model_card(found, sets, saved("measured"), folds=4, seed=3)
    assert ("NON-COMMERCIAL" in page) == (name == "lucid")
    assert ("rows of your own" in page) == (name != "lucid")
    assert f"| {name} | {len(ROWS) - 4} | 0 | 4 | k, v |" in page
    assert f"| {name} | pair | {len(ROWS)} | 0.200 | 0.100 | 0.0" in page
    errors = found.errors.set_index(["data_set", "split", "model"])
    measured = errors.loc[(name, "pair", "learned")]
    assert f"| {name} | pair | {measured['covered']:.1%} | {measured['width']:.3f} |" in page
    of_linear = errors.choice[name, "pair", "linear"]
    choices = (measured["choice"], of_linear, measured["choice_blind"])
    assert f"| {name} | pair | {' | '.join(f'{value:.1%}' for value in choices)} |" in page
    for words in ("`pair`: 4 folds", "nested", "## Limits", "## Not known", "## Worst at"):
        assert words in page
    assert not re.search(r"\bnan", page)
    assert "generated rows" not in page


def test_a_card_of_generated_rows_says_so_first():
    sets = {"generated": DataSet(ROWS, SOLOS, "generated")}
    page = card.model_card(results("generated"), sets, saved("generated"), folds=2, seed=0)
    assert "Fitted on generated rows" in page.split("##")[0]


def test_a_card_without_the_blend_tells_each_model_once_and_no_blend():
    found, sets = results(constant=told(0.2), linear=told(0.1)), {"made": DataSet(ROWS, SOLOS, "")}
    page = card.model_card(found, sets, saved("measured"), folds=2, seed=0)
    assert "| data set | split | rows | constant | linear | best of all |" in page
    assert "| data set | split | linear | blind |" in page
    assert "is a blend" not in page
    assert "## How models were chosen" not in page and "Figures, where" in page


def test_every_file_is_written_and_forgotten_again(tmp_path):
    alone = replace(ROWS, aggressors=objects([()] * len(ROWS)), group=np.arange(len(ROWS)))
    write_figures(results("mig", constant=told(0.1, rows=alone)), tmp_path)
    assert list(tmp_path.iterdir()) == []  # without pairs there are no maps
    found = results("my rows/2")  # a source may be called anything
    write_tables(found, tmp_path)
    write_figures(found, tmp_path)
    kept = tmp_path / "notes.txt"
    kept.write_text("mine")
    assert {path.name for path in tmp_path.iterdir()} == {
        "error_table.md", "error_table.csv", "worst.csv", "worst_by_model.csv",
        "heat_my_rows_2_k_pair.png", "heat_my_rows_2_v_pair.png", "reliability_my_rows_2.png",
        "notes.txt",
    }  # fmt: skip
    for name in ("residuals_made.png", "errors.json"):  # earlier versions wrote them
        (tmp_path / name).touch()
    write.remove_report(tmp_path)
    assert list(tmp_path.iterdir()) == [kept]
