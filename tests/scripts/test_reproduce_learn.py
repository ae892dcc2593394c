"""`reproduce.py experiment=learn_climb`: a row a seed, an interval over seeds, and going on.

And what counts as one piece of evidence in its tables and those of `experiment=baselines`.
"""

import csv
import json
import math
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpuyard.reproduction.baselines import tuning_rows
from gpuyard.reproduction.learning import Learned, _rows
from gpuyard.reproduction.runs import begin_training
from sim.report.job_times import clustered_mean_interval, mean_interval
from sim.report.league import LeagueRun
from tests.marl.trainings import Training, wait_for
from tests.report.conftest import row

SMALL = ["agents.count=4", "minutes=null", "pairs=6", "validation_windows=2", "standard_windows=1",
         "held_out.windows=3"]  # fmt: skip
QUICK = ("experiment=learn_climb", "debug=quick", "jobs=1")


def rows(folder: Path) -> dict[str, dict[str, str]]:
    with (folder / "seeds.csv").open(newline="") as file:
        return {row["seed"]: row for row in csv.DictReader(file)}


def metrics(folder: Path) -> list[Path]:
    return [folder / "learned" / f"seed_{seed}" / "metrics.json" for seed in (0, 1)]


def test_rows_of_seeds_have_the_confidence_that_the_table_says(tmp_path):
    """That of the last row is the user's."""
    ratio = {"ratio": 1.0, "low": 1.0, "high": 1.0, "windows": 3}
    first, other = (
        Learned(arm, 0, tmp_path, "b", "b", {
            "updates": 1, "minutes": 1.0, "ratio_of_mean_jct": {"b": ratio}, "held_out": {
                "part": "test", "first": 0, "windows": 3, "ln_mean_jct_s": logs}}, {})
        for arm, logs in (("one", [0.0, 0.0, 0.0]), ("two", [0.1, 0.2, 0.6]))
    )  # fmt: skip
    row, _ = _rows([other], [first], 0.5)
    assert row["to_first"].numbers == pytest.approx(
        mean_interval([0.1, 0.2, 0.6], 0.95).exp().numbers
    )
    for each in (first, other):  # the first two windows are of one stretch of time
        each.metrics["held_out"]["time_of"] = [0, 0, 2]
    by_stretch = clustered_mean_interval([0.1, 0.2, 0.6], [0, 0, 1], 0.95).exp()
    assert other.ratio_to(first).numbers == pytest.approx(by_stretch.numbers)


def test_seeds_are_learned_once_and_judged_together(done):
    found = done("reproduce", *QUICK)
    table = rows(found.folder)
    assert list(table) == ["0", "1", "all"]
    told = [json.loads(path.read_text()) for path in metrics(found.folder)]
    for key, rival in (("to_begin", "eight_partitions"), ("to_reference", "look_ahead")):
        ratios = [each["ratio_of_mean_jct"][rival]["ratio"] for each in told]
        assert [float(table[seed][key]) for seed in ("0", "1")] == ratios
        over = mean_interval(np.log(ratios), 0.95)
        shown = [float(table["all"][f"{key}{end}"]) for end in ("", "_low", "_high")]
        assert shown == pytest.approx(np.exp([over.centre, over.low, over.high]))
    assert table["0"]["gap_closed_low"] == ""  # one seed has no interval over seeds
    assert "| all | 8 |" in (found.folder / "seeds.md").read_text()
    assert (found.folder / "curves.png").stat().st_size > 0
    assert "Jobs by server: what was learned, held" in (found.folder / "report.html").read_text()

    stamps = [path.stat().st_mtime_ns for path in metrics(found.folder)]
    metrics(found.folder)[1].unlink()  # as if stopped while it met the held-out windows
    again = done("reproduce", *QUICK)
    assert rows(again.folder) == table
    assert "update 2" not in again.err  # the checkpoint held all updates
    first, second = (path.stat().st_mtime_ns for path in metrics(found.folder))
    assert first == stamps[0] and second > stamps[1]


def test_every_arm_learns_from_every_seed(done):
    arms = "+reproduce.arms={few: ['updates=1'], more: ['updates=2']}"
    found = done("reproduce", *QUICK, "reproduce.seeds=[5,6]", arms)
    with (found.folder / "seeds.csv").open(newline="") as file:
        told = [(row["arm"], row["seed"], row["updates"]) for row in csv.DictReader(file)]
    assert told == [
        ("few", "5", "1"), ("few", "6", "1"), ("few", "all", "2"),
        ("more", "5", "2"), ("more", "6", "2"), ("more", "all", "4"),
    ]  # fmt: skip
    for arm in ("few", "more"):
        assert (found.folder / "learned" / arm / "seed_5" / "metrics.json").is_file()
        assert f": {arm}" in (found.folder / "seeds.md").read_text()
    page = (found.folder / "page.md").read_text().splitlines()
    assert page[0].startswith("| arm | minutes |") and page[0].endswith("| to few |")
    assert [line.split("|")[1].strip() for line in page[2:]] == ["few", "more"]
    fewer = arms.replace("updates=2'", "updates=2', 'held_out.windows=2'")
    alone = done("reproduce", *QUICK, "reproduce.seeds=[5]", fewer, "+reproduce.paired=false")
    alone_page = (alone.folder / "page.md").read_text()
    assert "to few" not in alone_page and "| few |" in alone_page


@pytest.mark.slow
def test_a_seed_that_was_stopped_goes_on(done, tmp_path: Path):
    training = ["updates=60", "checkpoint_every=1"]
    words = (*QUICK, "reproduce.seeds=[0]", f"reproduce.quick={[*SMALL, *training]}")
    folder = tmp_path / "run"
    with Training("reproduce.py", words).begun(folder) as process:
        wait_for((folder / "learned" / "seed_0" / "checkpoint.npz").is_file, process, 100)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130
    assert not (folder / "seeds.csv").exists()
    found = done("reproduce", *words)
    assert "update 60" in found.err and "update 0," not in found.err
    assert rows(found.folder)["all"]["updates"] == "60"


def test_a_training_by_other_words_is_begun_anew(tmp_path: Path, caplog):
    folder = tmp_path / "full_0"
    begin_training(folder, ["seed=0", "workload.num_jobs=1200"])
    (folder / "trained").touch()
    begin_training(folder, ["seed=0", "workload.num_jobs=1200"])
    assert (folder / "trained").exists() and not caplog.text
    begin_training(folder, ["seed=0", "workload.num_jobs=300"])
    assert not (folder / "trained").exists() and f"{folder} was trained by" in caplog.text


@pytest.mark.slow
def test_other_words_begin_anew(done):
    done("reproduce", *QUICK, "reproduce.training=['name=mine']")
    found = done(
        "reproduce", *QUICK, "reproduce.training=['reference=untuned']", "workload.load=0.8"
    )
    assert all("untuned" in path.read_text() for path in metrics(found.folder))
    assert not list(found.folder.rglob("mine.yaml"))


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("reproduce.seeds=[]", "reproduce.seeds is []"),
        ("+reproduce.pause=1", "reproduce: no such key 'pause'"),
        ("+reproduce.arms=[one]", "reproduce.arms is"),
        ("reproduce.begin=nobody", "nobody"),
        ("reproduce.training=['units.start=-1']", "units.start is -1"),
        ("+reproduce.arms={few: [], more: ['updatez=2']}", "did you mean updates?"),
        (
            "+reproduce.arms={few: [], more: ['reference=nobody']}",
            "reproduce.arms.more: reference is 'nobody'",
        ),
        ("failed=maybe", "failed is 'maybe'"),
        ("into=nowhere.md", "into is nowhere.md, which is no file"),
    ],
)
def test_what_cannot_be_is_one_message(start, word: str, told: str):
    outcome = start("reproduce", *QUICK, word)
    outcome.failed_with(told)
    assert not list(outcome.folder.glob("learned/**/*.npz"))


def test_cells_that_play_the_same_jobs_are_one_run_of_a_setting():
    ratios = {0: 1.1, 1: 1.2, 2: 1.3}
    runs = [
        LeagueRun(f"load {load}", "w", row(name, factor * load * (window + 1), window=window))
        for load in (0.9, 1.1)
        for window, ratio in ratios.items()
        for name, factor in (("las@best", 1.0), ("las@default", ratio))
    ]
    best, default = tuning_rows(runs, between="@", confidence=0.95)
    assert (best["setting"], best["best"], default["runs"]) == ("best", 1, 6)
    logs = mean_interval(np.log(list(ratios.values())), 0.95)  # of three windows, not of six runs
    assert default["ratio"] == pytest.approx(math.exp(logs.centre))
    assert default["ratio_high"] == pytest.approx(math.exp(logs.high))


def test_arms_that_were_held_against_other_windows_have_no_ratio():
    def learned(first: int) -> Learned:
        held: dict[str, Any] = {"part": "validation", "first": first, "windows": 2}
        return Learned("arm", 0, Path(), "zero", "look_ahead",
                       {"held_out": held | {"ln_mean_jct_s": [1.0, 2.0]}}, {})  # fmt: skip

    assert learned(0).ratio_to(learned(0)).centre == 1.0
    assert math.isnan(learned(0).ratio_to(learned(1000)).centre)
