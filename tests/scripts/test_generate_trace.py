"""`generate_trace.py`: a file that the reader takes back, raw unless asked."""

import gzip
import shlex

import pandas as pd
import pytest


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
def test_what_cannot_be_is_one_message(start, words, told):
    outcome = start("generate_trace", *words)
    outcome.failed_with(*told)
    assert not (outcome.folder / "trace.csv").exists()
