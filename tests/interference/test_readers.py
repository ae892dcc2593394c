"""Readers of measurements, on small files of invented numbers."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from interference.data_sets import rows_of_csv
from interference.readers.miso import rows_of_miso
from interference.readers.pairs import DEEPSHARE, GAVEL, LUCID
from sim.errors import PhysicsError

ROWS = """source,gpu_type,sharing,group,victim,aggressors,norm_speed,feasible
mine,t4,gpu,0,A/8,B/4,0.5,1
mine,t4,gpu,0,B/4,A/8,0.75,1
mine,t4,gpu,1,A/8,B/4 + A/8,,0

mine,t4,mig,2,A/8,,0.9,1
"""
SOLOS = """source,gpu_type,profile,model,batch,step_s,gpu_util
mine,t4,A/8,A,8,0.1,0.6
mine,t4,B/4,B,4,,
"""
GAVEL_PAIRS = """gpu_type,model_a,batch_a,model_b,batch_b,iso_a,iso_b,norm_a,norm_b,feasible
k80,A,8,B,4,9,9,0.5,0.75,1
k80,A,8,A,8,9,9,0.4,0.4,1
v100,A,8,B,4,9,9,,,0
"""
GAVEL_ISOLATED = """gpu_type,consolidated,model,batch_size,num_gpus,steps_per_s
k80,1,A,8,1,10
k80,0,A,8,1,10
k80,1,B,4,1,5
v100,1,A,8,1,20
v100,1,B,4,1,25
v100,1,A,8,4,40
v100,0,A,8,4,16
v100,0,B,4,4,0
"""
LUCID_PAIRS = """model1,batchsize1,amp1,norm_1,model2,batchsize2,amp2,norm_2,gpu_util,gmem_util,gmem
A,32,1,0.9,PPO,64,0,1.0,1,2,3
A,32,0,0.8,A,32,0,0.7,4,5,6
"""
LUCID_SINGLE = """model,batchsize,amp,speed,gpu_util,gmem_util,gmem
A,32,0,64,80,20,1000
A,32,1,128,60,15,900
PPO,64,0,32,10,0,800
"""
DEEPSHARE_PAIRS = """model,gpus,nodes,other_model,other_gpus,other_nodes,norm
A,4,2,B,8,4,0.5
B,8,4,A,4,2,0.7
A,4,2,A,4,2,0.6
"""
DEEPSHARE_ISOLATED = """model,gpus,nodes,samples_per_s
A,4,2,100
B,8,4,300
"""
MISO_SLICES = """model,batch_size,mig_slice_g,iter_mean_s
A,8,7,0.1
A,8,4,0.16
A,8,3,0.2
A,8,1,0.5
B,4,7,0.4
B,4,4,0.4
B,4,3,0.5
"""
FORM_A, FORM_B, FORM_DUMMY = [0.5, 0.8, 1.0], [0.8, 0.8, 1.0], [1.0, 1.0, 0.5]


def write(folder: Path, **files: str) -> Path:
    """Files by their names with `__` for the folder's slash."""
    for name, text in files.items():
        path = folder / (name.replace("__", "/") + ".csv")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return folder


def own(folder: Path, rows: str = ROWS, solos: str = SOLOS) -> Path:
    return write(folder, colocation=rows, solo_profiles=solos)


def gavel(folder: Path, pairs: str = GAVEL_PAIRS, isolated: str = GAVEL_ISOLATED) -> Path:
    return write(folder, colocation__gavel_pairs=pairs, throughput__gavel_isolated=isolated)


def lucid(folder: Path, pairs: str = LUCID_PAIRS, single: str = LUCID_SINGLE) -> Path:
    return write(folder, colocation__lucid_pairs=pairs, throughput__lucid_single=single)


def deepshare(folder: Path, pairs: str = DEEPSHARE_PAIRS) -> Path:
    return write(
        folder,
        colocation__deepshare_network_pairs=pairs,
        throughput__deepshare_isolated=DEEPSHARE_ISOLATED,
    )


def miso(folder: Path, slices: str = MISO_SLICES, **arrays: np.ndarray) -> Path:
    """One mix: A, B and five dummies."""
    write(folder, throughput__miso_a100_mig_latency=slices)
    path = folder / "colocation" / "miso_mps_mixes.npz"
    path.parent.mkdir(exist_ok=True)
    mps = np.full((1, 7, 3), [1.0, 0.5, 0.25], dtype=np.float32)
    mps[0, 0] = [0.4, 0.5, 1.0]
    mig = np.array([[FORM_A, FORM_B, *[FORM_DUMMY] * 5]], dtype=np.float32)
    np.savez(path, **({"mps": mps, "mig": mig} | arrays))
    return folder


def test_own_rows(tmp_path):
    rows, solos = rows_of_csv(own(tmp_path))
    assert rows.group.tolist() == [0, 0, 1, 2]
    assert rows.aggressors.tolist() == [("B/4",), ("A/8",), ("A/8", "B/4"), ()]
    np.testing.assert_array_equal(rows.norm_speed, [0.5, 0.75, np.nan, 0.9])
    assert rows.feasible.tolist() == [True, True, False, True]
    # What the file leaves out: measured, relative to the job alone, on a whole GPU.
    assert (set(rows.relative_to), set(rows.share), set(rows.split)) == ({"solo"}, {1.0}, {""})
    assert rows.measured.all()
    np.testing.assert_array_equal(solos.step_s, [0.1, np.nan])
    np.testing.assert_array_equal(solos.gpu_util, [0.6, np.nan])
    assert (solos.gpus.tolist(), solos.nodes.tolist()) == ([1, 1], [0, 0])
    packed = tmp_path / "more.csv.gz"  # it finds its profiles beside it
    packed.write_bytes(gzip.compress(ROWS.encode()))
    assert len(rows_of_csv(packed)[0]) == 4
    text = ROWS.replace("feasible", "feasible,split").replace(",1\n", ",1,train\n")
    rows, _ = rows_of_csv(own(tmp_path, text.replace(",0\n", ",0,test\n")))
    assert rows.split.tolist() == ["train", "train", "test", "train"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("norm_speed", "norm_sped", r"csv:1: no column 'norm_speed'; did you mean 'norm_sped'\?"),
        ("feasible", "feasable", r"csv:1: column 'feasable' is not known; rename it to 'feasible'"),
        ("victim", "group", "csv:1: column 'group' is there twice; rename one"),
        ("0.75", "75", r"csv:3: norm_speed is 75.0; speeds above 2 are percent"),
        ("0.75", "75 %", r"csv:3: norm_speed is '75 %'; expected a number"),
        ("0.75", "", r"csv:3: norm_speed is nan; give a speed, or feasible 0"),
        ("0.9,1", "0.9,yes", r"csv:6: feasible is 'yes'; expected 0 or 1"),
        ("gpu,0,A", "gpu,0.5,A", r"csv:2: group is '0.5'; expected a whole number"),
        ("gpu,0,A", "gpu,,A", r"csv:2: group is ''; expected a whole number"),
        ("mig", "mgi", r"csv:6: sharing is 'mgi'; known are gpu, mig, network; did you mean 'mig'"),
        ("2,A/8", "2,C/8", r"csv:6: victim is 'C/8'; it has no solo profile of mine on t4; .*A/8"),
        ("A/8,B/4,0.5", "A/8,C/1,0.5", r"csv:3: group is 0; a group is one measurement"),
        ("B/4,A/8,0.75", "A/8,B/4,0.7", r"csv:3: victim is 'A/8'; .*csv:2 has it too; keep one"),
        ("0.9,1", "0.9", r"csv:6: the row has 7 fields, the header 8; complete the row"),
        ("mine,t4,mig", '"mine,t4,mig', r"csv:6: .*; check its quotation marks"),
        ("0.6", "60", r"profiles.csv:2: gpu_util is 60.0; utilisation is in percent; give 0..1"),
        ("B/4,B,4", "A/8,B,4", r"profiles.csv:3: profile is 'A/8'; .*profiles.csv:2 has it too"),
        ("B/4,B,4", "B/4,B,x", r"profiles.csv:3: batch is 'x'; expected a number"),
        ("profile", "profle", r"profiles.csv:1: no column 'profile'; did you mean 'profle'\?"),
        ("step_s", "steps", r"profiles.csv:1: column 'steps' is not known; rename it to 'step_s'"),
        ("B/4,B,4", "B/4,,4", r"profiles.csv:3: model is ''; give a printable text"),
    ],
)
def test_own_errors_name_file_and_line(tmp_path, old, new, message):
    texts, of = {"rows": ROWS, "solos": SOLOS}, "solos" if "profiles." in message else "rows"
    assert old in texts[of]
    texts[of] = texts[of].replace(old, new, 1)
    with pytest.raises(PhysicsError, match=message if of == "solos" else f"colocation.{message}"):
        rows_of_csv(own(tmp_path, **texts))


def test_files_that_are_not_there_or_hold_nothing(tmp_path):
    with pytest.raises(PhysicsError, match=r"nowhere\.csv: no such file"):
        rows_of_csv(tmp_path / "nowhere.csv")
    with pytest.raises(PhysicsError, match=r"no such file; give the folder that holds colocation"):
        rows_of_csv(tmp_path)
    (tmp_path / "colocation.csv").write_text("")
    with pytest.raises(PhysicsError, match=r"colocation\.csv: the file is empty; needed are the"):
        rows_of_csv(tmp_path)
    (tmp_path / "colocation.csv").write_text(ROWS.splitlines()[0])
    with pytest.raises(PhysicsError, match="only a header and no row"):
        rows_of_csv(tmp_path)
    (tmp_path / "colocation.csv").write_text(ROWS)
    with pytest.raises(PhysicsError, match=r"solo_profiles\.csv: no such file"):
        rows_of_csv(tmp_path)
    (tmp_path / "colocation.csv").write_bytes(b"source,\xff\n")
    with pytest.raises(PhysicsError, match="not UTF-8"):
        rows_of_csv(tmp_path)


@pytest.mark.parametrize("read", [GAVEL.read, LUCID.read, DEEPSHARE.read, rows_of_miso])
def test_a_folder_without_the_files_is_named(tmp_path, read):
    with pytest.raises(PhysicsError, match=r"no such file; give the folder that holds throughput/"):
        read(tmp_path)


def test_gavel(tmp_path):
    rows, solos = GAVEL.read(gavel(tmp_path))
    assert rows.victim.tolist() == ["A/8", "B/4", "A/8", "A/8", "B/4"]
    assert rows.aggressors.tolist() == [("B/4",), ("A/8",), ("A/8",), ("B/4",), ("A/8",)]
    assert rows.group.tolist() == [0, 0, 1, 2, 2]
    assert rows.feasible.tolist() == [True, True, True, False, False]
    np.testing.assert_array_equal(rows.norm_speed, [0.5, 0.75, 0.4, np.nan, np.nan])
    assert solos.profile.tolist() == ["A/8", "B/4", "A/8", "B/4", "A/8@4x1", "A/8@4spread"]
    np.testing.assert_allclose(solos.step_s, [0.1, 0.2, 0.05, 0.04, 0.025, 0.0625])
    assert solos.nodes.tolist() == [1, 1, 1, 1, 1, 0]
    again = GAVEL_PAIRS + "k80,B,4,A,8,9,9,0.7,0.45,1\n"  # measured twice: one group
    assert GAVEL.read(gavel(tmp_path, again))[0].group.tolist() == [0, 0, 1, 2, 2, 0, 0]
    listed = "k80,B,4,A,8,9,9,0.75,0.5,1\nk80,A,8,A,8,9,9,0.4,0.4,1\nv100,B,4,A,8,9,9,,,0\n"
    both_ways = GAVEL.read(gavel(tmp_path, GAVEL_PAIRS + listed))[0]  # measured once
    for name, column in vars(rows).items():
        np.testing.assert_array_equal(getattr(both_ways, name), column)
    text = GAVEL_ISOLATED.replace("B,4,1,25", "B,4,1,-25")
    with pytest.raises(PhysicsError, match=r"gavel_isolated.csv:6: step_s is -0.04; give"):
        GAVEL.read(gavel(tmp_path, isolated=text))


def test_lucid_reads_features_from_solo_runs_alone(tmp_path):
    rows, solos = LUCID.read(lucid(tmp_path))
    assert rows.victim.tolist() == ["A/32@amp", "PPO/64", "A/32", "A/32"]
    assert rows.group.tolist() == [0, 0, 1, 1]
    assert rows.norm_speed.tolist() == [0.9, 1.0, 0.8, 0.7]
    assert rows.measured.tolist() == [True, False, True, True]
    assert solos.profile.tolist() == ["A/32", "A/32@amp", "PPO/64"]
    assert solos.amp.tolist() == [False, True, False]
    np.testing.assert_allclose(solos.step_s, [0.5, 0.25, 2.0])
    np.testing.assert_allclose(solos.gpu_util, [0.8, 0.6, 0.1])
    np.testing.assert_allclose(solos.gmem_util, [0.2, 0.15, 0.0])
    # The pairs' utilisation is an outcome: without those columns nothing changes.
    cut = "\n".join(line.rsplit(",", 3)[0] for line in LUCID_PAIRS.splitlines())
    again, others = LUCID.read(lucid(tmp_path, cut))
    assert again.norm_speed.tolist() == rows.norm_speed.tolist()
    assert others.gpu_util.tolist() == solos.gpu_util.tolist()


def test_deepshare(tmp_path):
    rows, solos = DEEPSHARE.read(deepshare(tmp_path))
    assert rows.victim.tolist() == ["A@4x2", "B@8x4", "A@4x2"]
    assert rows.group.tolist() == [0, 0, 1]
    assert set(rows.sharing) == {"network"}
    assert (solos.gpus.tolist(), solos.nodes.tolist()) == ([4, 8], [2, 4])
    assert solos.samples_per_s.tolist() == [100.0, 300.0]
    assert np.isnan(solos.step_s).all()


def test_miso_names_jobs_and_turns_times_into_speeds(tmp_path):
    rows, solos = rows_of_miso(miso(tmp_path))
    mix, slices = rows.take(rows.sharing == "gpu"), rows.take(rows.sharing == "mig")
    assert len(mix) == 21
    assert set(mix.group) == {0}
    assert mix.victim[::3].tolist() == ["A/8", "B/4", *["dummy/0"] * 5]
    assert mix.aggressors[0] == ("B/4", *["dummy/0"] * 5)
    assert mix.share[:3].tolist() == [1.0, 0.5, 0.14]
    np.testing.assert_allclose(mix.norm_speed[:6], [1.0, 0.8, 0.4, 0.25, 0.5, 1.0], rtol=1e-6)
    assert set(mix.relative_to) == {"best"}
    assert slices.victim.tolist() == ["A/8", "A/8", "A/8", "B/4", "B/4"]
    np.testing.assert_allclose(slices.share, np.array([4, 3, 1, 4, 3]) / 7)
    np.testing.assert_allclose(slices.norm_speed, [0.625, 0.5, 0.2, 1.0, 0.8])
    assert set(slices.relative_to) == {"solo"}
    assert slices.group.tolist() == [1, 1, 1, 2, 2]
    assert solos.profile.tolist() == ["A/8", "B/4", "dummy/0"]
    np.testing.assert_array_equal(solos.step_s, [0.1, 0.4, np.nan])
    rows, _ = rows_of_miso(miso(tmp_path, split=np.array(["test"])))
    assert set(rows.split[rows.sharing == "gpu"]) == {"test"}


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"mps": np.ones((1, 6, 3))}, r"npz: mps is \(1, 6, 3\); give \(mixes, 7, 3\)"),
        ({"mps": np.zeros((1, 7, 3))}, r"npz: mps\[0, 0, 0\] is 0.0; give times over"),
        ({"mig": np.full((1, 7, 3), 53.0)}, r"npz: mig\[0, 0, 0\] is 53.0; give times over"),
        ({"mps": np.ones((2, 7, 3))}, r"npz: mps has 2 mixes and mig 1; give equally many"),
        ({"mig": np.array([[FORM_A, FORM_DUMMY, [0.1, 0.2, 1.0], *[FORM_A] * 4]])},
         "npz: mig holds jobs of several forms that no single run"),
        ({"split": np.array(["a", "b"])}, r"npz: split is \(2,\); give one text a mix"),
    ],
)  # fmt: skip
def test_miso_errors(tmp_path, arrays, message):
    with pytest.raises(PhysicsError, match=message):
        rows_of_miso(miso(tmp_path, **arrays))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("A,8,4,0.16", "A,8,4,-0.16", r"latency.csv:3: iter_mean_s is -0.16; give seconds above 0"),
        ("A,8,4,0.16", "A,8,8,0.16", r"latency.csv:3: mig_slice_g is 8; give 1 to 7"),
        ("A,8,7,0.1\n", "", r"latency.csv: A/8 has no row of mig_slice_g 7"),
    ],
)
def test_miso_slice_errors(tmp_path, old, new, message):
    with pytest.raises(PhysicsError, match=message):
        rows_of_miso(miso(tmp_path, MISO_SLICES.replace(old, new, 1)))


def test_miso_archive_that_is_none(tmp_path):
    path = miso(tmp_path) / "colocation" / "miso_mps_mixes.npz"
    np.save(tmp_path / "array.npy", np.ones(3))
    for content in (b"no archive", b"", (tmp_path / "array.npy").read_bytes()):
        path.write_bytes(content)
        with pytest.raises(PhysicsError, match="is no npz archive"):
            rows_of_miso(tmp_path)
    np.savez(path, mps=np.ones((1, 7, 3)))
    with pytest.raises(PhysicsError, match="no array 'mig'; the archive has mps"):
        rows_of_miso(tmp_path)
