"""Measurements of one's own as the physics of a run, from files to decisions."""

from pathlib import Path

import numpy as np
import pytest

import gpuyard
from interference.fit import fit_and_report
from interference.learned import save_model
from interference.own import OwnInterference, OwnProfiles
from sim.errors import PhysicsError

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
