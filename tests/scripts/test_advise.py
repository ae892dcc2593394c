"""`advise.py` as a user runs it: a CSV, an sacct file, errors, a policy of one's own."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gpuyard.advice.advise import advise
from tests.contract.compositions import resolved
from tests.scripts.conftest import Outcome

TWO = ("topology.servers=2", "topology.servers_per_rack=2")  # 16 GPUs
SMALL, H100 = ("topology=small_leaf_spine", *TWO), ("topology=h100_rails", *TWO)
FOUR = (
    "lineup.entries=["
    "{role: published, name: fifo, overrides: ['scheduler=fifo']},"
    "{role: composite, name: sjf, overrides: ['scheduler=sjf']},"
    "{role: published, name: las, overrides: ['scheduler=las'], windows: 5},"  # as in lineup=league
    "{role: reference, name: srtf, overrides: ['scheduler=srtf']}]"
)
HEADER = "JobID|User|State|Submit|Start|End|Elapsed|Timelimit|ReqTRES|JobName\n"


def jobs_csv(path: Path, jobs: int = 200) -> Path:
    """Busy: about as much work as 16 GPUs do; long jobs come now and then; users alternate."""
    rng = np.random.default_rng(1)
    gangs, times = rng.choice([1, 2, 4, 8], jobs), np.exp(rng.normal(5.5, 1.2, jobs)).round()
    at = np.cumsum(rng.exponential(110.0, jobs)).round()
    rows = (
        f"j{k},{at[k]:.0f},{gangs[k]},{times[k]:.0f},u{k % 5},{2 * times[k]:.0f},{k % 40}\n"
        for k in range(jobs)
    )
    path.write_text("job_id,submit_s,num_gpus,duration_s,user,limit_s,waited_s\n" + "".join(rows))
    return path


def words_of(path: Path, *more: str) -> tuple[str, ...]:
    columns = (f"workload.columns.{name}={name}" for name in ("user", "limit_s", "waited_s"))
    return ("workload=csv", f"workload.path={path}", *columns, *more)


def sacct(path: Path, jobs: int = 60) -> Path:
    """One job every ten minutes, waiting a minute, of half an hour on 2, 4 or 8 H100."""
    rows = []
    for k in range(jobs):
        submit, gpus = pd.Timestamp("2026-03-02") + pd.Timedelta(minutes=10 * k), (2, 4, 8)[k % 3]
        begin, end = submit + pd.Timedelta(minutes=1), submit + pd.Timedelta(minutes=31)
        tres = f"cpu=8,mem=64G,gres/gpu:h100={gpus},gres/gpu={gpus}"
        rows.append(f"{k}|ann|COMPLETED|{submit:%Y-%m-%dT%H:%M:%S}|{begin:%Y-%m-%dT%H:%M:%S}|"
                    f"{end:%Y-%m-%dT%H:%M:%S}|00:30:00|02:00:00|{tres}|train\n")  # fmt: skip
    path.write_text(HEADER + "".join(rows))
    return path


def advice_of(outcome: Outcome) -> pd.DataFrame:
    return outcome.table("advice.csv").set_index("scheduler")


def test_a_small_trace_gets_a_table_and_three_sentences(done, tmp_path):
    path = jobs_csv(tmp_path / "jobs.csv")
    outcome = done("advise", *words_of(path, *SMALL, FOUR), "jobs=1")
    table = advice_of(outcome)
    assert set(table.index) == {
        "fifo", "sjf, limit", "sjf, predicted", "sjf, oracle", "las", "srtf",
        "what_happened (elsewhere)",  # waits made up: more GPUs at once than there are
    }  # fmt: skip
    assert table["jct_mean_s"].is_monotonic_increasing
    assert (table["jct_mean_s_low"] <= table["jct_mean_s"]).all()
    assert table.loc["fifo", "stops_per_job"] == 0 and table.loc["las", "preempts"]
    assert table.loc["las", "stops_per_job"] > 0 and table.loc["las", "lost_gpu_h"] > 0
    assert table.loc[["sjf, oracle", "srtf"], "bound"].all()
    assert set(table["jobs"]) == {200}  # the whole trace, as it is
    assert 0 < table.loc["fifo", "user_fairness"] <= 1
    for words in ("Without preemption take", "Preemption would add",
                  "Knowing durations, nobody preempting:"):  # fmt: skip
        assert outcome.out.count(f"- {words} ") == 1
    assert "load as it comes" in outcome.err and "gangs are large from 8 GPUs on" in outcome.err
    assert (outcome.folder / "advice.png").read_bytes().startswith(b"\x89PNG")
    assert "| fifo | nothing | no |" in outcome.text("advice.md")
    page = outcome.text("report.html")
    for row in table.index[~table["bound"] & (table["information"] != "-")][:2]:
        assert f"Why jobs waited: {row}" in page
    assert "Job completion times" in page and "Use and queue over time" in page

    two = done("advise", *words_of(path, *SMALL, FOUR), "jobs=2", "aim=gpu_util_frac", folder="two")
    other, timed = advice_of(two), ["rank", "wall_s", "ratio_to_best", "ratio_low", "ratio_high"]
    pd.testing.assert_frame_equal(
        *(each.drop(columns=timed).sort_index() for each in (other, table))
    )
    assert other["gpu_util_frac"].is_monotonic_decreasing


def test_an_sacct_file_on_h100_servers(done, tmp_path):
    path = sacct(tmp_path / "jobs.txt")
    outcome = done("advise", "workload=sacct", f"workload.path={path}", *H100, FOUR, "jobs=1")
    table = advice_of(outcome)
    assert table.loc["sjf, limit", "information"] == "limit"
    past = next(name for name in table.index if name.startswith("what_happened"))
    assert table.loc[past, "jct_mean_s"] == 31 * 60.0
    assert table.loc["fifo", "jct_mean_s"] == pytest.approx(30 * 60.0, rel=0.2)
    assert np.isnan(table.loc[past, "lost_gpu_h"])
    assert "h100: a100's profile x 1.9 (assumed)" in outcome.err


def test_what_is_slow_and_rows_that_play_alike_are_left_out_and_told(done, tmp_path):
    """With one partition there is nowhere to forward to."""
    path = jobs_csv(tmp_path / "jobs.csv", 60)
    more = (
        "{role: published, name: easy, overrides: ['scheduler=easy']}",
        "{role: published, name: drf, overrides: ['scheduler=drf']}",
        "{role: composite, name: stealing, overrides: ['scheduler=sjf', 'forwarding=steal']}",
    )
    line_up = FOUR[:-1] + f",{','.join(more)}]"
    few = ("jobs=1", "slow_jobs=50", "page=false", "~knows.predicted")
    outcome = done("advise", *words_of(path, *SMALL), line_up, *few)
    slow = "left out: too slow for 60 jobs: drf, which decide in Python; slow_jobs=60"
    assert slow in outcome.out
    names = outcome.table("advice.csv")["scheduler"].tolist()
    assert names.count("sjf, oracle") == names.count("easy, limit") == 1
    assert not [name for name in names if name.startswith(("drf", "stealing"))]
    assert sum(name.startswith("easy") for name in names) == 1
    assert "WARNING" in outcome.err
    assert re.search(
        r"lineup\.entries\[6\] \(scheduler=sjf forwarding=steal\) plays as lineup\.entries\[1\] "
        r"\(scheduler=sjf\) does here; it is left out",
        " ".join(outcome.err.split()),
    )


def test_what_the_jobs_ask_for_is_told_once_by_all_processes(done, tmp_path):
    rows = [f"j{k},{60 * k},{1 + k % 2},{300 + k},{'pv'[k % 2]}100" for k in range(60)]
    outcome = done(
        "advise", *of_rows(tmp_path, "gpu_types", rows), *SMALL, "topology.gpu_types=[p100,v100]",
        FOUR, "jobs=2", "page=false",
    )  # fmt: skip
    assert outcome.err.count("reference_gpu=asked takes them") == 1


@pytest.mark.parametrize(("text", "words", "told"), [
    ("a,0,4,10\nb,1,40,10\nc,2,32,5\n", (),
     ("line 3", "job b", "40 GPUs", "2 such jobs", "workload.max_gang=16",
      "workload.drop_too_large=true")),
    ("", (), ("jobs.csv", "no job")),
    ("a,0,4,10\n", ("aim=jct_men_s",), ("did you mean jct_mean_s?",)),
    ("a,0,4,10\n", ("aim=user_fairness",), ("no job names its user",)),
    ("a,0,4,10\n", ("blocks=1",), ("blocks is 1",)),
    ("a,0,4,10\n", ("blocks=21",), ("blocks is 21", "1 job counted", "blocks=20")),
    ("".join(f"{k},{k},1,10\n" for k in range(500)), ("blocks=500",),
     ("blocks is 500", "500 jobs counted", "set blocks=25 or less")),
    ("a,0,4,10\n", ("~knows.oracle",), ("knows.oracle is missing",)),
    ("a,0,4,10\n", ("knows=null",), ("knows is None; it must hold limit, predicted, oracle",)),
    ("a,0,4,10\n", ("knows.limit=a",), ("knows.limit is 'a', no estimator; choose one, like",)),
    ("a,0,4,10\n", ("aim=[a]",), ("aim is ['a']",)),
    ("a,0,4,10\n", ("learn_frac=1.5",), ("learn_frac is 1.5; it must lie between 0 and 1",)),
    ("a,0,4,10\n", ("learn_jobs=0",), ("learn_jobs is 0; it must be a whole number from 1",)),
    ("a,0,4,10\n", ("agent_counts=''",), ("agent_counts is ''; it must be a list",)),
    ("".join(f"{k},{k},1,10\n" for k in range(30)), ("learn_minutes=0.01",),
     ("learn_minutes needs 20 jobs", "learn_frac")),
])  # fmt: skip
def test_what_cannot_be_is_one_message(start, tmp_path, text, words, told):
    path = tmp_path / "jobs.csv"
    path.write_text("job_id,submit_s,num_gpus,duration_s\n" + text)
    outcome = start(
        "advise", "workload=csv", f"workload.path={path}", *SMALL, FOUR, "jobs=1", *words
    )
    outcome.failed_with(*told)


def test_jobs_that_fit_nowhere_stop_it_or_are_left_out(start, tmp_path):
    rows = ["a,0,4,10,1000", "b,1,4,10,200000", "c,2,3,5,1000", "d,3,1,5,200000"]
    words = (*of_rows(tmp_path, "cpu_milli", rows), *H100, FOUR, "jobs=1")
    start("advise", *words).failed_with(
        "2 of 4 jobs fit nowhere on h100_rails", "job b: 4 GPUs, each with 200 cores",
        "leave_out=true", "workload.rules.ignore=[demands]",
    )  # fmt: skip
    kept = start("advise", *words, "leave_out=true", folder="kept")
    assert kept.status == 0, kept.err
    assert "left out: 2 jobs that fit nowhere" in kept.out
    assert "2 jobs counted, in 2 blocks: intervals over next to single jobs tell little" in kept.err
    assert set(kept.table("advice.csv")["jobs"]) == {2}


def of_rows(folder: Path, column: str, rows: list[str]) -> tuple[str, ...]:
    """Words for a file of these jobs, the last column as given."""
    path = folder / "jobs.csv"
    path.write_text("\n".join([f"job_id,submit_s,num_gpus,duration_s,{column}", *rows, ""]))
    return "workload=csv", f"workload.path={path}", f"workload.columns.{column}={column}"


def test_gangs_above_the_cluster_are_left_out_and_a_load_of_ones_own_is_not_the_past(
    done, tmp_path
):
    rows = ["a,0,4,10,1", "b,1,100,10,2", "c,2,3,5,3", "d,3,1,5,4"]
    words = (*of_rows(tmp_path, "waited_s", rows), *SMALL, FOUR, "jobs=1")
    kept = done("advise", *words, "leave_out=true", "workload.load=0.5")
    frame = kept.table("advice.csv")
    assert set(frame["jobs"]) == {3}
    assert "what_happened" not in set(frame["scheduler"])
    assert "left out: what_happened: workload.load stretches times" in kept.out


@pytest.mark.slow  # two programs, and compiled code of the linear score
def test_a_policy_of_ones_own_is_judged_on_the_rest_and_plays(done, tmp_path):
    path = jobs_csv(tmp_path / "jobs.csv", 300)
    outcome = done("advise", *words_of(path, *SMALL, FOUR), "jobs=1", "learn_minutes=0.02")
    table = advice_of(outcome)
    assert {"learned, limit", "learned, oracle"} <= set(table.index)
    assert table["jobs"].nunique() == 1 and 100 < table["jobs"].iloc[0] < 200
    weights = outcome.folder / "learned" / "learned.yaml"
    assert weights.is_file() and f"weights in {weights}" in outcome.out
    assert "- Learned: begun as linear_score, of 1 beginnings the best there; " in outcome.out
    served = re.search(r"gpuyard (serve .*)", outcome.out)
    assert served is not None and "workload" not in served[1] and str(weights) in served[1]
    assert str(weights) in table.loc["learned, limit", "words"]
    command = re.search(r"gpuyard (simulate .*)", outcome.out)
    assert command is not None
    words = command[1].split()[1:]
    assert f"workload.path={path}" in words and not any("lineup" in word for word in words)
    assert "linear_score" in done("simulate", *words, folder="played").out


def test_the_plain_function_needs_no_program(tmp_path):
    path = jobs_csv(tmp_path / "jobs.csv", 60)
    config = resolved("advise", *words_of(path, *SMALL, FOUR), "jobs=1")
    advice = advise(config)
    assert advice.frame["rank"].tolist() == list(range(1, len(advice.frame) + 1))
    assert len(advice.sentences) == 3 and advice.aim == "jct_mean_s"
