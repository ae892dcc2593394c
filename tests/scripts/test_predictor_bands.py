"""`predictor_bands.py`: a table of estimators by trace."""

import csv

SMALL = ("traces.pai_like.num_jobs=300", "traces.pai_like_recurring.num_jobs=300")
FILES = ("~traces.helios_venus", "~traces.alibaba_pai_tasks")


def test_every_estimator_on_every_trace_that_exists(done, tmp_path):
    trace = tmp_path / "jobs.csv"
    trace.write_text(
        "job_id,submit_s,num_gpus,duration_s,vc\n"
        + "".join(f"{j},{100 * j},{1 + j % 2},{60 + j % 2},v{j % 2}\n" for j in range(60))
    )
    outcome = done(
        "predictor_bands", *SMALL, *FILES, f"traces.philly.path={trace}", f"data_dir={tmp_path}"
    )
    with (outcome.folder / "bands.csv").open() as file:
        rows = {(row["trace"], row["estimator"]): row for row in csv.DictReader(file)}
    traces = {"pai_like", "pai_like_recurring", "philly"}
    estimators = {"last_of_group", "group_median", "random_forest", "noisy", "oracle"}
    assert set(rows) == {(trace, estimator) for trace in traces for estimator in estimators}
    assert rows["pai_like", "oracle"]["within_10_frac"] == "1.0"
    assert rows["pai_like", "oracle"]["identity"] == "group user vc"
    assert rows["philly", "oracle"]["identity"] == "vc"
    # Virtual cluster and gang say all here; the first jobs of each have no past.
    assert float(rows["philly", "last_of_group"]["within_10_frac"]) > 0.9
    recurring = float(rows["pai_like_recurring", "group_median"]["within_10_frac"])
    assert recurring > float(rows["pai_like", "group_median"]["within_10_frac"])
    assert "random_forest" in outcome.out


def test_no_trace_at_all_is_one_message(start, tmp_path):
    none = ("~traces.pai_like", "~traces.pai_like_recurring")
    start("predictor_bands", *none, f"data_dir={tmp_path}").failed_with("set data_dir")
