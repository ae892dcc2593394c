"""A search for hyper-parameters inside one run: `train.py tune=grid`."""

import csv
import json
import math
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from marl.rllib.search import SearchError, SearchSpec
from tests.marl.trainings import TINY as SMALL
from tests.marl.trainings import Training, wait_for

TINY = (*SMALL, "algo.iterations=4", "ray.num_envs_per_env_runner=2", "warm_start=none",
        "validate_every=2")  # fmt: skip
RATES = "tune.space=[{key: algo.learning_rate, type: grid, values: [1e-4, 1e-2]}]"


def spec(*space: object, **given: object) -> SearchSpec:
    numbers = {"samples": 1, "max_concurrent": None, "grace_iterations": None}
    return SearchSpec(**numbers | {"space": list(space), "reduction_factor": 3} | given)


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({"key": "seed"}, r"tune\.space\[0\] .* must have a key and a type"),
        ({"key": "seed", "type": "gird", "values": [1]}, "one of grid, choice"),
        ({"key": "seed", "type": "grid", "low": 1}, "type grid takes key, type, values"),
        ({"key": "seed", "type": "grid", "values": 3}, r"values is 3; it must be a list"),
        ({"key": "x", "type": "uniform", "low": 2, "high": 1}, "low is 2, high 1"),
        ({"key": "x", "type": "loguniform", "low": 0, "high": 1}, "loguniform positive"),
        ({"key": "x", "type": "uniform", "low": 0, "high": math.inf}, "low is 0, high inf"),
        ({"key": "x", "type": ["grid"], "values": [1]}, "one of grid, choice"),
        ({"key": "x", "type": "randint", "low": 0.5, "high": 2}, "randint takes whole ones"),
    ],
)
def test_a_space_that_cannot_be_searched_is_told(entry: dict, told: str):
    with pytest.raises(SearchError, match=told):
        spec(entry)


@pytest.mark.parametrize("key", ["samples", "max_concurrent", "grace_iterations"])
def test_a_number_that_is_too_small_is_told(key: str):
    with pytest.raises(SearchError, match=rf"tune\.{key} is 0"):
        spec({"key": "seed", "type": "grid", "values": [1]}, **{key: 0})


def test_a_key_that_would_be_searched_twice_is_told():
    entry = {"key": "seed", "type": "grid", "values": [1]}
    with pytest.raises(SearchError, match="space has the key seed 2 times; keep one"):
        spec(entry, entry)


@pytest.mark.parametrize(
    ("words", "told"),
    [(("resume=earlier",), "goes on in its own folder: use resume=auto hydra.run.dir=earlier"),
     (("tune.space=[{key: algo, type: grid, values: [1]}]",), "key algo, a section; name a key"),
     (("tune.space=[{key: algo.epochs, type: choice, values: [2, 0]}]",),
      "tune.space has algo.epochs=0, but algo.epochs is 0; it must be a whole number from 1"),
     (("tune.space=[{key: algo.gamma, type: uniform, low: 0.9, high: 1.5}]",),
      "tune.space has algo.gamma=1.5, but algo.gamma is 1.4"),
     (("tune.space=[{key: rules.window, type: grid, values: [few]}]",),
      "tune.space has rules.window=few, but rules.window is 'few'; it must be a whole number")],
)  # fmt: skip
def test_a_search_that_cannot_go_on_or_sets_a_section_is_told(
    start: Callable, words: tuple[str, ...], told: str
):
    start("train", *TINY, "tune=grid", *words).failed_with(told)


def test_going_on_with_another_search_is_refused(start: Callable, tmp_path: Path):
    folder = tmp_path / "search"
    (folder / "tune").mkdir(parents=True)
    earlier = "tune: {_target_: marl.rllib.search.SearchSpec, space: [], samples: 2}"
    (folder / "config.yaml").write_text(earlier)
    outcome = start("train", *TINY, "tune=grid", RATES, "resume=auto", folder="search")
    outcome.failed_with(f"{folder} holds a search with another tune.space; repeat the words")


def test_a_value_that_suits_an_end_of_another_key_alone_may_be_searched(start: Callable):
    """A minibatch of 2^20 is above the batch that is configured; what is refused comes after it."""
    keys = {"minibatch": [64, 1 << 20], "batch": [64, 1 << 20]}
    space = [f"{{key: algo.{key}_agent_steps, type: grid, values: {values}}}"
             for key, values in keys.items()]  # fmt: skip
    space.append("{key: seed, type: randint, low: -1, high: 1}")
    start("train", *TINY, "tune=grid", f"tune.space=[{','.join(space)}]").failed_with(
        "tune.space has seed=-1, but seed is -1"
    )


@pytest.mark.slow
def test_a_key_that_nobody_reads_is_told_before_any_trial(start: Callable):
    wrong = "tune.space=[{key: algo.learning_rat, type: grid, values: [1e-4]}]"
    outcome = start("train", *TINY, "tune=grid", wrong)
    outcome.failed_with("algo.learning_rat", "did you mean algo.learning_rate?")
    assert not (outcome.folder / "trials").exists()


@pytest.mark.slow
@pytest.mark.ray
def test_a_search_writes_a_table_and_its_trials_compare(done: Callable, tmp_path: Path):
    old = tmp_path / "search" / "trials" / "old"  # of an earlier search
    for each in (old, tmp_path / "search" / "tune"):
        each.mkdir(parents=True)
    found = done("train", *TINY, "tune=grid", RATES, folder="search")
    rows = list(csv.DictReader((found.folder / "tune.csv").open()))
    assert sorted(float(row["algo.learning_rate"]) for row in rows) == [1e-4, 1e-2]
    judged = [float(row["best_jct_s"]) for row in rows]
    assert judged == sorted(judged)
    assert {row["iterations"] for row in rows} == {"4"}
    assert f"with algo.learning_rate={rows[0]['algo.learning_rate']}" in found.out
    assert not old.exists()
    for row in rows:
        folder = found.folder / "trials" / row["trial"]
        rate = float(row["algo.learning_rate"])
        record = json.loads((folder / "record.json").read_text())
        assert f"algo.learning_rate={rate:.6g}" in record["overrides"]
        assert (folder / "policy" / "policy.pt").is_file()
    compared = done("compare", f"sweep={found.folder}", folder="table")
    assert set(compared.table()["scheduler"]) == {
        f"marl [algo.learning_rate={rate}]" for rate in ("0.0001", "0.01")
    }
    again = done("train", *TINY, "tune=grid", RATES, "resume=auto", folder="search")
    assert list(csv.DictReader((found.folder / "tune.csv").open())) == rows  # all were finished
    assert "best validation JCT" in again.out


@pytest.mark.slow
@pytest.mark.ray
def test_a_trial_that_fails_is_named_and_the_status_is_1(start: Callable):
    found = start("train", *TINY, "tune=grid", RATES.replace("1e-2", "1e20"), folder="search")
    rows = list(csv.DictReader((found.folder / "tune.csv").open()))
    assert "best validation JCT" in found.out
    assert rows[1]["trial"].partition("_")[0] in (found.folder / "report.html").read_text()
    assert found.status == 1
    assert f"error: 1 of 2 trials failed: {rows[1]['trial']}; tune.csv says why" in found.err


RANDOM = ("tune=random", "tune.samples=4", "tune.grace_iterations=2", "tune.reduction_factor=2",
          "policy.prior_scale=0")  # fmt: skip


@pytest.mark.slow
@pytest.mark.ray
def test_an_interrupted_search_goes_on_where_it_was(done: Callable, tmp_path: Path):
    """Random points and early stopping; the trial that had ended is not run again."""
    folder, words = tmp_path / "search", (*TINY, "algo.iterations=8", *RANDOM)
    curves = folder / "trials"
    with Training("train.py", words).begun(folder) as program:
        wait_for(lambda: len(list(curves.glob("*/learning_curve.csv"))) >= 2, program, 120)
        os.killpg(program.pid, signal.SIGINT)  # as a terminal does
        status = program.wait(timeout=60)
    told = (tmp_path / "printed").read_text()
    assert status == 130, told
    assert "of 4 trials ended; resume=auto goes on" in told
    assert "interrupted" in told
    assert "Traceback" not in told
    first = {row["trial"]: row for row in csv.DictReader((folder / "tune.csv").open())}
    ended = {
        name for name, row in first.items() if (folder / "trials" / name / "metrics.json").is_file()
    }
    assert 1 <= len(ended) < 4
    done("train", *words, "resume=auto", folder="search")
    rows = {row["trial"]: row for row in csv.DictReader((folder / "tune.csv").open())}
    assert set(rows) == set(first)
    assert all(rows[name] == first[name] for name in ended)
    rates = {row["algo.learning_rate"] for row in rows.values()}
    assert len(rates) == 4
    assert all(3e-5 <= float(rate) <= 1e-3 for rate in rates)
    made = [int(row["iterations"]) for row in rows.values()]
    assert max(made) == 8
    assert all(row["best_jct_s"] and not row["error"] for row in rows.values())
