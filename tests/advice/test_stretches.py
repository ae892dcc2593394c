"""What a policy of the cluster's own learns on, on traces made up by hand."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from gpuyard.advice.learning import judging
from gpuyard.advice.playing import Scenario, jobs_of
from gpuyard.advice.sentences import of_learned
from gpuyard.advice.stretches import StretchField, from_state, scouted
from gpuyard.launch.errors import ConfigError
from tests.advice.test_sentences import row
from tests.contract.compositions import resolved

HEAD = "job_id,submit_s,num_gpus,duration_s\n"
WORDS = (
    "topology=small_leaf_spine", "topology.servers=2", "topology.servers_per_rack=2",
    "interference=none", "network=none", "workload=csv", "learn_minutes=1",
)  # fmt: skip


@cache
def composed() -> dict:
    """The configuration of advise on 16 GPUs, with a first come, first served scout."""
    config = resolved("advise", *WORDS, "workload.path=unused")
    scout = resolved("composition", "scheduler=fifo")
    return {**config, "estimator": config["knows"]["oracle"], "scheduler": None, "scout": scout}


def scouted_of(path: Path, rows: list[str]):
    """The scout's run on a trace of these rows."""
    path.write_text(HEAD + "\n".join(rows) + "\n")
    config = {**composed(), "workload": {**composed()["workload"], "path": str(path)}}
    submit_s = np.array([float(row.split(",")[1]) for row in rows])
    return scouted(json.dumps(judging(config, submit_s)))


def test_the_load_is_that_of_the_jobs_that_are_not_left_out(tmp_path):
    path, columns = tmp_path / "jobs.csv", ("cpu_milli=cpu_milli", "deadline_s=deadline_s")
    rows = [f"j{k},{10 * k},{k % 4 + 1},60,{18000 * (k % 3 == 0)},50" for k in range(30)]
    path.write_text(HEAD.replace("\n", ",cpu_milli,deadline_s\n") + "\n".join(rows) + "\n")
    config = resolved(
        "advise", *WORDS[:-1], f"workload.path={path}", "topology.cpu_milli=15000",
        "workload.load=0.5", *(f"workload.columns.{column}" for column in columns),
    )  # fmt: skip
    setting = json.dumps({**config, "estimator": config["knows"]["oracle"]})
    jobs, misfits = jobs_of(Scenario(setting, None, leave_out=True, large=None, blocks=2))
    assert (len(jobs), misfits) == (20, 10)
    assert jobs.num_gpus @ jobs.duration_s / (16 * jobs.submit_s[-1]) == pytest.approx(0.5)
    np.testing.assert_allclose(jobs.urgency.deadline_s, jobs.submit_s + 50)


def test_the_first_part_is_so_many_jobs_however_the_days_are_filled():
    submit_s = np.array([0.0, 9e5, 9.1e5, 9.2e5, 9.3e5, 9.4e5, 9.5e5, 9.6e5, 9.7e5, 1e6])
    config = {"learn_frac": 0.5, "workload": {"split": {}, "num_jobs": 5, "thin": 2}}
    workload = judging(config, submit_s)["workload"]
    border_s = workload["split"]["train"] * 1e6
    assert (submit_s < border_s).sum() == 5  # half of the time has one job
    assert sum(workload["split"].values()) == pytest.approx(1.0)
    assert workload["num_jobs"] is None


def test_a_stretch_begins_with_what_ran_and_what_waited(tmp_path):
    # a runs 0 to 100; b (16 GPUs) waits behind it until 100; so does c, behind b.
    first = ["a,0,16,100", "b,10,16,50", "c,20,1,30", "d,40,4,10"]
    rest = [f"j{k},{1000 + 200 * k},1,20" for k in range(200)]
    run = scouted_of(tmp_path / "jobs.csv", [*first, *rest]).run
    jobs = from_state(run, 3, 5)  # d and the first of the rest
    assert jobs.job_id.tolist() == ["a", "b", "c", "d", "j0"]
    assert jobs.submit_s.tolist() == [0, 0, 0, 0, 960]
    assert jobs.duration_s.tolist() == pytest.approx([60, 50, 30, 10, 20])
    assert jobs.estimate_s.tolist() == pytest.approx([60, 50, 30, 10, 20])
    fast = replace(run, jobs=replace(run.jobs, speed=1.0 + np.arange(len(run.jobs))))
    assert from_state(fast, 3, 5).speed.tolist() == [1, 2, 3, 4, 5]
    assert from_state(run, 5, 7).job_id.tolist() == ["j1", "j2"]  # all were over by then


def test_training_draws_the_stretches_in_which_jobs_waited(tmp_path, monkeypatch):
    monkeypatch.setattr("gpuyard.advice.stretches.STRETCH_JOBS", 40)
    calm = [f"a{k},{100 * k},1,10" for k in range(80)]
    busy = [f"b{k},{8000 + 10 * k},16,100" for k in range(40)]
    late = [f"c{k},{20000 + 100 * k},1,10" for k in range(240)]
    past = scouted_of(tmp_path / "jobs.csv", [*calm, *busy, *late])
    assert len(past.run.jobs) == 180  # half of the jobs
    field = StretchField(None, past)
    drawn = [field.stretch("train", index) for index in range(0, 1000, 25)]
    assert drawn.count(2) + drawn.count(3) > 35  # what was busy, and what came into its queue
    assert 0.5 < past.waited_frac() < 1.0


def test_too_few_jobs_to_learn_from(tmp_path):
    with pytest.raises(ConfigError, match="needs 20 jobs to learn from and as many for validation"):
        scouted_of(tmp_path / "jobs.csv", [f"{k},{k},1,10" for k in range(60)])


def test_a_learned_policy_that_is_behind_says_so_and_why():
    rows = [row("las", 2.0, preempts=True), row("sjf, predicted", 3.0, information="predicted"),
            row("learned, predicted", 2.5, information="predicted")]  # fmt: skip
    told = of_learned(rows, "jct_mean_s", 0.95, "begun as score", waited_frac=0.1, work_s=3600.0)
    assert told == (
        "Learned: begun as score; on the judged jobs it has mean JCT 2.50 h [2.26, 2.74], 25% more "
        "[25% to 25%] than las, the best; las preempts and it does not; it trusts what "
        "it is told of durations, las is told nothing; jobs waited 10% of their time where it was "
        "learned, the judged ones 50% with las."
    )
    first = [row("las", 3.0, preempts=True), row("learned", 2.5)]
    told = of_learned(first, "jct_mean_s", 0.95, "begun as score", waited_frac=0.1, work_s=3600.0)
    assert told.endswith("2.50 h [2.26, 2.74], 17% less [17% to 17%] than las, the next.")
    other = of_learned(first, "lost_gpu_h", 0.95, "begun", waited_frac=0.1, work_s=1.0)
    assert "it is taught mean JCT, not GPU-hours lost" in other
