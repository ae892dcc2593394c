"""Tables, figures and the card, from predictions made by hand."""

import csv
import io
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.image import imread

from interference.data_sets import DataSet
from interference.evaluation.card import model_card
from interference.evaluation.error_table import (
    blocks,
    by_victim_model,
    csv_blocks,
    csv_of,
    json_blocks,
    markdown_blocks,
    nothing_scored,
    rich_blocks,
    worst_rows,
)
from interference.evaluation.judge import HeldOut, errors_of
from interference.evaluation.score_file import Counts, Results, Scores, joined
from interference.evaluation.write import (
    LEVELS,
    MISSING,
    covered,
    grids,
    heat_map,
    remove_report,
    tells_rows_apart,
    write_figures,
    write_tables,
)
from interference.learned import SavedModel
from interference.models.encoding import Prediction
from interference.rows import stacked_rows
from sim.arrays import objects
from tests.interference.pair_worlds import (
    NAMES,
    PROFILES,
    rows_of_world,
    smooth_norm,
    solos_of_world,
)

ROWS, SOLOS = rows_of_world(smooth_norm()), solos_of_world()
NOISE = np.random.default_rng(0).normal(0.0, 0.05, len(ROWS))
OWN_SD = np.linspace(0.04, 0.06, len(ROWS))


def told(error, sd=0.05) -> HeldOut:
    """Predictions that are off by `error`."""
    sd = np.broadcast_to(np.asarray(sd, dtype=np.float64), len(ROWS))
    return HeldOut(ROWS, Prediction(ROWS.norm_speed + error, sd))


def results(name: str = "made", **models: HeldOut) -> Results:
    """One data set whose splits are alike."""
    models = models or {"constant": told(0.2), "linear": told(0.1), "learned": told(NOISE, OWN_SD)}
    judged = {"pair": models, "model": models}
    return Results({name: judged}, errors_of(name, judged), {}, {name: SOLOS})


def counts(**known) -> Counts:
    facts = {"scored": 9, "infeasible": 0, "unmeasured": 0, "fitted": 0, "met": 0}
    return Counts(**(facts | known.pop("facts", {})), new_models=(), **known)


def test_a_block_a_set_and_split_with_models_as_they_come_and_the_best_marked():
    found = blocks(results())
    assert [block.title.split(" (")[0] for block in found] == [
        "made, pair", "made, model", "made/k, pair", "made/k, model", "made/v, pair",
        "made/v, model",
    ]  # fmt: skip
    assert [cells[0] for cells in found[0].rows] == ["constant", "linear", "learned"]
    assert [cells[1] for cells in found[0].rows][:2] == ["0.2000", "0.1000"]
    marked = [cells[0] for block in found for cells in block.rows if cells[1].endswith("*")]
    assert marked == ["learned"] * 6
    worse = blocks(results(linear=told(0.1), learned=told(-0.3)))
    assert [block.best for block in worse] == [0] * 6


def test_the_terminal_and_the_page_tell_the_same_numbers(capsys):
    from rich.console import Console

    Console(width=200).print(rich_blocks(results()))
    shown = capsys.readouterr().out
    page = markdown_blocks(results())
    for block in blocks(results()):
        assert block.title in shown
        for cells in block.rows:
            assert "| " + " | ".join(cells) + " |" in page
            assert re.search(r"\s+".join(map(re.escape, cells)), shown)


def test_errors_as_json_and_sheet_have_nothing_where_a_measure_says_nothing():
    flat = results(constant=HeldOut(ROWS, Prediction(np.full(len(ROWS), 0.5), OWN_SD)))
    plain = json.loads(json_blocks(flat))
    assert plain["made"]["pair"]["constant"]["rank"] is None  # no order among equal predictions
    expected = np.abs(0.5 - ROWS.norm_speed).mean()
    assert plain["made"]["pair"]["constant"]["mae"] == pytest.approx(expected)
    lines = list(csv.DictReader(io.StringIO(csv_blocks(flat))))
    assert [(line["data_set"], line["split"]) for line in lines[:2]] == [
        ("made", "pair"), ("made", "model"),
    ]  # fmt: skip
    assert lines[0]["rank"] == lines[0]["fitted_rows"] == ""
    assert float(lines[0]["mae"]) == plain["made"]["pair"]["constant"]["mae"]


def scored(**facts) -> Results:
    """The results with one more split, of a file."""
    judged = {"made": {"pair": {"learned": told(0.3)}, "new": {"learned": told(0.3)}}}
    few = {"made": {"pair": counts(), "new": counts(facts=facts), "none": counts(
        facts={"scored": 0, "infeasible": 4})}}  # fmt: skip
    return joined(results(), Scores(judged, errors_of("made", judged["made"]), few), {})


def test_rows_of_a_file_that_were_fitted_mark_their_block():
    clean = {b.title.split(" (9")[0].split(" (1")[0]: b.note for b in blocks(scored())}
    assert clean["made, new"].startswith("None of the rows was fitted.")
    assert clean["made, model"] == ""
    note = next(b.note for b in blocks(scored(fitted=7, infeasible=3)) if "new" in b.title)
    assert note.startswith("IN-SAMPLE: 7 of 9 rows were fitted too")
    assert "Left out: 3 infeasible rows" in note
    found = json.loads(json_blocks(scored(fitted=7)))["made"]
    assert found["new"]["learned"]["fitted_rows"] == 7
    assert "fitted_rows" not in found["pair"]["learned"]
    assert nothing_scored(scored())[0].startswith("made, none: None of the rows was fitted. Left")


def test_a_split_of_a_file_never_hides_one_of_the_folds():
    both = scored()
    assert list(both.judged["made"]) == ["pair", "model", "pair (file)", "new"]
    assert both.errors["made"]["pair"]["learned"]["mae"] < 0.1
    assert both.errors["made"]["pair (file)"]["learned"]["mae"] == pytest.approx(0.3)
    assert both.is_of_files("made", "pair (file)")
    assert not both.is_of_files("made", "pair")


def test_grids_have_models_side_by_side_and_batches_by_size():
    mixed = ROWS.aggressors.copy()
    mixed[0] = (NAMES[0], NAMES[0])  # a mix, which has no cell
    held = replace(told(0.1), rows=replace(ROWS, aggressors=mixed, group=np.arange(len(ROWS))))
    found = grids(held, SOLOS)
    assert list(found) == ["k", "v"]
    assert found["k"].profiles[:4] == ("M0/1", "M0/8", "M0/64", "M1/2")
    assert found["k"].models[:4] == ("M0", "M0", "M0", "M1")
    assert np.isnan(found["k"].measured[0, 0])
    assert not np.isnan(found["v"].measured).any()
    at = found["v"].profiles.index("M2/256")
    cell = (ROWS.gpu_type == "v") & (ROWS.victim == "M2/256")
    cell &= np.array([others == ("M1/2",) for others in ROWS.aggressors])
    assert found["v"].measured[at, 3] == ROWS.norm_speed[cell][0]
    np.testing.assert_allclose(found["v"].predicted - found["v"].measured, 0.1)


def test_a_pair_that_was_judged_twice_has_the_mean():
    both = HeldOut(
        stacked_rows([ROWS, ROWS]),
        Prediction(
            np.tile(ROWS.norm_speed, 2) + np.repeat([0.0, 0.2], len(ROWS)), np.tile(OWN_SD, 2)
        ),
    )
    grid = grids(both, SOLOS)["k"]
    np.testing.assert_allclose(grid.predicted - grid.measured, 0.1)


def test_cells_without_a_pair_are_grey(tmp_path):
    whole = grids(told(NOISE), SOLOS)["k"]
    holes = whole.measured.copy()
    holes[0, :] = np.nan
    greys = []
    for name, measured in (("whole", whole.measured), ("holes", holes)):
        path = tmp_path / f"{name}.png"
        heat_map(replace(whole, measured=measured), title=name, path=path)
        greys.append((np.abs(imread(path)[..., :3] - to_rgb(MISSING)) < 1e-3).all(axis=2).mean())
    assert greys[0] < 1e-3
    panels = 2 / (3 * PROFILES)  # a row of the first and of the last panel
    assert 0.2 * panels < greys[1] < panels


def test_intervals_of_right_width_cover_what_they_say():
    rng = np.random.default_rng(1)
    many = HeldOut(
        ROWS.take(np.tile(np.arange(len(ROWS)), 40)),
        Prediction(np.tile(ROWS.norm_speed, 40) + rng.normal(0, 0.05, 40 * len(ROWS)),
                   np.full(40 * len(ROWS), 0.05)),
    )  # fmt: skip
    np.testing.assert_allclose(covered(many), LEVELS, atol=0.02)
    narrow = replace(many, told=Prediction(many.told.norm_speed, many.told.sd / 3))
    assert (covered(narrow) < covered(many) - 0.05).all()
    assert covered(told(0.0)).tolist() == [1.0] * len(LEVELS)


def test_one_spread_a_fit_tells_no_rows_apart():
    assert tells_rows_apart(told(0.0, OWN_SD))
    assert not tells_rows_apart(told(0.0, np.repeat([0.1, 0.2], len(ROWS) // 2)))


def test_the_worst_rows_and_models_are_those_of_the_learned_model():
    error = np.full(len(ROWS), 0.01)
    error[[5, 40]] = [0.5, -0.6]
    found = results(constant=told(0.9), learned=told(error))
    first, second, third = worst_rows(found)[:3]
    assert (first.victim, first.aggressors) == (ROWS.victim[40], ROWS.aggressors[40][0])
    assert (first.split, first.data_set) == ("pair", "made")
    assert first.predicted - first.measured == pytest.approx(-0.6)
    assert (second.victim, second.gpu_type) == (ROWS.victim[5], ROWS.gpu_type[5])
    assert abs(third.predicted - third.measured) == pytest.approx(0.01)
    assert len(worst_rows(found)) == 10
    models = [each for each in by_victim_model(found) if each.split == "pair"]
    assert [each.rows for each in models] == [54] * 3
    assert [each.mae for each in models] == sorted([each.mae for each in models], reverse=True)
    own = next(each for each in models if each.victim_model == ROWS.victim[40].split("/")[0])
    expected = error[[v.startswith(own.victim_model) for v in ROWS.victim]]
    assert own.mae == pytest.approx(np.abs(expected).mean())
    assert own.bias == pytest.approx(expected.mean())
    assert csv_of(models).splitlines()[0] == "data_set,split,victim_model,rows,mae,bias"


def saved(source: str) -> SavedModel:
    table = np.full((2, PROFILES, PROFILES), 0.5)
    return SavedModel(("k", "v"), NAMES, {"learned": table}, {"learned": table}, table > 1, source)


@pytest.mark.parametrize("name", ["lucid", "mine", "a/k"])
def test_the_card_tells_licence_splits_baselines_and_what_is_unknown(name):
    found = results(name)
    rows = replace(ROWS, measured=np.arange(len(ROWS)) > 3)
    sets = {name: DataSet(rows, SOLOS, "measured")}
    card = model_card(found, sets, saved("measured"), folds=4, seed=3)
    assert ("NON-COMMERCIAL" in card) == (name == "lucid")
    assert ("rows of your own" in card) == (name != "lucid")
    assert f"| {name} | {len(ROWS) - 4} | 0 | 4 | k, v |" in card
    assert f"| {name} | pair | {len(ROWS)} | 0.200 | 0.100 | 0.0" in card
    measured = found.errors[name]["pair"]["learned"]
    assert f"| {name} | pair | {measured['covered']:.1%} | {measured['width']:.3f} |" in card
    of_linear = found.errors[name]["pair"]["linear"]["choice"]
    choices = [
        f"{value:.1%}" for value in (measured["choice"], of_linear, measured["choice_blind"])
    ]
    assert f"| {name} | pair | {' | '.join(choices)} |" in card
    for words in ("`pair`: 4 folds", "nested", "## Limits", "## Not known", "## Worst at"):
        assert words in card
    assert not re.search(r"\bnan", card)
    assert "generated rows" not in card


def test_a_card_of_generated_rows_says_so_first():
    sets = {"generated": DataSet(ROWS, SOLOS, "generated")}
    card = model_card(results("generated"), sets, saved("generated"), folds=2, seed=0)
    assert "Fitted on generated rows" in card.split("##")[0]


def test_every_file_is_written_and_forgotten_again(tmp_path):
    name = "my rows/2"  # a source may be called anything
    found = results(name)
    write_tables(found, tmp_path)
    write_figures(found, tmp_path)
    kept = tmp_path / "notes.txt"
    kept.write_text("mine")
    assert {path.name for path in tmp_path.iterdir()} == {
        "errors.json", "error_table.md", "error_table.csv", "worst.csv", "worst_by_model.csv",
        "heat_my_rows_2_k_pair.png", "heat_my_rows_2_v_pair.png", "reliability_my_rows_2.png",
        "residuals_my_rows_2.png", "notes.txt",
    }  # fmt: skip
    remove_report(tmp_path)
    assert list(tmp_path.iterdir()) == [kept]


def test_a_set_without_pairs_has_no_maps(tmp_path):
    alone = replace(ROWS, aggressors=objects([()] * len(ROWS)), group=np.arange(len(ROWS)))
    judged = {"pair": {"constant": HeldOut(alone, told(0.1).told)}}
    found = Results({"mig": judged}, errors_of("mig", judged), {}, {"mig": SOLOS})
    write_figures(found, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["residuals_mig.png"]
