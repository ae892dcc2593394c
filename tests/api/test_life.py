"""Jobs with parents, ends and GPU types of their own, as `gpuyard` plays and measures them."""

import logging
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import gpuyard
from gpuyard.evaluation.experiment import _warn
from gpuyard.launch.errors import ConfigError
from sim.errors import GpuYardError
from sim.traces.trace import Trace

OFF = ["interference=none", "network=none"]


def jobs_of(**columns: list[object]) -> pd.DataFrame:
    rows = len(next(iter(columns.values())))
    told = {
        "job_id": [f"j{k}" for k in range(rows)], "submit_s": [10.0 * k for k in range(rows)],
        "num_gpus": [64] * rows, "duration_s": [100.0] * rows,
    }  # fmt: skip
    return pd.DataFrame(told | columns)


def test_waiting_for_a_parent_is_no_waiting_for_gpus():
    """64 GPUs: j1 waits for j0's end at 100, then for j2, which came first, till 200."""
    jobs = jobs_of(parents=["", "j0", ""], num_gpus=[8, 64, 64], duration_s=[100.0, 100.0, 150.0])
    run = gpuyard.simulate(jobs, "small_leaf_spine", "fifo", overrides=OFF)
    rows = run.jobs.set_index("job_id")
    assert rows["jct_s"].tolist() == [100.0, 190.0, 330.0]
    assert rows["queue_delay_s"].tolist() == [0.0, 0.0, 180.0]
    assert run.metrics["slowdown_mean"] == pytest.approx((1.0 + 1.0 + 330 / 150) / 3)


def test_who_is_not_played_is_told():
    jobs = jobs_of(parents=["", "j0", ""], outcome=["failed", "completed", "completed"])
    run = gpuyard.simulate(jobs, "small_leaf_spine", "fifo", overrides=OFF)
    assert "jobs_withdrawn" in str(run)
    assert "jobs_withdrawn" not in str(
        gpuyard.simulate(jobs.drop(columns="outcome"), "small_leaf_spine", "fifo", overrides=OFF)
    )


def test_dependencies_on_jobs_left_out_are_counted(caplog: pytest.LogCaptureFixture):
    jobs = jobs_of(parents=["", "j0", "j0;j1"], num_gpus=[999, 1, 1])
    with caplog.at_level(logging.WARNING):
        run = gpuyard.simulate(
            jobs, "small_leaf_spine", "fifo", overrides=[*OFF, "workload.drop_too_large=true"]
        )
    assert "2 dependencies are on jobs left out, for which nobody waits" in caplog.text
    assert run.jobs["jct_s"].tolist() == [100.0, 190.0]


def test_a_choice_that_a_scheduler_does_not_read_is_told(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING):
        gpuyard.simulate(
            jobs_of(num_gpus=[1]), "small_leaf_spine", "themis sharing=always", overrides=OFF
        )
    assert "sharing=always is not read: the scheduler, Themis, has a rule" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        gpuyard.simulate(jobs_of(num_gpus=[1]), "small_leaf_spine", "themis sharing=off")
    assert "is not read" not in caplog.text


def test_training_plays_the_jobs_of_the_results():
    """On P100s, where V100 is the reference."""
    words = ["topology.gpu_types=[v100,p100]", "workload.num_jobs=40", "workload.thin=1", *OFF]
    jobs = jobs_of(num_gpus=[1] * 120, gpu_types=["p100"] * 120)
    work_s = []
    for reference in ("asked", "null"):
        env = gpuyard.make_env(
            jobs, "small_leaf_spine", agents=1, overrides=[*words, f"reference_gpu={reference}"]
        )
        env.reset(seed=0)
        work_s.append(env.turns.simulator.state.job["work_s"])
    assert (work_s[1] == 100.0).all() and (work_s[0] != 100.0).all()


MIXED = ["topology.gpu_types=[v100,p100]", *OFF]


@pytest.mark.parametrize(("reference", "slow"), [("asked", 1.0), ("null", 1.05), ("p100", 1.0)])
def test_durations_may_be_of_the_type_that_a_job_asks_for(
    caplog: pytest.LogCaptureFixture, reference: str, slow: float
):
    jobs = jobs_of(num_gpus=[1, 1, 1], gpu_types=["v100", "p100", "p100"])
    _warn.cache_clear()  # it is told once a process
    with caplog.at_level(logging.WARNING):
        run = gpuyard.simulate(
            jobs, "small_leaf_spine", "fifo", overrides=[*MIXED, f"reference_gpu={reference}"]
        )
    run_s = run.jobs["run_s"].to_numpy()
    if reference == "p100":
        assert run_s[0] < 100.0
    else:
        assert run_s[0] == pytest.approx(100.0)
    if slow == 1.0:
        assert run_s[1:].tolist() == pytest.approx([100.0, 100.0])
    else:
        assert (run_s[1:] > 105.0).all()  # shipped profiles: a P100 is the slower one
    told = "jobs ask for another GPU type than v100"
    assert (told in caplog.text) == (reference == "null")


def test_windows_that_overlap_are_told():
    jobs = jobs_of(num_gpus=[1] * 400)
    words = ["workload.num_jobs=300", "workload.thin=1", *OFF]
    found = gpuyard.evaluate(
        jobs, "small_leaf_spine", ["fifo"], part="all", windows=3, overrides=words
    )
    assert "3 windows of 300 in a row of 400 jobs overlap" in str(found.assumed)
    told = {}
    for windows, size in ((1, 40), (4, 100), (2, 40)):
        words = [f"workload.num_jobs={size}", "workload.thin=1", *OFF]
        found = gpuyard.evaluate(
            jobs, "small_leaf_spine", ["fifo"], part="all", windows=windows, overrides=words
        )
        told[windows] = "may overlap" in str(found.assumed)
    assert told == {1: False, 4: True, 2: False}  # two windows of 40 meet once in five times


def test_a_part_that_is_no_test_of_every_policy_is_told():
    jobs, told = jobs_of(num_gpus=[1] * 100), {}
    words = ["workload.num_jobs=10", "workload.thin=1", *OFF]
    for part in ("train", "validation", "test"):
        found = gpuyard.evaluate(
            jobs, "small_leaf_spine", ["fifo"], part=part, windows=1, overrides=words
        )
        told[part] = [each for each in found.assumed if each.startswith("windows of")]
    assert told["train"] == ["windows of part 'train', on which policies are learned"]
    assert told["validation"] == ["windows of part 'validation', on which policies are chosen"]
    assert told["test"] == []


def test_windows_that_are_one_are_told():
    words = ["workload.num_jobs=null", "workload.thin=null"]
    jobs = jobs_of(num_gpus=[8] * 4)
    found = gpuyard.evaluate(jobs, "small_leaf_spine", ["sjf"], windows=2, overrides=[*OFF, *words])
    assert (
        "every window holds the same 2 jobs: only what is drawn for them differs" in found.assumed
    )
    assert "every window holds the same 2 jobs" in repr(found)
    assert "every window holds the same 2 jobs" in found._repr_html_()
    assert found.table[["jct_mean_s_low", "jct_mean_s_high"]].isna().all(axis=None)
    once = gpuyard.evaluate(
        jobs, "small_leaf_spine", ["sjf"], windows=None, overrides=[*OFF, *words]
    )
    assert not any("every window" in each for each in once.assumed)


def test_what_a_restart_costs_is_told_of_who_preempts():
    jobs, cluster, told = jobs_of(num_gpus=[1] * 4), "small_leaf_spine", "restarts cost 60 s"
    assert told in gpuyard.simulate(jobs, cluster, "las", overrides=OFF).assumed
    assert told not in gpuyard.simulate(jobs, cluster, "sjf", overrides=OFF).assumed
    found = gpuyard.evaluate(jobs, cluster, ["sjf", "las"], windows=None, agents=2, overrides=OFF)
    assert told in found.assumed
    free = gpuyard.simulate(jobs, cluster, "las", overrides=[*OFF, "restart_s=0"])
    assert "restarts" not in str(free.assumed)


@pytest.mark.parametrize("word", ["+belief=none", "estimator=oracle", "+seed=3", "+network=none"])
def test_words_behind_a_name_are_of_the_composition_or_refused(word: str):
    told = rf"does not read '{word.strip('+').partition('=')[0]}', only scheduler, placer"
    with pytest.raises(ConfigError, match=told):
        gpuyard.simulate("venus_like", "small_leaf_spine", f"sjf {word}")


def test_additions_that_nobody_reads_and_arguments_said_twice_are_refused():
    with pytest.raises(ConfigError, match="nothing reads the key 'foo'"):
        gpuyard.simulate("venus_like", "small_leaf_spine", "sjf", overrides=["+foo=3"])
    with pytest.raises(ConfigError, match=r"agents\.count=3.*use the argument agents"):
        gpuyard.make_env("venus_like", "small_leaf_spine", overrides=["agents.count=3"])
    for word in ("algo=ppo", "algo.gamma=0.5", "resume=auto", "hydra.run.dir=here", "+ray.x=1"):
        with pytest.raises(ConfigError, match=r"not read here; use the program `gpuyard train`"):
            gpuyard.make_env("venus_like", "small_leaf_spine", overrides=[word])


def test_any_callable_may_be_an_order():
    order = partial(lambda times, jobs: times * jobs.submit_s, -1.0)
    jobs = jobs_of(num_gpus=[64, 64, 64])
    run = gpuyard.simulate(jobs, "small_leaf_spine", order, overrides=OFF)
    assert run.jobs["start_s"].tolist() == [0.0, 200.0, 100.0]
    assert "partial" in run.labels.scheduler


def test_a_warning_names_a_frame_as_an_error_does(caplog: pytest.LogCaptureFixture):
    gpuyard.simulate(jobs_of(prioritiy=[1]), "small_leaf_spine", overrides=OFF)
    assert "trace: column 'prioritiy' is not read" in caplog.messages[0]


def test_a_function_reads_the_truth_as_the_prediction_of_an_oracle():
    def longest(jobs):
        return -jobs.predicted_remaining_s

    words = [*OFF, "estimator=oracle"]
    run = gpuyard.simulate(
        jobs_of(duration_s=[100, 100, 200]), "small_leaf_spine", longest, overrides=words
    )
    assert run.jobs["start_s"].tolist() == [0, 300, 100]
    assert run.labels.information == "oracle"


@dataclass
class Own:
    """An estimator of somebody's own."""

    gives: str
    information: str = "predicted"

    def estimate(self, trace: Trace, rng: np.random.Generator) -> object:
        del rng
        return {
            "list": trace.duration_s.tolist(), "short": np.ones(1), "negative": -trace.duration_s,
            "texts": trace.job_id, "half": np.where(trace.submit_s > 0, np.nan, 1.0),
        }[self.gives]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["gives: short"], r"gives the shape \(1,\); it must be one number a job"),
        (["gives: negative"], "gives -100; it must be"),
        (["gives: texts"], "gives values of type object"),
        (["gives: half"], "2 of 3 jobs have no duration prediction"),
        (["gives: list", "information: learned"], "its information must be one of none, limit"),
    ],
)
def test_what_an_own_estimator_gives_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], told: str
):
    (tmp_path / "mine" / "estimator").mkdir(parents=True)
    lines = ["_target_: tests.api.test_life.Own", *words]
    (tmp_path / "mine" / "estimator" / "own.yaml").write_text("\n".join(lines) + "\n")
    (tmp_path / "gpuyard.yaml").write_text("search_path: [mine]\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(GpuYardError, match=told):
        gpuyard.simulate(
            jobs_of(num_gpus=[1, 1, 1]), "small_leaf_spine", "sjf",
            overrides=[*OFF, "estimator=own"],
        )  # fmt: skip
