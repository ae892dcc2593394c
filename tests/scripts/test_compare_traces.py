"""`generate_trace.py`, `compare_traces.py` and `fit_generator.py`: files that are taken back."""

import gzip
import re
import shlex
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from gpuyard.studies.generated_traces import shape
from tests.scripts.conftest import ROOT, call
from tests.traces.trace_samples import trace_of

X = ("name=x", "workload.path=x.csv")
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1,500 generated jobs as a CSV file."""
    folder = tmp_path_factory.mktemp("made")
    path = folder / "made.csv"
    outcome = call("generate_trace", "workload.num_jobs=1500", f"out={path}", folder=folder / "run")
    assert outcome.status == 0, outcome.err
    return path


def test_a_file_against_the_generator_that_made_it(done, made):
    words = ("workload@real=csv", f"real.path={made}", "workload@generated=venus_like", "draws=2")
    outcome = done("compare_traces", *words)
    assert (outcome.folder / "likeness.png").read_bytes().startswith(PNG)
    found = outcome.table("likeness.csv").set_index("feature")
    about = found[["real", "generated", "jobs", "draws", "seed"]].drop_duplicates()
    assert about.to_numpy().tolist() == [["csv", "venus_like", 1500, 2, 0]]
    assert found.part.isna().all()
    duration = found.loc["duration (s)"]
    assert duration.measure == "KS" and 0 < duration.distance < 0.1
    assert duration.over_floor == pytest.approx(duration.distance / duration.floor)
    assert np.isnan(found.ln_shift["hour of the day"])
    assert [feature for feature in found.index if feature not in outcome.out] == []
    assert "floor: distance between the first and the second half" in outcome.out


def test_a_part_of_a_gpu_is_demanded_as_a_part():
    whole = trace_of([0.0, 7200.0, 14400.0], [3600.0] * 3)
    halves = replace(whole, gpu_milli=np.full(3, 500))
    assert [shape(each).demand_gpus for each in (whole, halves)] == [0.75, 0.375]


def test_a_file_against_itself_is_no_distance(done, made):
    words = (f"real.path={made}", "workload@generated=csv", f"generated.path={made}")
    found = done("compare_traces", *words).table("likeness.csv")
    assert set(found.draws) == {1} and (found.distance.dropna() < 1e-12).all()


def test_who_never_began_is_no_job_to_be_compared_or_fitted(done, made, tmp_path):
    frame = pd.read_csv(made, dtype=str)
    given_up = frame.iloc[1:-1:9].assign(duration_s="0", withdraw_s="60")
    given_up["job_id"] = "never " + given_up["job_id"]
    more = tmp_path / "more.csv"
    pd.concat([frame, given_up]).to_csv(more, index=False)
    words = (f"real.path={more}", "real.columns.withdraw_s=withdraw_s", "workload@generated=csv")
    found = done("compare_traces", *words, f"generated.path={made}").table("likeness.csv")
    assert set(found.jobs) == {1500} and (found.distance.dropna() < 1e-12).all()


def test_a_key_of_the_generated_side_is_named_by_its_section(start, made):
    outcome = start("compare_traces", f"real.path={made}", "generated.num_jobs=-1")
    outcome.failed_with("generated.num_jobs is -1")
    assert "workload.num_jobs" not in outcome.err
    assert "to read it say real.columns.user=user" in outcome.err


def test_one_part_of_the_real_trace(done, made):
    words = (f"real.path={made}", "part=train", "draws=1")
    found = done("compare_traces", *words).table("likeness.csv")
    assert 200 < found.jobs[0] < 1300 and set(found.part) == {"train"}


def test_a_fitted_file_composes_and_is_like_its_trace(done, made, tmp_path):
    """The way of a user: fit, put the file into conf/workload, run with it by name."""
    out = tmp_path / "mine_like.yaml"
    fitted = done(
        "fit_generator", f"workload.path={made}", "name=mine_like", f"out={out}",
        "first_submit='2020-03-18 04:01:39'", "outcomes.of_jobs=[0.6,0.2,0.2]",
        "outcomes.of_work=[0.5,0.2,0.3]", "owners.vcs=7", "workload.columns.user=user",
        "workload.columns.limit_s=duration_s", "workload.columns.group=vc",
    )  # fmt: skip
    assert "not fitted: group, limit_s\n" in fitted.err
    assert "taken to be even by hour of the day and day of the week: the trace is" in fitted.err
    assert "1,500 jobs fitted" in fitted.out
    text = out.read_text()
    written = yaml.safe_load(text)
    assert (written["name"], written["spec"]["vcs"]) == ("mine_like", 7)
    assert written["spec"]["outcomes"]["cancelled_slope"] > 0
    assert len(written["spec"]["hour_factors"]) == 24
    assert text.startswith("# Generated jobs with the figures of 1,500 jobs of csv")
    config = tmp_path / "more" / "workload"
    config.mkdir(parents=True)
    (config / "mine_like.yaml").write_text(text)
    search = f"hydra.searchpath=[file://{tmp_path / 'more'}]"
    words = (search, "workload=mine_like", "workload.num_jobs=500")
    assert "500 jobs written" in done("generate_trace", *words, folder="again").out


def test_hours_and_weekdays_of_a_file_with_dates_are_the_files_own(done, tmp_path):
    """Jobs from 9 to 10, most of them on Wednesdays; the file begins on a Tuesday."""
    path = tmp_path / "dates.csv"
    days = [date(2020, 3, 17) + timedelta(days=day) for day in range(21)]
    rows = [
        f"{day}-{minute},{day}T09:{minute:02}:00,1,{60 + minute}\n"
        for day in days
        for minute in range(0, 60, 2 if day.weekday() == 2 else 15)
    ]
    path.write_text("job_id,submit_time,num_gpus,duration_s\n" + "".join(rows))
    out = tmp_path / "x.yaml"

    def fitted(at: int, *words: str) -> tuple[list[float], list[float]]:
        given = (f"workload.path={path}", "name=x", f"out={out}", *words)
        assert "fitted" in done("fit_generator", *given, folder=str(at)).out
        spec = yaml.safe_load(out.read_text())["spec"]
        return spec["hour_factors"], spec["weekday_factors"]

    for first, hour in ((), 9), (("first_submit='2020-03-17 00:00'",), 0):
        hours, weekdays = fitted(hour, *first)
        assert (int(np.argmax(hours)), int(np.argmax(weekdays))) == (hour, 2)
    hours, _ = fitted(1, "part=train", "workload.num_jobs=60")  # a window somewhere in the part
    assert hours[8] < 1.0 < hours[9]


@pytest.mark.parametrize(
    ("program", "words", "told"),
    [
        ("compare_traces", (), ("real.path",)),
        ("compare_traces", ("real.path=none.csv",), ("none.csv", "set real.path to")),
        ("compare_traces", ("real.path=workload.csv",), ("workload.csv: cannot be read",)),
        ("compare_traces", ("real.path=x.csv", "draws=0"), ("draws is 0",)),
        ("compare_traces", ("real.path=x.csv", "part=tests"), ("part is 'tests'", "validation")),
        ("compare_traces", ("real.path=x.csv", "real.load=0.5"), ("real.load is 0.5", "null")),
        ("fit_generator", (*X, "workload.load=0.5"), ("workload.load is 0.5", "no cluster")),
        ("fit_generator", (*X, "workload.drop_too_large=true"),
         ("workload.drop_too_large is True", "leave it false")),
        ("fit_generator", ("workload.path=x.csv",), ("name",)),
        ("fit_generator", ("workload.path=x.csv", "name=3"), ("name is 3; it must be one word",)),
        ("fit_generator", ("name=x", "workload=venus_like"), ("it is generated",)),
        ("fit_generator", (*X, "duration_parts=0"), ("parts is 0",)),
        ("fit_generator", (*X, "owners.vcs=a"), ("owners.vcs is 'a'; it must be null, or 1",)),
        ("fit_generator", (*X, "outcomes.of_jobs=a", "outcomes.of_work=[1]"),
         ("outcomes.of_jobs is 'a'; it must be a list of numbers or null",)),
    ],
)  # fmt: skip
def test_what_cannot_be_is_one_message(start, program, words, told):
    start(program, *words).failed_with(*told)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("out=x.txt",), ("x.txt", ".yaml")),
        (("first_submit=yesterday",), ("first_submit is 'yesterday'",)),
        (("outcomes.of_jobs=[0.6,0.2,0.2]",), ("both of_jobs and of_work",)),
        (("workload.window.end_s=60",), ("made.csv has ", "a fit needs 40 or more: use a longer")),
        (("workload.window.end_s=-1",), ("workload.window.end_s is -1",)),
    ],
)
def test_a_wrong_fit_is_one_message(start, made, words, told):
    outcome = start("fit_generator", f"workload.path={made}", "name=x", *words)
    assert outcome.status == 1
    assert all(word in " ".join(outcome.err.split()) for word in told), outcome.err


def test_the_commands_of_the_page_name_keys_that_exist():
    """The page names programs and generators that are there."""
    text = (ROOT / "docs" / "workloads.md").read_text()
    commands = re.findall(r"^gpuyard (\w+)", text, re.MULTILINE)
    assert {"compare_traces", "fit_generator"} <= set(commands)
    for program in set(commands):
        assert (ROOT / "scripts" / f"{program}.py").is_file()
    for name in re.findall(r"`(\w+_like)`", text):
        assert (ROOT / "conf" / "workload" / f"{name}.yaml").is_file() or name == "mine_like"


def test_the_file_is_read_back_by_simulate(done, tmp_path):
    path = tmp_path / "made, here" / "trace.csv.gz"
    made = done("generate_trace", "workload=philly_like", "workload.num_jobs=300", f"out='{path}'")
    table = pd.read_csv(path)
    assert list(table.columns) == ["job_id", "submit_s", "num_gpus", "duration_s", "user", "vc"]
    assert len(table) == 300
    assert table["submit_s"].is_monotonic_increasing
    assert "duration p50" in made.out
    words = shlex.split(made.out.split("play them with ")[1])
    read = done("simulate", *words, "topology=medium_leaf_spine", folder="read")
    assert "is not read" not in read.out + read.err
    columns = ["duration_s", "num_gpus"]
    pd.testing.assert_frame_equal(read.jobs()[columns], table[columns], check_dtype=False)


@pytest.mark.parametrize("more", [(), ("workload.rules.gpu_type_names.T4=v100",)])
def test_gpu_types_are_read_back_by_the_rules_that_they_were_made_for(done, more):
    asked = ("workload=openb_like", "workload.num_jobs=60", "workload.load=null", *more)
    raw = ("workload.thin=null", "workload.max_gang=null", "workload.min_duration_s=null",
           "workload.max_duration_s=null", "estimator=oracle")  # fmt: skip
    made = done("generate_trace", *asked, folder="made")
    words = shlex.split(made.out.split("play them with ")[1])
    cluster = ("topology=medium_leaf_spine", "page=false", "topology.gpu_types=[p100,v100]")
    read = done("simulate", *words, *cluster, "estimator=oracle", folder="read")
    direct = done("simulate", *asked, *raw, *cluster, folder="direct")
    columns = ["job_id", "submit_s", "duration_s", "profile", "ran_on", "finish_s"]
    pd.testing.assert_frame_equal(read.jobs()[columns], direct.jobs()[columns])


def test_equal_seeds_give_equal_bytes(done, tmp_path):
    texts = []
    for number, seed in enumerate((1, 1, 2)):
        path = tmp_path / f"{number}.csv.gz"
        words = ("workload.num_jobs=50", f"out={path}", f"seed={seed}")
        done("generate_trace", *words, folder=str(number))
        texts.append(path.read_bytes())
    assert texts[0] == texts[1]
    assert gzip.decompress(texts[0]) != gzip.decompress(texts[2])


def test_load_and_caps_where_asked(done):
    words = ("workload.num_jobs=400", "workload.load=0.7", "gpus=64", "workload.max_gang=8")
    outcome = done("generate_trace", *words)
    table = outcome.table("trace.csv")
    work = (table["num_gpus"] * table["duration_s"]).sum()
    span = table["submit_s"].iloc[-1] - table["submit_s"].iloc[0]
    assert work / (64 * span) == pytest.approx(0.7)
    assert table["num_gpus"].max() == 8
    assert "offered load on 64 GPUs: 0.700" in outcome.out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("workload.load=0.9",), ("gpus=N",)),
        (("gpus=0",), ("gpus is 0", "whole number from 1")),
        (("gpus=abc", "workload.load=0.5"), ("gpus is 'abc'", "whole number from 1")),
        (("gpus=2.5",), ("gpus is 2.5", "whole number from 1")),
        (("out=trace.txt",), ("trace.txt", ".csv")),
        (("workload.num_jobs=0",), ("num_jobs",)),
        (("seed=x",), ("seed is 'x'", "whole number from 0")),
        (("out=/proc/no.csv", "workload.num_jobs=5"), ("/proc/",)),
        (("workload=csv", "workload.path=x.csv"), ("generated workload",)),
    ],
)
def test_what_cannot_be_generated_is_one_message(start, words, told):
    outcome = start("generate_trace", *words)
    outcome.failed_with(*told)
    assert not (outcome.folder / "trace.csv").exists()
