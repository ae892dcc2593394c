"""Pages of runs made by hand, with names that would be markup if nobody escaped them."""

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from gpuyard.advice.answer import advice_of, write_advice_page
from gpuyard.evaluation.again import Again, seen_again
from gpuyard.pages.comparison_page import sweep_sections, write_comparison_page, write_folder_page
from gpuyard.pages.page import sections_json, write_page
from gpuyard.pages.run_page import run_page as page_of_run
from gpuyard.pages.run_page import run_views
from gpuyard.pages.sections import table_of_rows
from sim.files import ComparisonRow, Labels, write_comparison_csv
from sim.report.run_folder import collect_record, write_record
from sim.report.summary import summarise
from sim.run import Run
from tests.advice.test_sentences import ROWS
from tests.report import run_builder
from tests.report.conftest import labels as labels_of

MARKUP = "<b>bold</b><script>alert(1)</script>&amp;"


def labels(scheduler: str = "by_hand", **changes) -> Labels:
    given = {"workload": "by hand", "agents": 1, "physics": "none"}
    return labels_of(scheduler, **(given | changes))


@pytest.fixture(scope="session")
def record():
    found = collect_record(
        labels=labels(), program="simulate", command=["gpuyard simulate", "seed=0", "a='<i>'"],
        overrides=["seed=0"], seed=0, config_yaml="seed: 0\n",
    )  # fmt: skip
    return replace(found, assumed=("models drawn", "gangs cut to <16> GPUs"))


@pytest.fixture(scope="session")
def hand():
    return run_builder


@pytest.fixture(scope="session")
def run(hand):
    """40 jobs on 4 servers of 4 GPUs in 2 racks; the first job's id is markup."""
    jobs = []
    for at in range(40):
        server, round_ = at % 4, at // 4
        gpus = [4 * server, 4 * server + 1, 4 * server + 2][: 1 + at % 3]
        start_s, length_s = 3600.0 * round_ + 60.0, 1800.0 + 40.0 * at
        jobs.append(hand.Job(3600.0 * round_, length_s, ((start_s, start_s + length_s, gpus),),
                             gpus=len(gpus)))  # fmt: skip
    made = hand.build_run(jobs, servers=4, gpus_per_server=4, partitions=1)
    ids = made.jobs.job_id.copy()
    ids[0] = MARKUP
    return replace(made, jobs=replace(made.jobs, job_id=ids))


@pytest.fixture(scope="session")
def huge_run(hand):
    """100,000 jobs on 2,400 GPUs."""
    return in_turn(hand, jobs=100_000, servers=300, gpus=8)


def in_turn(hand, *, jobs: int, servers: int, gpus: int):
    """Jobs of 50 s, one every 100 s, each on the next GPU."""
    made = [
        hand.Job(100.0 * at, 50.0, ((100.0 * at, 100.0 * at + 50.0, [at % (servers * gpus)]),))
        for at in range(jobs)
    ]
    return hand.build_run(made, servers=servers, gpus_per_server=gpus, partitions=1)


WAITS = [
    {"time_s": 3600.0, "rank": 2, "offered": "nothing", "reason": "2 GPUs free, 3 wanted"},
    {"time_s": 7200.0, "rank": 1, "offered": "server 3", "reason": "it started"},
]


@pytest.fixture(scope="session")
def run_page(run, record, tmp_path_factory):
    """report.html of the run, with a section that another part of the program fills."""
    folder = tmp_path_factory.mktemp("run page")
    (folder / "a b.csv").write_text("x\n1\n")
    waits = table_of_rows("Why jobs waited", WAITS)
    return write_page(folder, page_of_run(run, summarise(run), record, more=[waits]))


@pytest.fixture(scope="session")
def comparison_page(run, record, tmp_path_factory):
    """report.html of three schedulers on five windows, with distributions and two runs."""
    rng = np.random.default_rng(1)
    rows, times_s = [], {}
    for name, hours, role in (("sjf", 5.0, "composite"), (MARKUP, 12.0, "published"),
                              ("marl", 4.0, "ours")):  # fmt: skip
        times_s[name] = rng.exponential(hours * 3600.0, size=2000)
        for window in range(5):
            jct_s = hours * 3600.0 * float(rng.uniform(0.9, 1.1))
            metrics = {"jct_mean_s": jct_s, "jct_p99_s": 3 * jct_s, "makespan_s": 9e5,
                       "gpu_util_frac": 0.7, "jobs_unfinished": 0}  # fmt: skip
            rows.append(ComparisonRow(labels(name, role=role, window=window), metrics))
    folder = tmp_path_factory.mktemp("comparison page")
    known = {"jct_mean_s": summarise(run)["jct_mean_s"], "loop_wall_s": 0.1}
    again = [Again(name, name, partial(get_run, run), known) for name in ("marl", MARKUP)]
    seen = seen_again(again, processes=1)
    return write_comparison_page(
        folder, rows, replace(record, program="evaluate"), ours="marl", confidence=0.95,
        whose={name: name for name in times_s}, jct_s=times_s,
        more=[section for each in seen for section in each.sections],
    )  # fmt: skip


def get_run(run: Run) -> Run:
    return run


@pytest.fixture(scope="session")
def advice_page(run, record, tmp_path_factory):
    """report.html of an answer about eight schedulers, with one run."""
    advice = advice_of(ROWS, aim="jct_mean_s", confidence=0.95)
    seen = seen_again([Again(MARKUP, MARKUP, partial(get_run, run), {})], processes=1)
    return write_advice_page(tmp_path_factory.mktemp("advice page"), advice, record, seen)


@pytest.fixture(scope="session")
def reproduction_page(run, record, tmp_path_factory):
    """report.html of two schedulers in two cells, with the curves that a reproduction keeps."""
    rng = np.random.default_rng(3)
    folder, names = tmp_path_factory.mktemp("reproduction page"), ("sjf", MARKUP)
    rows = [
        ComparisonRow(labels(name, workload=cell, window=window),
                      {"jct_mean_s": 3600.0 * float(rng.uniform(1, 2))})
        for cell in ("one", "two") for name in names for window in range(3)
    ]  # fmt: skip
    curves = [
        {"name": name, "windows": 3, "jct_s": rng.exponential(3600.0, size=300).tolist(),
         "time_s": list(range(0, 86_400, 864)), "gpu_util_frac": [0.5] * 100,
         "queue_jobs": list(range(100))}
        for name in names
    ]  # fmt: skip
    del curves[1]["time_s"]  # window 0 failed
    write_comparison_csv(folder / "comparison.csv", rows)
    (folder / "curves.json").write_text(
        json.dumps([{"title": title, "curves": curves} for title in ("one", "two")])
    )
    (folder / "views.json").write_text(sections_json(run_views(run)))
    (folder / "page.md").write_text("| mean JCT | one |\n| :-- | --: |\n| **`sjf`** | 1.5 |\n")
    write_record(folder, replace(record, program="reproduce"))
    return write_folder_page(folder, record, {"confidence": 0.95}, title="A table of a paper")


@pytest.fixture(scope="session")
def sweep_page(record, tmp_path_factory):
    """report.html of two schedulers at three loads with three seeds."""
    rng = np.random.default_rng(2)
    rows = [
        ComparisonRow(
            labels(name, load=load, seed=seed),
            {"jct_mean_s": 3600.0 * hours * (1 + load) * float(rng.uniform(0.9, 1.1))},
        )
        for load in (0.5, 0.7, 0.9)
        for name, hours in (("sjf", 2.0), ("fifo", 4.0))
        for seed in range(3)
    ]
    folder = tmp_path_factory.mktemp("sweep page")
    first = sweep_sections(rows, confidence=0.95)
    return write_comparison_page(
        folder, rows, replace(record, program="compare"), ours=None, confidence=0.95, first=first
    )
