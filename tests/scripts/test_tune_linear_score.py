"""`tune_linear_score.py`: what it writes, resuming, and what it refuses."""

import csv
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import yaml

from gpuyard.learning.learn import write_weights
from gpuyard.learning.tune_linear_score import CHECKPOINT, new_search, resumed
from sim.scoring.weights import FORWARD_FEATURES, START_FEATURES, Layer, ScoreWeights

ROOT = Path(__file__).resolve().parents[2]
NUM_START, NUM_FORWARD, ONE = len(START_FEATURES), len(FORWARD_FEATURES), np.ones(1)
TINY = (
    "workload.num_jobs=60", "topology=small_leaf_spine", "workload.max_gang=8", "train_windows=1",
    "train_jobs=40", "validation_windows=1", "population=4", "jobs=1",
)  # fmt: skip
MIXED = (
    "redraw=true",
    "mix=[{agents: 4, load: 0.9, windows: 1}, {agents: 2, load: 1.1, windows: 1, gpu_type: v100}]",
)


def curve(folder: Path) -> list[dict[str, str]]:
    with (folder / "tuning.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_checkpoint_goes_on_by_the_module_names_of_before(tmp_path):
    search = new_search("mine", [0.0, 1.0], [0, 1], sigma=0.3, population=4, seed=0)
    told = pickle.dumps(search, protocol=0)
    assert b"gpuyard.learning.tune_linear_score" in told
    before = told.replace(b"gpuyard.learning.tune_linear_score", b"gpuyard.tuning.search")
    (tmp_path / CHECKPOINT).write_bytes(before)
    assert resumed(tmp_path, "mine").start == (0.0, 1.0)


@pytest.mark.slow
def test_it_tunes_writes_weights_that_run_and_goes_on_where_it_stopped(done):
    first = done("tune_linear_score", *TINY, *MIXED, "generations=2", "name=mine", folder="first")
    path = first.folder / "mine.yaml"
    text = path.read_text()
    weights = yaml.safe_load(text)
    assert tuple(weights["start"]) == START_FEATURES
    assert tuple(weights["forward"]) == FORWARD_FEATURES
    assert text.startswith("# python scripts/tune_linear_score.py workload.num_jobs=60")
    assert "seed 0" in text
    assert [row["generation"] for row in curve(first.folder)] == ["1", "2"]
    assert "on 2 training windows of 40 jobs, drawn anew" in text
    assert "on 2 validation windows" in first.out

    # Four generations in one go, or two and two: the same search.
    more = ("generations=4", f"resume={first.folder}", "name=mine")
    resumed = done("tune_linear_score", *TINY, *MIXED, *more, folder="resumed")
    whole = done("tune_linear_score", *TINY, *MIXED, "generations=4", "jobs=2", folder="whole")
    assert curve(resumed.folder) == curve(whole.folder)

    run = done(
        "simulate", "scheduler=linear_score", "agents.count=4", f"scheduler.weights_file={path}",
        "workload.num_jobs=40", "topology=small_leaf_spine", "workload.max_gang=8", folder="run",
    )  # fmt: skip
    assert "linear_score" in run.out


def test_ctrl_c_keeps_the_latest_mean(tmp_path):
    words = [*TINY, "generations=100000", f"hydra.run.dir={tmp_path}", "name=kept"]
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "scripts" / "tune_linear_score.py"), *words],
        cwd=ROOT, env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
    )  # fmt: skip
    until = time.monotonic() + 200
    while not (tmp_path / "tuning.csv").is_file() and time.monotonic() < until:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    assert "Interrupted: not validated." in (tmp_path / "kept.yaml").read_text()
    assert (tmp_path / "checkpoint.pickle").is_file()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("generations=0",), ("generations is 0",)),
        (("sigma=0",), ("sigma is 0",)),
        (("jobs=0",), ("jobs is 0",)),
        (("mix=[]",), ("mix is []",)),
        (("mix=[{agents: 2, load: 0.9}]",), ("mix holds", "windows")),
        (("mix=[{agents: 2, load: 0, windows: 1}]",), ("load: 0",)),
        (("mix=[{agents: 2, load: 1, windows: 1, gpu_type: 7}]",), ("gpu_type: 7",)),
        (("mix=[{agents: 2, load: 1, windows: 1, gpu_type: t1000}]",), ("t1000",)),
        (("scheduler=sjf",), ("linear_score",)),
        (("resume=nowhere",), ("nowhere", "checkpoint.pickle")),
    ],
)
def test_what_cannot_be_is_one_message(start, words, told):
    start("tune_linear_score", *TINY, *words).failed_with(*told)


def test_weights_with_layers_are_for_another_program(start, tmp_path: Path):
    one = Layer(np.zeros(NUM_START), np.ones(NUM_START), np.ones((1, NUM_START)), ONE, ONE)
    weights = ScoreWeights(np.zeros(NUM_START), np.zeros(NUM_FORWARD), start_layer=one)
    write_weights(tmp_path / "deep.yaml", weights, ["with a unit"])
    found = start("tune_linear_score", *TINY, f"scheduler.weights_file={tmp_path / 'deep.yaml'}")
    found.failed_with("these weights have layers, which scripts/learn.py learns; tune others")
