"""Windows of a short file: disjoint, complete, equal for all, and what is told of them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.errors import TraceError
from sim.traces.estimators import GroupMedian, NoisyEstimator, OracleEstimator
from sim.traces.trace import dealt
from tests.traces.trace_samples import HEADER, catalogue, preset, refusal, setting

SETTING = setting(
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


def window(made, index: int, *, part: str = "all", seed: int = 3, where=SETTING):
    return made.window(part=part, index=index, setting=where, seed=seed)


def numbers(table) -> list[int]:
    return [int(name[1:]) for name in table.job_id]


def test_every_job_of_a_stretch_is_in_exactly_one_of_its_windows(tmp_path: Path) -> None:
    made = source(written(tmp_path, 1000))
    cut = made.stretches(part="all", setting=SETTING)
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
    other = replace(SETTING, partitions=8, estimator=OracleEstimator())
    assert numbers(window(made, 2, where=other)) == first
    assert numbers(window(made, 2, seed=4)) != first
    assert np.diff(first).max() > 4  # not every fourth: drawn at random
    again = window(made, 2)
    assert again.profile.tolist() != window(made, 4).profile.tolist()  # streams of their own


def test_parts_are_cut_for_themselves(tmp_path: Path) -> None:
    made = source(written(tmp_path, 4000), "num_jobs=50")
    assert set(numbers(window(made, 0, part="test"))) <= set(range(2599, 4000))
    assert made.stretches(part="test", setting=SETTING).count == 7
    assert made.stretches(part="all", setting=SETTING).count == 20


def test_a_file_below_one_stretch_makes_shorter_windows_and_says_so(tmp_path: Path) -> None:
    made = source(written(tmp_path, 1203), "num_jobs=2400")
    cut = made.stretches(part="all", setting=SETTING)
    assert (cut.count, cut.windows, cut.num_jobs) == (1, 4, 300)
    jobs = sorted(job for index in range(4) for job in numbers(window(made, index)))
    assert jobs == list(range(1200))
    assert "has 1203 jobs" in cut.shortened() and "4 windows have 300 jobs" in cut.shortened()


def test_a_file_too_short_for_shorter_windows_names_what_would_fit(tmp_path: Path) -> None:
    path = written(tmp_path, 1199)
    words = r"1199 jobs; 4 .*299 each, .* than 300.*a longer trace, workload"
    with pytest.raises(TraceError, match=words) as error:
        window(source(path, "num_jobs=2400"), 0)
    with pytest.raises(TraceError, match="a longer trace, part=all"):
        window(source(path, "num_jobs=2400"), 0, part="test")
    assert "workload.thin=3 or" in str(error.value) and "num_jobs=299" in str(error.value)
    assert len(window(source(path, "num_jobs=2400", "thin=3"), 2)) == 399
    assert len(window(source(path, "num_jobs=299"), 3)) == 299


def test_what_no_window_holds_is_told_with_a_number_of_jobs_that_uses_it(tmp_path: Path) -> None:
    cut = source(written(tmp_path, 780)).stretches(part="all", setting=SETTING)
    assert cut.count == 1 and cut.shortened() is None
    assert "last 380 of 780 jobs" in cut.left_over()
    assert "workload.num_jobs=97 makes 2 stretches" in cut.left_over()
    better = source(written(tmp_path, 780), "num_jobs=97")
    assert better.stretches(part="all", setting=SETTING).left_over() is None
    assert better.stretches(part="all", setting=SETTING).count == 2


def test_there_is_no_window_behind_the_last(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"window 8 of part 'all' is not there: 2 stretches of 4"):
        window(source(written(tmp_path, 1000)), 8)


@pytest.mark.parametrize(("jobs", "how"), [(8000, "disjoint"), (8004, "random")])
def test_auto_is_random_where_more_than_20_stretches_fit(tmp_path: Path, jobs, how) -> None:
    path = written(tmp_path, jobs)
    table = window(source(path, "windows_from=auto"), 1)
    assert numbers(table) == numbers(window(source(path, f"windows_from={how}"), 1))
    cut = source(path, "windows_from=auto").stretches(part="all", setting=SETTING)
    assert (cut is None) == (how == "random")


def test_predictors_know_the_other_windows_of_a_stretch(tmp_path: Path) -> None:
    path = written(tmp_path, 800, ",group", lambda _: ",g")
    made = source(path, "columns.group=group")
    known = replace(SETTING, estimator=GroupMedian(prior_s=1e6))
    table = window(made, 1, where=known)  # of the second stretch
    first = int(table.job_id[0][1:])
    ended = [k for k in range(first) if 60 * k + 30 + k < 60 * first]
    assert table.estimate_s[0] == pytest.approx(np.median([30.0 + k for k in ended]))


def test_workflows_stay_whole(tmp_path: Path) -> None:
    path = written(tmp_path, 900, ",workflow", lambda k: f",w{k // 3}")
    made = source(path, "columns.workflow=workflow")
    assert made.stretches(part="all", setting=SETTING).count == 2
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
