"""Saved models, beliefs, and the whole fit."""

import json
from dataclasses import replace

import numpy as np
import pytest

from interference.data_sets import DataSet, write_csv
from interference.evaluation.judge import errors_of
from interference.fit import SAVED, fit_and_report, saved_model
from interference.learned import (
    SHIPPED_DIR,
    LearnedInterference,
    LinearInterference,
    SavedModel,
    load_model,
    save_model,
)
from interference.rows import stacked_rows
from sim.arrays import objects
from sim.errors import PhysicsError
from sim.physics.catalogue import Catalogue
from sim.physics.shipped_files import ShippedInterference, ShippedProfiles
from tests.interference.pair_worlds import (
    NAMES,
    PROFILES,
    TYPES,
    rows_of_world,
    smooth_norm,
    solos_of_world,
)


def small_model() -> SavedModel:
    norm = np.array([[[0.5, 0.25], [1.25, 0.8]]])
    infeasible = np.array([[[False, True], [True, False]]])
    return SavedModel(
        gpu_types=("k",),
        profiles=("A/1", "B/2"),
        norm_speed={"linear": norm, "learned": norm / 2},
        sd={"linear": norm / 10, "learned": norm / 4},
        infeasible=infeasible,
        source="measured",
    )


def small_catalogue(*names: str) -> Catalogue:
    count = len(names)
    return Catalogue(
        names=names,
        gpu_types=("k",),
        compute_s=np.ones((count, 1)),
        sync_bytes=np.zeros(count),
        gang_ok=np.ones(count, np.bool_),
        source="measured",
    )


def test_round_trip_and_order_of_the_catalogue(tmp_path):
    path = tmp_path / "model.json"
    save_model(small_model(), path)
    table = LinearInterference(path=path).pair_table(small_catalogue("B/2", "A/1"))
    np.testing.assert_allclose(table.slowdown, [[[1.25, 1.0], [4.0, 2.0]]])  # 1 / 1.25 is cut at 1
    np.testing.assert_array_equal(table.feasible, [[[True, False], [False, True]]])
    assert table.source == "linear"
    learned = LearnedInterference(path=str(path)).pair_table(small_catalogue("A/1"))
    assert learned.source == "learned"
    assert learned.slowdown[0, 0, 0] == 4.0


def test_caution_tells_speeds_lower_and_never_nothing(tmp_path):
    path = tmp_path / "model.json"
    save_model(small_model(), path)
    one = LearnedInterference(path=path, caution=1.0).pair_table(small_catalogue("A/1", "B/2"))
    np.testing.assert_allclose(1 / one.slowdown, [[[0.125, 0.063], [0.313, 0.2]]], atol=1e-3)
    most = LearnedInterference(path=path, caution=9.0).pair_table(small_catalogue("A/1", "B/2"))
    np.testing.assert_allclose(most.slowdown, 20.0)
    with pytest.raises(PhysicsError, match=r"caution is -1"):
        LearnedInterference(path=path, caution=-1)


def test_unknown_profile_names_it_and_the_fix(tmp_path):
    save_model(small_model(), tmp_path / "m.json")
    with pytest.raises(PhysicsError, match=r"'C/3' is not among A/1, B/2; fit one"):
        LearnedInterference(path=tmp_path / "m.json").pair_table(small_catalogue("A/1", "C/3"))


def test_model_that_was_not_saved_is_named(tmp_path):
    path = tmp_path / "m.json"
    save_model(small_model(), path)
    told = json.loads(path.read_text())
    learned = {key: {"learned": told[key]["learned"]} for key in ("norm_speed", "sd")}
    path.write_text(json.dumps(told | learned))
    with pytest.raises(PhysicsError, match=r"no model 'linear'; it has learned"):
        LinearInterference(path=tmp_path / "m.json").pair_table(small_catalogue("A/1"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "other-2"}, "format is 'other-2'"),
        ({"profiles": ["A/1"]}, "not a whole model"),
        ({"gpu_types": None}, "not a whole model"),
        ({"norm_speed": {"linear": [[[0.5]]]}}, "norm_speed.linear: wrong shape"),
        ({"sd": {}}, "not a whole model"),
        ({"sd": {"linear": [[[0.1]]], "learned": [[[0.1]]]}}, "sd.linear: wrong shape"),
        ({"norm_speed": {"linear": [[[0.0, 1], [1, 1]]]}}, "a value of 0 or less"),
    ],
)
def test_broken_file_is_named(tmp_path, change, message):
    path = tmp_path / "m.json"
    save_model(small_model(), path)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(PhysicsError, match=message):
        load_model(path)


def test_missing_file_names_the_fix(tmp_path):
    with pytest.raises(PhysicsError, match=r"gpuyard fit_interference wrote"):
        load_model(tmp_path / "none.json")


def test_shipped_beliefs_are_close_to_the_shipped_physics_but_not_equal():
    catalogue = ShippedProfiles()
    truth = ShippedInterference().pair_table(catalogue)
    feasible = truth.feasible
    for belief, bound in ((LearnedInterference, 0.08), (LinearInterference, 0.11)):
        table = belief(path=None).pair_table(catalogue)
        error = np.abs(1 / table.slowdown - 1 / truth.slowdown)[feasible]
        assert 0.02 < error.mean() < bound


@pytest.mark.parametrize("source", ["measured", "shipped"])
def test_shipped_files_cover_the_shipped_names(source):
    saved = load_model(SHIPPED_DIR / f"{source}.json")
    catalogue = ShippedProfiles()
    assert set(saved.profiles) == set(catalogue.names)
    assert set(saved.gpu_types) == set(catalogue.gpu_types)
    assert tuple(saved.norm_speed) == SAVED


def test_fit_without_measured_rows(tmp_path):
    report = fit_and_report(
        data_dir=tmp_path / "nothing", seed=0, folds=2, models=["constant", "linear"]
    )
    assert report.saved.source == "generated"
    of_pairs = errors_of(report.predictions, ()).query("split == 'pair'").set_index("model").mae
    assert of_pairs["linear"] < 0.8 * of_pairs["constant"]
    save_model(report.saved, tmp_path / "model.json")
    table = LinearInterference(path=tmp_path / "model.json").pair_table(ShippedProfiles())
    truth = ShippedInterference().pair_table(ShippedProfiles())
    error = np.abs(1 / table.slowdown - 1 / truth.slowdown)[truth.feasible]
    assert error.mean() == pytest.approx(of_pairs["linear"], rel=0.2)


def test_pairs_on_links_are_not_told_as_pairs_on_gpus():
    """One file may hold both of the same jobs; the tables are of GPUs."""
    norm = np.full((TYPES, PROFILES, PROFILES), 0.5)
    solos, on_gpu = solos_of_world(), rows_of_world(norm)
    n = len(on_gpu)
    on_links = replace(on_gpu, sharing=objects(["network"] * n), norm_speed=np.full(n, 0.9))
    for rows, speed in ((stacked_rows([on_links, on_gpu]), 0.5), (on_links, 0.9)):
        data = DataSet(rows, solos, "measured")
        saved = saved_model(data, ["linear"], seed=0, folds=3, keep_observed=True)
        np.testing.assert_allclose(saved.norm_speed["linear"], speed)


def test_too_few_pairs_are_refused_before_mixes_are_judged(tmp_path):
    rows, solos = rows_of_world(smooth_norm()), solos_of_world()
    others = rows.take((rows.gpu_type == "k") & (rows.victim == NAMES[0]))
    mixes = replace(
        others,
        aggressors=objects([(name,) * 2 for (name,) in others.aggressors]),
        group=np.arange(len(others)),
    )
    write_csv(tmp_path, stacked_rows([others.take(np.array([1])), mixes]), solos)
    told: list[str] = []
    with pytest.raises(PhysicsError, match="have 1 mix"):
        fit_and_report(data_dir=tmp_path, seed=0, folds=2, models=["constant"], done=told.append)
    assert told == []
