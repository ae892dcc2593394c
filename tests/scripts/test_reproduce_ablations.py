"""`reproduce.py experiment=marl_ablations`: files, resuming, messages."""

import csv
from pathlib import Path

import pytest

WORDS = ("experiment=marl_ablations", "debug=quick", "jobs=1", "workload.num_jobs=40")
LEFT_OUT = [
    f"reproduce.arms.{arm}=null"
    for arm in ("flat_graph", "no_graph", "nothing_seen_of_peers", "own_critic", "no_warm_start",
                "no_interference_reward", "single_agents")
]  # fmt: skip
FILES = ("comparison.csv", "ablations.csv", "ablations.md", "page.md", "learning_curves.png",
         "report.html")  # fmt: skip


def rows(folder: Path, name: str) -> dict[str, dict[str, str]]:
    with (folder / name).open(newline="") as file:
        return {row["arm"]: row for row in csv.DictReader(file)}


@pytest.mark.slow
@pytest.mark.ray
def test_it_trains_plays_compares_and_goes_on_where_it_stopped(done):
    first = done("reproduce", *WORDS, *LEFT_OUT, folder="first")
    lines = rows(first.folder, "ablations.csv")
    assert list(lines)[:2] == ["full", "no_forwarding"]
    assert float(lines["full"]["ratio"]) == 1.0
    assert {line["windows"] for line in lines.values()} == {"2"}
    assert all(float(line["mean_jct_h"]) > 0 for line in lines.values())
    assert all((first.folder / name).stat().st_size > 0 for name in FILES)
    kept = {path: path.stat().st_mtime_ns for path in first.folder.rglob("policy.pt")}
    assert len([path for path in kept if path.parent.name == "policy"]) == 2
    again = done("reproduce", *WORDS, *LEFT_OUT, folder="first")
    assert {path: path.stat().st_mtime_ns for path in again.folder.rglob("policy.pt")} == kept
    assert rows(again.folder, "ablations.csv") == lines


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("reproduce.whole=half", "reproduce.whole is 'half'; the arms are full, flat_graph"),
        ("+reproduce.arms.full.pause=[]", "reproduce.arms.full has"),
        ("reproduce.training=['policy.critic=nobody']", "it must be shared or own"),
    ],
)
def test_what_cannot_be_is_one_message(start, word: str, told: str):
    start("reproduce", *WORDS, word).failed_with(told)
