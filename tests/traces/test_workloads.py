"""Workloads from their yaml files to job tables: whole traces, windows, stretches, common draws."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hydra import compose, initialize_config_dir
from hydra.errors import ConfigCompositionException
from hydra.utils import instantiate
from hypothesis import given
from hypothesis import strategies as st

from sim.errors import TraceError
from sim.jobs import COLUMNS as JOB_COLUMNS
from sim.traces.estimators import GroupMedian, NoEstimator, NoisyEstimator, OracleEstimator
from sim.traces.trace import dealt
from tests.traces.trace_samples import CONF, HEADER, catalogue, preset, refusal, setting
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
        (["max_duration_s=0"], r"workload\.max_duration_s is 0; it must be null, or above 0"),
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
    for key, words in (({"seed": -1}, "seed is -1"), ({"index": -2}, "window is -2; it must")):
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


TWO_PARTITIONS = setting(
    NoisyEstimator(sigma=1.0), partitions=2, skew=0.5, catalogue=catalogue("a/1", "b/1")
)


def written(folder: Path, jobs: int, more: str = "", cell=lambda _: "") -> str:
    """`path=FILE` of jobs j0, j1, ..., one a minute; `cell(k)` fills the column `more` of job k."""
    path = folder / f"jobs{jobs}.csv"
    rows = (f"j{k},{60 * k},1,{30 + k}{cell(k)}\n" for k in range(jobs))
    path.write_text(f"{HEADER}{more}\n" + "".join(rows))
    return f"path={path}"


def source(path: str, *options: str):
    return preset("csv", path, "num_jobs=100", "thin=4", "windows_from=disjoint", *options)


def window(made, index: int, *, part: str = "all", seed: int = 3, where=TWO_PARTITIONS):
    return made.window(part=part, index=index, setting=where, seed=seed)


def numbers(table) -> list[int]:
    return [int(name[1:]) for name in table.job_id]


def test_every_job_of_a_stretch_is_in_exactly_one_of_its_windows(tmp_path: Path) -> None:
    made = source(written(tmp_path, 1000))
    cut = made.stretches(part="all", setting=TWO_PARTITIONS)
    assert (cut.count, cut.windows, cut.num_jobs) == (2, 8, 100)
    found: dict[int, list[int]] = {0: [], 1: []}
    for index in range(8):
        table = window(made, index)
        assert len(table) == 100 and table.measured.sum() == 60
        found[cut.stretch(index)] += numbers(table)
    assert sorted(found[0]) + sorted(found[1]) == list(range(800))
    assert [cut.stretch(index) for index in range(4)] == [0, 1, 0, 1]  # first ones in other times


def test_windows_are_drawn_from_the_seed_and_nothing_else(tmp_path: Path) -> None:
    path = written(tmp_path, 1000)
    made = source(path)
    window(made, 7)
    first = numbers(window(made, 2))
    assert numbers(window(source(path), 2)) == first
    other = replace(TWO_PARTITIONS, partitions=8, estimator=OracleEstimator())
    assert numbers(window(made, 2, where=other)) == first
    assert numbers(window(made, 2, seed=4)) != first
    assert np.diff(first).max() > 4  # not every fourth: drawn at random
    again = window(made, 2)
    assert again.profile.tolist() != window(made, 4).profile.tolist()  # streams of their own


def test_parts_are_cut_for_themselves(tmp_path: Path) -> None:
    made = source(written(tmp_path, 4000), "num_jobs=50")
    assert set(numbers(window(made, 0, part="test"))) <= set(range(2599, 4000))
    assert made.stretches(part="test", setting=TWO_PARTITIONS).count == 7
    assert made.stretches(part="all", setting=TWO_PARTITIONS).count == 20


def test_a_file_below_one_stretch_makes_shorter_windows_and_says_so(tmp_path: Path) -> None:
    made = source(written(tmp_path, 1203), "num_jobs=2400")
    cut = made.stretches(part="all", setting=TWO_PARTITIONS)
    assert (cut.count, cut.windows, cut.num_jobs) == (1, 4, 300)
    jobs = sorted(job for index in range(4) for job in numbers(window(made, index)))
    assert jobs == list(range(1200))
    assert "has 1,203 jobs" in cut.shortened() and "windows of 300 jobs" in cut.shortened()


def test_a_file_too_short_for_shorter_windows_names_what_would_fit(tmp_path: Path) -> None:
    path = written(tmp_path, 1199)
    words = r"1,199 jobs; 4 .*299 each, .* than 300.*a longer trace, workload"
    with pytest.raises(TraceError, match=words) as error:
        window(source(path, "num_jobs=2400"), 0)
    with pytest.raises(TraceError, match="a longer trace, part=all"):
        window(source(path, "num_jobs=2400"), 0, part="test")
    assert "workload.thin=3 or" in str(error.value) and "num_jobs=299" in str(error.value)
    assert len(window(source(path, "num_jobs=2400", "thin=3"), 2)) == 399
    assert len(window(source(path, "num_jobs=299"), 3)) == 299


def test_what_no_window_holds_is_told_with_a_number_of_jobs_that_uses_it(tmp_path: Path) -> None:
    cut = source(written(tmp_path, 780)).stretches(part="all", setting=TWO_PARTITIONS)
    assert cut.count == 1 and cut.shortened() is None
    assert "last 380 of 780 jobs" in cut.left_over()
    assert "workload.num_jobs=97 makes 2 stretches" in cut.left_over()
    better = source(written(tmp_path, 780), "num_jobs=97")
    assert better.stretches(part="all", setting=TWO_PARTITIONS).left_over() is None
    assert better.stretches(part="all", setting=TWO_PARTITIONS).count == 2


def test_there_is_no_window_behind_the_last(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="has 8 windows, counted from 0, of 2 stretches"):
        window(source(written(tmp_path, 1000)), 8)


@pytest.mark.parametrize(("jobs", "how"), [(8000, "disjoint"), (8004, "random")])
def test_auto_is_random_where_more_than_20_stretches_fit(tmp_path: Path, jobs, how) -> None:
    path = written(tmp_path, jobs)
    table = window(source(path, "windows_from=auto"), 1)
    assert numbers(table) == numbers(window(source(path, f"windows_from={how}"), 1))
    cut = source(path, "windows_from=auto").stretches(part="all", setting=TWO_PARTITIONS)
    assert (cut is None) == (how == "random")


def test_predictors_know_the_other_windows_of_a_stretch(tmp_path: Path) -> None:
    path = written(tmp_path, 800, ",group", lambda _: ",g")
    made = source(path, "columns.group=group")
    known = replace(TWO_PARTITIONS, estimator=GroupMedian(prior_s=1e6))
    table = window(made, 1, where=known)  # of the second stretch
    first = int(table.job_id[0][1:])
    ended = [k for k in range(first) if 60 * k + 30 + k < 60 * first]
    assert table.estimate_s[0] == pytest.approx(np.median([30.0 + k for k in ended]))


def test_workflows_stay_whole(tmp_path: Path) -> None:
    path = written(tmp_path, 900, ",workflow", lambda k: f",w{k // 3}")
    made = source(path, "columns.workflow=workflow")
    assert made.stretches(part="all", setting=TWO_PARTITIONS).count == 2
    tables = [window(made, index) for index in range(8)]
    jobs = [job for table in tables for job in numbers(table)]
    assert len(jobs) == len(set(jobs)) >= 800
    for table in tables:
        assert 99 <= len(table) <= 102
        names = [job // 3 for job in numbers(table)]
        assert all(names.count(name) == 3 for name in names)
    path = written(tmp_path, 800, ",workflow", lambda k: f",w{k // 200}")
    with pytest.raises(TraceError, match=r"stretch 0 .* has 2 workflows for 4 windows"):
        window(source(path, "columns.workflow=workflow"), 0)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=60), st.integers(1, 8), st.integers(0, 9))
def test_units_are_dealt_evenly(sizes: list[int], hands: int, seed: int) -> None:
    hand = dealt(np.array(sizes), hands, np.random.default_rng(seed))
    held = np.bincount(hand, weights=sizes, minlength=hands)
    assert len(hand) == len(sizes) and held.sum() == sum(sizes)
    assert held.max() - held.min() <= max(sizes)


def test_generated_windows_share_no_job_as_they_are() -> None:
    for how in ("random", "auto"):
        table = window(preset("venus_like", f"windows_from={how}", "num_jobs=50"), 1, part="test")
        assert len(table) == 50
    with refusal("cuts a trace file"):
        preset("venus_like", "windows_from=disjoint")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["windows_from=disjunct"], "'disjunct'; did you mean 'disjoint'"),
        (["num_jobs=null", "thin=null"], "set workload.num_jobs"),
    ],
)
def test_wrong_options_are_named(tmp_path: Path, options: list[str], words: str) -> None:
    with refusal(words):
        source(written(tmp_path, 10), *options)
