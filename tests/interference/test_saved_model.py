"""Saved models, beliefs, the whole fit, and measurements of one's own as physics."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import gpuyard
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
from interference.measured import OwnInterference, OwnProfiles
from interference.rows import stacked_rows
from sim.arrays import objects
from sim.errors import PhysicsError
from sim.physics.catalogue import Catalogue
from sim.physics.shipped_files import ShippedInterference, ShippedProfiles
from tests.interference import pair_worlds as worlds
from tests.interference.pair_worlds import rows_of_world, solos_of_world

NORM = np.array([[[0.5, 0.25], [1.25, 0.8]]])
SMALL = SavedModel(
    gpu_types=("k",), profiles=("A/1", "B/2"), source="measured",
    norm_speed={"linear": NORM, "learned": NORM / 2}, sd={"linear": NORM / 10, "learned": NORM / 4},
    infeasible=np.array([[[False, True], [True, False]]]),
)  # fmt: skip


@pytest.fixture
def path(tmp_path):
    """A file of SMALL."""
    save_model(SMALL, tmp_path / "model.json")
    return tmp_path / "model.json"


def small_catalogue(*names: str) -> Catalogue:
    n = len(names)
    return Catalogue(
        names=names, gpu_types=("k",), compute_s=np.ones((n, 1)), sync_bytes=np.zeros(n),
        gang_ok=np.ones(n, np.bool_), source="measured",
    )  # fmt: skip


def test_round_trip_and_order_of_the_catalogue(path):
    table = LinearInterference(path=path).pair_table(small_catalogue("B/2", "A/1"))
    np.testing.assert_allclose(table.slowdown, [[[1.25, 1.0], [4.0, 2.0]]])  # 1 / 1.25 is cut at 1
    np.testing.assert_array_equal(table.feasible, [[[True, False], [False, True]]])
    assert table.source == "linear"
    learned = LearnedInterference(path=str(path)).pair_table(small_catalogue("A/1"))
    assert learned.source == "learned"
    assert learned.slowdown[0, 0, 0] == 4.0


def test_caution_tells_speeds_lower_and_never_nothing(path):
    one = LearnedInterference(path=path, caution=1.0).pair_table(small_catalogue("A/1", "B/2"))
    np.testing.assert_allclose(1 / one.slowdown, [[[0.125, 0.063], [0.313, 0.2]]], atol=1e-3)
    most = LearnedInterference(path=path, caution=9.0).pair_table(small_catalogue("A/1", "B/2"))
    np.testing.assert_allclose(most.slowdown, 20.0)
    with pytest.raises(PhysicsError, match=r"caution is -1"):
        LearnedInterference(path=path, caution=-1)


def test_profiles_models_and_files_that_are_not_there_are_named(path):
    with pytest.raises(PhysicsError, match=r"'C/3' is not among A/1, B/2; fit one"):
        LearnedInterference(path=path).pair_table(small_catalogue("A/1", "C/3"))
    told = json.loads(path.read_text())
    learned = {key: {"learned": told[key]["learned"]} for key in ("norm_speed", "sd")}
    path.write_text(json.dumps(told | learned))
    with pytest.raises(PhysicsError, match=r"no model 'linear'; it has learned"):
        LinearInterference(path=path).pair_table(small_catalogue("A/1"))
    with pytest.raises(PhysicsError, match=r"gpuyard fit_interference wrote"):
        load_model(path.with_name("none.json"))


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
def test_broken_file_is_named(path, change, message):
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(PhysicsError, match=message):
        load_model(path)


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
    norm = np.full((worlds.TYPES, worlds.PROFILES, worlds.PROFILES), 0.5)
    solos, on_gpu = solos_of_world(), rows_of_world(norm)
    n = len(on_gpu)
    on_links = replace(on_gpu, sharing=objects(["network"] * n), norm_speed=np.full(n, 0.9))
    for rows, speed in ((stacked_rows([on_links, on_gpu]), 0.5), (on_links, 0.9)):
        data = DataSet(rows, solos, "measured")
        saved = saved_model(data, ["linear"], seed=0, folds=3, keep_observed=True)
        np.testing.assert_allclose(saved.norm_speed["linear"], speed)


def test_too_few_pairs_are_refused_before_mixes_are_judged(tmp_path):
    rows, solos = rows_of_world(worlds.smooth_norm()), solos_of_world()
    others = rows.take((rows.gpu_type == "k") & (rows.victim == worlds.NAMES[0]))
    twice = objects([(name,) * 2 for (name,) in others.aggressors])
    mixes = replace(others, aggressors=twice, group=np.arange(len(others)))
    write_csv(tmp_path, stacked_rows([others.take(np.array([1])), mixes]), solos)
    told: list[str] = []
    with pytest.raises(PhysicsError, match="have 1 mix"):
        fit_and_report(data_dir=tmp_path, seed=0, folds=2, models=["constant"], done=told.append)
    assert told == []


ROWS = """source,gpu_type,sharing,group,victim,aggressors,norm_speed,feasible
own,t4,gpu,0,a/1,a/1,0.5,1
own,t4,gpu,0,a/1,a/1,0.6,1
own,t4,gpu,1,a/1,b/2,0.8,1
own,t4,gpu,1,b/2,a/1,0.4,1
own,t4,gpu,2,b/2,b/2,,0
own,t4,gpu,2,b/2,b/2,,0
own,t4,gpu,3,c/4,a/1,0.9,1
own,t4,gpu,3,a/1,c/4,0.9,1
own,t4,gpu,5,c/4,c/4,0.7,1
own,t4,gpu,5,c/4,c/4,0.7,1
own,t4,gpu,4,c/4,a/1+b/2,0.3,1
own,t4,gpu,4,a/1,b/2+c/4,0.3,1
own,t4,gpu,4,b/2,a/1+c/4,0.3,1
"""
SOLOS = """source,gpu_type,profile,model,batch,step_s
own,t4,a/1,a,1,0.5
own,t4,b/2,b,2,0.25
own,t4,c/4,c,4,2.0
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "colocation.csv").write_text(ROWS)
    (tmp_path / "solo_profiles.csv").write_text(SOLOS)
    return tmp_path


def test_what_was_measured_stands_and_the_rest_is_fitted(folder: Path):
    profiles = OwnProfiles(path=folder, gradient_bytes={"b": 1e6})
    assert (profiles.names, profiles.gpu_types) == (("a/1", "b/2", "c/4"), ("t4",))
    assert profiles.compute_s.tolist() == [[0.5], [0.25], [2.0]]
    assert profiles.sync_bytes.tolist() == [0.0, 1e6, 0.0]
    table = OwnInterference(path=folder).pair_table(profiles)
    (slowdown,), (feasible,) = table.slowdown, table.feasible
    assert slowdown[0, 0] == pytest.approx(1 / 0.55)  # the median
    assert slowdown[0, 1] == pytest.approx(1 / 0.8) and slowdown[1, 0] == pytest.approx(1 / 0.4)
    assert not feasible[1, 1] and feasible[0, 1] and feasible[1, 0]
    assert np.isfinite(slowdown).all() and (slowdown >= 1.0).all()
    assert feasible[1, 2] == feasible[2, 1]  # nobody tried these two


def test_what_is_missing_is_named(folder: Path):
    with pytest.raises(PhysicsError, match=r"profiles\.path is null"):
        OwnProfiles(path=None, gradient_bytes={})
    with pytest.raises(PhysicsError, match=r"gradient_bytes: no model 'bb' .* did you mean 'b'"):
        OwnProfiles(path=folder, gradient_bytes={"bb": 1.0})
    (folder / "solo_profiles.csv").write_text(SOLOS.replace("c,4,2.0", "c,4,"))
    with pytest.raises(PhysicsError, match="profile 'c/4' has no step_s on 't4'"):
        OwnProfiles(path=folder, gradient_bytes={})
    (folder / "solo_profiles.csv").write_text(SOLOS + "own,h9,a/1,a,1,0.1\n")
    with pytest.raises(PhysicsError, match="profile 'b/2' has no step_s on 'h9'"):
        OwnProfiles(path=folder, gradient_bytes={})
    (folder / "solo_profiles.csv").write_text(SOLOS + SOLOS.replace("t4", "h9").split("\n", 1)[1])
    profiles = OwnProfiles(path=folder, gradient_bytes={})
    with pytest.raises(PhysicsError, match=r"no row that can be physics .* a/1, .* on 'h9'"):
        OwnInterference(path=folder).pair_table(profiles)


def test_what_is_no_physics_is_told_and_left_out(folder: Path, caplog):
    (folder / "colocation.csv").write_text(
        "measured,relative_to," + ROWS.replace("own,", "1,solo,own,")
        + "0,solo,own,t4,gpu,6,b/2,c/4,0.2,1\n0,solo,own,t4,gpu,6,c/4,b/2,0.2,1\n"
        + "1,solo,own,t4,gpu,7,a/1,c/4,1.8,1\n1,solo,own,t4,gpu,7,c/4,a/1,1.8,1\n"
    )  # fmt: skip
    profiles = OwnProfiles(path=folder, gradient_bytes={})
    table = OwnInterference(path=folder).pair_table(profiles)
    assert table.slowdown[0, 1, 2] < 5.0
    assert table.guessed == table.feasible[0, 1, 2]  # b beside c, and c beside b
    assert "no physics: 3 of mixes of three and more, 2 not measured" in caplog.text
    assert "2 speeds of pairs are above 1 and count as 1" in caplog.text


def test_two_sources_are_not_pooled_nor_what_contradicts(folder: Path):
    theirs = "".join(f"mps{line[3:]}\n" for line in ROWS.replace("0.8", "0.9").splitlines()[1:])
    (folder / "colocation.csv").write_text(ROWS + theirs.replace("gpu,", "gpu,1"))
    (folder / "solo_profiles.csv").write_text(SOLOS + SOLOS.replace("own", "mps").split("\n", 1)[1])
    with pytest.raises(PhysicsError, match=r"sources mps, own, and none .*profiles\.source=mps"):
        OwnProfiles(path=folder, gradient_bytes={})
    profiles = OwnProfiles(path=folder, gradient_bytes={}, source="mps")
    for source, speed in (("mps", 0.9), ("own", 0.8)):
        table = OwnInterference(path=folder, source=source).pair_table(profiles)
        assert table.slowdown[0, 0, 1] == pytest.approx(1 / speed)
    failed = "own,t4,gpu,9,a/1,b/2,,0\nown,t4,gpu,9,b/2,a/1,,0\n"
    (folder / "colocation.csv").write_text(ROWS + failed)
    with pytest.raises(PhysicsError, match=r"t4: a/1 beside b/2 fits .* and does not in another"):
        OwnInterference(path=folder, source="own").pair_table(profiles)


def test_they_are_the_physics_of_a_run_and_a_model_of_them_is_believed(folder: Path):
    models = ["linear", "learned"]
    fitted = fit_and_report(data_dir=folder, seed=0, folds=2, models=models)
    save_model(fitted.saved, folder / "model.json")
    words = [
        "profiles=own", f"profiles.path={folder}", "interference=own", "topology.gpu_types=[t4]",
        "workload.num_jobs=60", "sharing=selective", f"belief.model.path={folder}/model.json",
    ]  # fmt: skip
    run = gpuyard.simulate("venus_like", "small_leaf_spine", "sjf", overrides=words)
    assert run.metrics["jobs_finished"] == 60
    assert set(run.jobs["profile"]) <= {0, 1, 2}
