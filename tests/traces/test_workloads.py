"""Workloads from their yaml files to job tables: whole traces, windows, common random numbers."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hydra import compose, initialize_config_dir
from hydra.errors import ConfigCompositionException
from hydra.utils import instantiate

from sim.errors import TraceError
from sim.jobs import COLUMNS as JOB_COLUMNS
from sim.traces.estimators import NoEstimator, NoisyEstimator, OracleEstimator
from tests.traces.trace_samples import CONF, HEADER, catalogue, refusal, setting
from tests.traces.trace_samples import preset as workload

SETTING = setting(
    NoisyEstimator(sigma=1.0), skew=0.5,
    catalogue=catalogue("a/1", "b/1", "c/1", "d/1", gang_ok=[True, False, True, False]),
)  # fmt: skip
COLUMNS = ["job_id", *JOB_COLUMNS]


def as_bytes(table) -> dict[str, bytes]:
    """Every column of a job table as bytes."""
    return {name: "|".join(map(str, getattr(table, name))).encode() for name in COLUMNS}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """400 jobs, one a minute from second 5000; gang 1, 2, 4 in turn; job k runs k seconds."""
    path = tmp_path / "jobs.csv"
    rows = (f"j{k},{5000 + 60 * k},{(1, 2, 4)[k % 3]},{k}\n" for k in range(400))
    path.write_text(f"{HEADER}\n" + "".join(rows))
    return path


def test_the_whole_file_is_left_as_it_is(file: Path) -> None:
    table = workload("csv", f"path={file}").whole(setting=SETTING, seed=0)
    assert list(table.job_id) == [f"j{k}" for k in range(400)]
    assert table.submit_s.tolist() == [60.0 * k for k in range(400)]  # from the first job
    assert table.duration_s.tolist() == [float(k) for k in range(400)]
    assert table.num_gpus[:4].tolist() == [1, 2, 4, 1]
    assert table.measured.all()
    assert not table.home.any()


def test_options_from_the_command_line_reach_the_jobs(file: Path) -> None:
    table = workload(
        "csv", f"path={file}", "max_gang=2", "load=0.9", "min_duration_s=30",
        "max_duration_s=90", "window.start_s=11000", "window.end_s=17000",
        "measured_start_frac=0.1",
    ).whole(setting=SETTING, seed=0)  # fmt: skip
    assert len(table) == 100
    assert table.job_id[0] == "j100"
    assert table.num_gpus.max() == 2
    assert (table.duration_s.min(), table.duration_s.max()) == (90.0, 90.0)
    work_gpu_s = float((table.num_gpus * table.duration_s).sum())
    assert work_gpu_s / (64 * table.submit_s[-1]) == pytest.approx(0.9)
    assert table.measured.tolist() == [False] * 10 + [True] * 90


def test_a_gang_above_the_cluster_is_refused_dropped_or_capped(file: Path, caplog) -> None:
    small = replace(SETTING, gpus=2)
    with pytest.raises(TraceError, match=r"job j2: a gang of 4 .* 2 GPUs .*workload\.max_gang=2"):
        workload("csv", f"path={file}").whole(setting=small, seed=0)
    table = workload("csv", f"path={file}", "drop_too_large=true").whole(setting=small, seed=0)
    assert len(table) == 267
    assert "133 jobs above 2 GPUs dropped" in caplog.text


def test_windows_measure_the_middle_and_lie_in_their_part(file: Path) -> None:
    source = workload("csv", f"path={file}", "num_jobs=40", "thin=2")
    rows = {}
    for part in ("train", "validation", "test"):
        tables = [source.window(part=part, index=i, setting=SETTING, seed=1) for i in range(8)]
        assert all(table.measured.tolist() == [False] * 10 + [True] * 24 + [False] * 6
                   for table in tables)  # fmt: skip
        assert len({table.duration_s.tobytes() for table in tables}) == 8
        rows[part] = {name for table in tables for name in table.job_id}
    assert not rows["train"] & rows["validation"]
    assert not (rows["train"] | rows["validation"]) & rows["test"]


def test_a_window_is_the_whole_part_or_has_num_jobs_whatever_is_dropped(file: Path) -> None:
    call = {"index": 0, "seed": 0, "setting": replace(SETTING, gpus=2)}
    source = workload("csv", f"path={file}", "max_gang=2")
    assert len(source.window(part="validation", **call)) == 60
    source = workload("csv", f"path={file}", "drop_too_large=true", "num_jobs=100")
    assert len(source.window(part="train", **call)) == 100


@pytest.mark.parametrize("name", ["csv", "venus_like"])
def test_a_window_is_fully_determined_by_part_index_and_seed(name: str, file: Path) -> None:
    changes = ["num_jobs=50", "thin=2", *([f"path={file}"] if name == "csv" else [])]
    four = replace(SETTING, partitions=4)

    def window(source, part: str, index: int, seed: int) -> dict[str, bytes]:
        return as_bytes(source.window(part=part, index=index, setting=four, seed=seed))

    first = window(workload(name, *changes), "test", 2, 9)
    source = workload(name, *changes)
    source.whole(setting=four, seed=3)
    window(source, "train", 0, 0)
    assert window(source, "test", 2, 9) == first
    for other in (("train", 2, 9), ("test", 3, 9), ("test", 2, 10)):
        changed = window(source, *other)
        for column in ("submit_s", "profile", "home", "estimate_s"):
            assert changed[column] != first[column]


@pytest.mark.parametrize("name", ["csv", "philly_like"])
def test_changing_estimator_or_partitions_changes_nothing_else(name: str, file: Path) -> None:
    changes = ["num_jobs=60", *([f"path={file}"] if name == "csv" else [])]
    source = workload(name, *changes)

    def table(**changed) -> dict[str, bytes]:
        where = replace(SETTING, **changed)
        return as_bytes(source.window(part="train", index=1, setting=where, seed=5))

    base = table(partitions=4)
    for estimator in (NoEstimator(), OracleEstimator(), NoisyEstimator(sigma=0.1)):
        other = table(partitions=4, estimator=estimator)
        assert {key for key in base if base[key] != other[key]} == {"estimate_s"}
    assert {key for key, value in table(partitions=8).items() if base[key] != value} == {"home"}


def test_load_does_not_move_the_draws_and_estimates_are_of_the_capped_durations(file) -> None:
    plain = workload("csv", f"path={file}").whole(setting=SETTING, seed=0)
    loaded = workload("csv", f"path={file}", "load=0.5").whole(setting=SETTING, seed=0)
    assert plain.profile.tobytes() == loaded.profile.tobytes()
    assert plain.estimate_s.tobytes() == loaded.estimate_s.tobytes()
    known = replace(SETTING, estimator=OracleEstimator())
    table = workload("csv", f"path={file}", "max_duration_s=20").whole(setting=known, seed=0)
    assert table.estimate_s.tobytes() == table.duration_s.tobytes()
    assert table.estimate_s.max() == 20.0


def test_gangs_only_get_profiles_that_may_have_them() -> None:
    table = workload("venus_like").whole(setting=SETTING, seed=0)
    single = table.num_gpus == 1
    assert set(table.profile[~single].tolist()) == {0, 2}
    counts = np.bincount(table.profile[single], minlength=4) / single.sum()
    assert counts == pytest.approx([0.25] * 4, abs=0.05)


def test_named_profiles_and_their_errors(file: Path) -> None:
    table = workload("csv", f"path={file}", "profiles=[b/1,c/1]").whole(setting=SETTING, seed=0)
    assert set(table.profile[table.num_gpus > 1].tolist()) == {2}
    assert set(table.profile[table.num_gpus == 1].tolist()) == {1, 2}
    for names, words in (
        ("[b/1]", "job j1: no profile may be given to multi-GPU jobs"),
        ("[a/2]", "names 'a/2', which the catalogue lacks; did you mean 'a/1'"),
        ("[]", r"workload\.profiles is empty"),
    ):
        with pytest.raises(TraceError, match=words):
            workload("csv", f"path={file}", f"profiles={names}").whole(setting=SETTING, seed=0)


def test_home_partitions_follow_the_skew() -> None:
    four = replace(SETTING, partitions=4, skew=0.5)
    table = workload("venus_like", "num_jobs=20000", "thin=1").whole(setting=four, seed=0)
    shares = np.bincount(table.home) / len(table)
    weights = np.arange(1, 5) ** -0.5
    assert shares == pytest.approx(weights / weights.sum(), abs=0.015)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (["thin=8"], r"workload\.thin is 8 but num_jobs is null"),
        (["num_jobs=0"], r"workload\.num_jobs is 0; it must be null or a whole number"),
        (["max_gang=2.5"], r"workload\.max_gang is 2\.5"),
        (["load=high"], r"workload\.load is 'high'"),
        (["load=0"], r"workload\.load is 0; .*above 0"),
        (["min_duration_s=9", "max_duration_s=5"], "the first must not be larger"),
        (["max_duration_s=-1"], r"workload\.max_duration_s is -1"),
        (["measured_start_frac=0.9"], "measured from share 0.9 to 0.85"),
        (["window_measured_frac=[0.5]"], "needs two shares"),
        (["+window.strat_s=3"], r"window\.strat_s is not a key; did you mean 'start_s'"),
    ],
)
def test_wrong_options_are_named_before_the_file_is_read(changes: list[str], words: str) -> None:
    with refusal(words):
        workload("csv", "path=none.csv", *changes)


def test_a_mistyped_option_and_a_generator_without_a_number_of_jobs_are_refused() -> None:
    with pytest.raises(ConfigCompositionException):
        workload("csv", "path=none.csv", "max_gangs=3")
    with refusal(r"workload\.num_jobs is null"):
        workload("venus_like", "num_jobs=null")


def test_unknown_parts_negative_seeds_and_short_parts_are_named(file: Path) -> None:
    with pytest.raises(TraceError, match="part 'whole' is unknown"):
        workload("venus_like").window(part="whole", index=0, setting=SETTING, seed=0)
    source = workload("csv", f"path={file}", "num_jobs=100")
    for key, words in (
        ({"part": "tests"}, "part 'tests' is unknown; did you mean 'test'"),
        ({"seed": -1}, "seed is -1"),
        ({"index": -2}, "window is -2; it must"),
        ({"part": "validation"}, "needs 100 jobs, this part has 60"),
    ):
        call = {"part": "train", "index": 0, "seed": 0, **key}
        with pytest.raises(TraceError, match=words):
            source.window(setting=SETTING, **call)


@pytest.mark.parametrize(
    ("change", "words"),
    [({"gpus": 0}, "0 GPUs"), ({"partitions": 0}, "count is 0"), ({"skew": -1.0}, "skew is -1")],
)
def test_an_impossible_setting(change, words: str) -> None:
    with pytest.raises(TraceError, match=words):
        replace(SETTING, **change)


@pytest.mark.parametrize("name", ["none", "limit", "oracle", "noisy"])
def test_every_estimator_has_a_yaml(name: str) -> None:
    with initialize_config_dir(str(CONF), version_base=None):
        config = compose(overrides=[f"+estimator={name}"])
    estimator = instantiate(config.estimator, _convert_="all")
    assert estimator.information == name.replace("noisy", "predicted")
