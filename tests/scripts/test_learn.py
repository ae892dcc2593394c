"""`learn.py`: it climbs, writes weights that play, goes on where it stopped, and refuses."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
SMALL = ("topology=small_leaf_spine", "workload.max_gang=8", "agents.count=4")
TINY = (
    *SMALL, "workload.num_jobs=100", "validation_windows=6", "held_out.windows=6", "pairs=12",
    "standard_windows=1", "minutes=null", "validate_every=2", "checkpoint_every=1", "jobs=1",
)  # fmt: skip


def curve(folder: Path) -> list[dict[str, str]]:
    with (folder / "curve.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_from_zero_it_climbs_in_seconds(done):
    found = done("learn", *TINY, "updates=30", "name=mine", folder="climb")
    metrics = json.loads((found.folder / "metrics.json").read_text())
    assert metrics["ratio_of_mean_jct"]["zero"]["high"] < 0.9
    assert metrics["updates"] == 30
    assert metrics["runs"] == 30 * 24
    assert (found.folder / "curve.png").is_file()
    assert float(curve(found.folder)[-1]["to_begin"]) < 0.9
    text = (found.folder / "mine.yaml").read_text()
    assert text.startswith("# python scripts/learn.py topology=small_leaf_spine")
    assert np.shape(yaml.safe_load(text)["layers"]["start"]["inner"]) == (16, 20)

    run = done(
        "simulate", "scheduler=linear_score", *SMALL, "workload.num_jobs=40",
        f"scheduler.weights_file={found.folder / 'mine.yaml'}", folder="run",
    )  # fmt: skip
    assert "linear_score" in run.out


def test_resumed_or_with_more_workers_it_learns_the_same(done):
    whole = done("learn", *TINY, "updates=4", "jobs=2", folder="whole")
    first = done("learn", *TINY, "updates=4", "minutes=0", folder="first")
    assert [row["update"] for row in curve(first.folder)] == ["0"]
    done("learn", *TINY, "updates=4", f"resume={first.folder}", folder="resumed")
    one, other = (
        np.load(folder / "checkpoint.npz")["mean"]
        for folder in (whole.folder, first.folder.parent / "resumed")
    )
    assert np.array_equal(one, other)


def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path: Path):
    process = subprocess.Popen(
        [
            sys.executable, str(ROOT / "scripts" / "learn.py"), *TINY, "updates=100000",
            "name=kept", f"hydra.run.dir={tmp_path}",
        ],
        cwd=ROOT, env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    until = time.monotonic() + 200
    while not (tmp_path / "checkpoint.npz").is_file() and time.monotonic() < until:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"resume={tmp_path}" in out
    assert "Stopped on the way" in (tmp_path / "kept.yaml").read_text()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("pairs=1",), ("pairs is 1",)),
        (("units.start=-1",), ("units.start is -1",)),
        (("jobs=0",), ("jobs is 0",)),
        (("updates=null",), ("minutes and updates",)),
        (("updates=-1",), ("updates is -1",)),
        (("held_out.first=3",), ("held_out.first is 3",)),
        (("begin=nobody",), ("nobody",)),
        (("resume=nowhere",), ("nowhere", "checkpoint.npz")),
    ],
)
def test_what_cannot_be_is_one_message(start, words, told):
    start("learn", *TINY, "updates=1", *words).failed_with(*told)
