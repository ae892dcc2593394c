"""What predictors know: all that finished before, whether the window shows it or not."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from interference.duration_forest import RandomForestEstimator
from sim.errors import TraceError
from sim.protocols import HistoryEstimator
from sim.traces.estimators import GroupMedian, LastOfGroup, NoisyEstimator
from sim.traces.prepare import rows_of
from sim.traces.streams import window_streams
from sim.traces.trace import Trace, take
from tests.traces.trace_samples import HEADER, preset, setting

LAST, MEDIAN = LastOfGroup(prior_s=600.0), GroupMedian(prior_s=600.0)
FOREST = RandomForestEstimator(
    trees=5, min_leaf=3, features_frac=0.5, refit_jobs=20, first_jobs=20, train_jobs=500,
    smearing=False, prior_s=600.0,
)  # fmt: skip
LEARNERS = {"last": LAST, "median": MEDIAN, "forest": FOREST}


def workload(name: str, *overrides: str):
    """A workload as a user names it on the command line; files have groups and owners."""
    if name == "csv":
        overrides = ("columns.group=group", "columns.vc=vc", *overrides)
    return preset(name, *overrides)


def csv_of(path: Path, rows) -> str:
    """`path=FILE` of a file with these rows of submission, gang, duration, group, vc."""
    lines = (",".join(map(str, (f"j{k}", *row))) + "\n" for k, row in enumerate(rows))
    path.write_text(f"{HEADER},group,vc\n" + "".join(lines))
    return f"path={path}"


def estimates(source, estimator) -> list[float]:
    return source.whole(setting=setting(estimator), seed=0).estimate_s.tolist()


# Five runs of one group; the window is what is submitted from second 20 on (|).
#
#         0    5   10       20         46   50   55   60
# j0      AAAAAAAAAA        |                                   0 to 10:  10 s
# j1           BBBBBBBBBBBBB|BBBBBBBBBBBBBBBBBBBBB              5 to 55:  50 s
# j2                        |CCCCCCCCCC                        20 to 46:  26 s, knows A
# j3                        |               D                  50 to 51:   1 s, knows A, C
# j4                        |                         E        60 to 63:   3 s, knows A, C, D, B
RUNS = [(0, 1, 10), (5, 1, 50), (20, 1, 26), (50, 1, 1), (60, 1, 3)]


@pytest.fixture
def runs(tmp_path: Path) -> str:
    return csv_of(tmp_path / "runs.csv", [(*run, "g", "v") for run in RUNS])


def test_a_window_knows_what_finished_before_it(runs: str):
    later = workload("csv", runs, "window.start_s=20")
    assert estimates(later, LAST) == [10, 26, 50]
    assert estimates(later, MEDIAN) == [10, 18, 18]  # of 10; 10, 26; 1, 10, 26, 50
    assert estimates(workload("csv", runs), LAST) == [600, 600, 10, 26, 50]


@pytest.mark.parametrize(
    ("load", "known"),
    [
        (0.001, [50, 26, 1]),  # stretched: every run is over when the next job comes
        (1000, [600, 600, 600]),  # drawn together: all come before the first one has ended
        ("as it is", [10, 26, 50]),
        # A, C, D, E come at 0, 10, 25, 30: C when A ends, which is too late; D knows A, not C,
        # which ends at 36; E knows D too, which ends at 26.
        ("twice", [600, 10, 1]),
    ],
)
def test_jobs_drawn_together_know_less(load, known: list[float], runs: str):
    of_file = 30 / (setting(LAST).gpus * 40)  # the window: 26 s, 1 s and 3 s of one GPU, in 40 s
    value = {"as it is": of_file, "twice": 2 * of_file}.get(load, load)
    assert estimates(workload("csv", runs, "window.start_s=20", f"load={value}"), LAST) == known


def test_caps_hold_for_estimates_but_not_for_the_past(runs: str):
    # Had B been cut at 30 s, D would know it, and the median of 10, 26, 30 would be 26.
    capped = workload("csv", runs, "window.start_s=20", "max_duration_s=30", "min_duration_s=12")
    assert estimates(capped, LAST) == [12, 26, 30]
    assert estimates(capped, MEDIAN) == [12, 18, 18]


def test_jobs_too_large_for_the_cluster_are_known_those_of_excluded_clusters_not(tmp_path: Path):
    rows = [(0, 99, 10, "g", "v"), (5, 1, 7, "g", "w"), (20, 1, 1, "g", "v")]
    path = csv_of(tmp_path / "mixed.csv", rows)
    assert estimates(workload("csv", path, "drop_too_large=true"), MEDIAN) == [600, 8.5]
    both = workload("csv", path, "max_gang=4", "exclude_vcs=[w]")
    assert estimates(both, MEDIAN) == [600, 10]
    assert estimates(workload("csv", path, "max_gang=4"), MEDIAN) == [600, 600, 8.5]


@pytest.mark.parametrize("name", LEARNERS)
def test_who_was_given_up_before_it_began_says_nothing_of_durations(name: str, tmp_path: Path):
    """Its 0 s in the file are no run; a run of 0 s is one."""
    lines = [f"a{k},{k},1,100,g," for k in range(40)]
    lines += [f"b{k},{200 + k},1,0,g,50" for k in range(100)]  # given up
    path = tmp_path / "given_up.csv"
    found = {}
    for kind, rows in {"none": lines[:40], "some": lines}.items():
        path.write_text("\n".join([f"{HEADER},group,withdraw_s", *rows, "z,400,1,7,g,", ""]))
        columns = ("columns.group=group", "columns.withdraw_s=withdraw_s")
        found[kind] = estimates(preset("csv", f"path={path}", *columns), LEARNERS[name])[-1]
    assert found["some"] == pytest.approx(found["none"], rel=0.02)
    ran = path.read_text().replace("g,50\n", "g,\n")
    path.write_text(ran)
    assert estimates(preset("csv", f"path={path}", *columns), LAST)[-1] == 0


def many(seed: int, jobs: int = 600) -> list[tuple]:
    """Rows of runs of 40 groups, each with its own usual duration."""
    rng = np.random.default_rng(seed)
    group = rng.integers(40, size=jobs)
    usual_s = np.exp(np.random.default_rng(9).normal(5.0, 1.5, 40))
    duration_s = usual_s[group] * np.exp(0.05 * rng.standard_normal(jobs))
    submit_s = np.cumsum(rng.exponential(30.0, jobs))
    gang = rng.choice([1, 2, 4], jobs)
    return list(zip(submit_s, gang, duration_s, (f"g{g}" for g in group), "v" * jobs, strict=True))


@pytest.mark.parametrize("name", ["last", "median"])
def test_thinning_takes_nothing_from_what_is_known(name: str, tmp_path: Path):
    """A job of a thinned window is predicted as it is in the whole file."""
    path = csv_of(tmp_path / "many.csv", many(1))
    whole = workload("csv", path).whole(setting=setting(LEARNERS[name]), seed=0)
    as_whole = dict(zip(whole.job_id, whole.estimate_s.tolist(), strict=True))
    windows = workload("csv", path, "num_jobs=30", "thin=4")
    for part in ("train", "test"):
        table = windows.window(part=part, index=0, setting=setting(LEARNERS[name]), seed=3)
        assert table.estimate_s.tolist() == [as_whole[job] for job in table.job_id]


@pytest.mark.parametrize("name", LEARNERS)
def test_what_happens_later_changes_no_estimate_across_the_border_either(name: str, tmp_path: Path):
    """Everything unfinished at a submission changes: durations, and who comes afterwards."""
    changes = ("num_jobs=50", "thin=3")
    rows = many(2)
    source = workload("csv", csv_of(tmp_path / "a.csv", rows), *changes)

    def window(from_source) -> tuple[list[str], list[float]]:
        table = from_source.window(part="test", index=1, setting=setting(LEARNERS[name]), seed=5)
        return table.job_id.tolist(), table.estimate_s.tolist()

    names, estimate_s = window(source)
    for cut in (0, 25):
        now_s = rows[int(names[cut][1:])][0]
        other = [
            (at, gang if at <= now_s else 8, seconds if at + seconds < now_s else 7 * seconds + 1e4,
             group if at <= now_s else "new", vc)
            for at, gang, seconds, group, vc in rows
        ]  # fmt: skip
        changed = window(workload("csv", csv_of(tmp_path / f"{cut}.csv", other), *changes))
        assert changed[0] == names
        assert changed[1][: cut + 1] == estimate_s[: cut + 1]
        assert changed[1] != estimate_s
    assert window(source) == (names, estimate_s)


def test_what_ran_before_the_border_does_change_estimates(tmp_path: Path):
    rows = many(2)
    tables = []
    for factor in (1.0, 2.0):
        earlier = [(at, gang, s * (factor if at < 5000 else 1.0), *rest)
                   for at, gang, s, *rest in rows]  # fmt: skip
        path = csv_of(tmp_path / f"{factor}.csv", earlier)
        source = workload("csv", path, "num_jobs=50", "thin=3")
        tables.append(source.window(part="test", index=1, setting=setting(MEDIAN), seed=5))
    assert (tables[0].estimate_s < tables[1].estimate_s).mean() > 0.5


class Blind:
    """An estimator that is given the window alone."""

    information = "predicted"

    def __init__(self, estimator) -> None:
        self._estimator = estimator

    def estimate(self, trace: Trace, rng: np.random.Generator):
        return self._estimator.estimate(trace, rng)


@pytest.mark.parametrize("name", LEARNERS)
def test_first_jobs_of_recurring_windows_are_predicted_better_with_history(name: str):
    source = workload(
        "pai_like", "num_jobs=200", "max_gang=32", "load=null", "spec.recurrence.again_prob=0.7",
        "spec.recurrence.gang_again_prob=0.7", "spec.recurrence.memory_jobs=200",
    )  # fmt: skip

    def first_error(estimator) -> float:
        """Median factor off, of the first 60 jobs of three windows."""
        call = {"part": "test", "setting": setting(estimator), "seed": 0}
        tables = [source.window(index=index, **call) for index in range(3)]
        off = [np.abs(np.log(t.estimate_s / t.duration_s))[:60] for t in tables]
        return float(np.exp(np.median(np.concatenate(off))))

    assert first_error(LEARNERS[name]) < 2.0
    assert first_error(Blind(LEARNERS[name])) > 3.0


def test_equal_seeds_give_equal_forests_and_other_seeds_others():
    source = workload("pai_like", "num_jobs=200", "max_gang=32")
    call = {"part": "train", "index": 0, "setting": setting(FOREST)}
    found = [source.window(seed=seed, **call).estimate_s.tobytes() for seed in (4, 4, 5)]
    assert found[0] == found[1] != found[2]


def test_estimators_without_history_are_asked_as_ever():
    """Noise is one draw a job of the window's own stream, around the capped duration."""
    noisy = NoisyEstimator(sigma=0.5)
    assert not isinstance(noisy, HistoryEstimator)
    assert all(isinstance(each, HistoryEstimator) for each in LEARNERS.values())
    table = workload("venus_like", "num_jobs=100", "max_duration_s=500").window(
        part="validation", index=2, setting=setting(noisy), seed=8
    )
    rng = window_streams(seed=8, part="validation", index=2).estimates
    noise = np.exp(0.5 * rng.standard_normal(100))
    assert table.estimate_s.tolist() == (table.duration_s * noise).tolist()
    assert table.estimate_s.max() > 500.0


def test_a_window_that_is_not_of_its_history_is_refused(tmp_path: Path):
    trace = workload("csv", csv_of(tmp_path / "x.csv", many(3, 10)))._read()
    assert rows_of(take(trace, np.array([2, 5])), trace).tolist() == [2, 5]
    with pytest.raises(TraceError, match="job j9: not a job of trace"):
        rows_of(trace, take(trace, np.arange(9)))
    twice = replace(trace, job_id=np.array(["same"] * 10, dtype=object))
    with pytest.raises(TraceError, match="names must be unique"):
        rows_of(trace, twice)
