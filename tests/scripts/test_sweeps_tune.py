"""`train.py tune=`: a search inside one run, its table and errors, and compare.py on it."""

import csv
import json
from collections.abc import Callable

import pytest

from marl.rllib.search_spec import SearchError, SearchSpec

TINY = (
    "topology=small_leaf_spine", "workload=venus_like", "agents.count=2", "workload.num_jobs=40",
    "workload.thin=1", "algo.batch_agent_steps=64", "algo.minibatch_agent_steps=32",
    "algo.epochs=1", "algo.iterations=4", "ray.num_envs_per_env_runner=2", "warm_start=none",
    "validation_windows=1", "validate_every=2", "encoder.hidden_dim=8", "encoder.gpu_dim=4",
    "policy.head_dim=8",
)  # fmt: skip
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
    ],
)
def test_a_space_that_cannot_be_searched_is_told(entry: dict, told: str):
    with pytest.raises(SearchError, match=told):
        spec(entry)


@pytest.mark.parametrize("key", ["samples", "max_concurrent", "grace_iterations"])
def test_a_number_that_is_too_small_is_told(key: str):
    with pytest.raises(SearchError, match=rf"tune\.{key} is 0"):
        spec({"key": "seed", "type": "grid", "values": [1]}, **{key: 0})


def test_a_key_that_nobody_reads_is_told_before_any_trial(start: Callable):
    wrong = "tune.space=[{key: algo.learning_rat, type: grid, values: [1e-4]}]"
    outcome = start("train", *TINY, "tune=grid", wrong)
    outcome.failed_with("algo.learning_rat", "did you mean algo.learning_rate?")
    assert not (outcome.folder / "trials").exists()


@pytest.mark.slow
@pytest.mark.ray
def test_a_search_writes_a_table_and_its_trials_compare(done: Callable):
    found = done("train", *TINY, "tune=grid", RATES, folder="search")
    rows = list(csv.DictReader((found.folder / "tune.csv").open()))
    assert sorted(float(row["algo.learning_rate"]) for row in rows) == [1e-4, 1e-2]
    judged = [float(row["best_jct_s"]) for row in rows]
    assert judged == sorted(judged)
    assert {row["iterations"] for row in rows} == {"4"}
    assert f"with algo.learning_rate={rows[0]['algo.learning_rate']}" in found.out
    for row in rows:
        folder = found.folder / "trials" / row["trial"]
        rate = float(row["algo.learning_rate"])
        assert (
            f"algo.learning_rate={rate:.6g}"
            in json.loads((folder / "record.json").read_text())["overrides"]
        )
        assert (folder / "policy" / "policy.pt").is_file()
    compared = done("compare", f"sweep={found.folder}", folder="table")
    names = {line.partition(",")[0] for line in
             (compared.folder / "comparison.csv").read_text().splitlines()[1:]}  # fmt: skip
    assert names == {f"marl [algo.learning_rate={rate}]" for rate in ("0.0001", "0.01")}
    again = done("train", *TINY, "tune=grid", RATES, "resume=auto", folder="search")
    assert list(csv.DictReader((found.folder / "tune.csv").open())) == rows  # all were finished
    assert "best validation JCT" in again.out
