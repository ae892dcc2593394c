"""`reproduce.py experiment=worl_main` in small: files, going on, and what it refuses."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from gpuyard.pages.page import sections_of
from gpuyard.reproduction.dag_report import page_tables, reductions
from marl.env.plan_env import PlacementNetwork, save_plan_policy
from sim.errors import override
from tests.forking import run_program

ROOT = Path(__file__).resolve().parents[2]
SMALL = (
    "experiment=worl_main", "debug=quick", "reproduce.families.alibaba=null",
    "reproduce.families.pipedream=null", "reproduce.families.dnn_partitioning=null",
    "reproduce.families.random=null",
)  # fmt: skip


def call(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run_program(["scripts/reproduce.py", *words, f"hydra.run.dir={folder}"])


def test_small_and_again(tmp_path):
    words = (*SMALL, "reproduce.quick.draws=2")
    first = call(tmp_path, *words)
    assert first.returncode == 0, first.stderr
    left = {path.name for path in tmp_path.iterdir()}
    assert left >= {"comparison.csv", "standings.csv", "reductions.csv", "ranks.csv", "report.md",
                    "ranks.png", "progress.png", "parts"}  # fmt: skip
    table = pd.read_csv(tmp_path / "comparison.csv")
    assert len(table) == 4 * 10 and set(table["network"]) == {"busy", "idle"}
    assert (table["makespan_s"] >= table["lower_bound_s"] * (1 - 1e-12)).all()
    searched = table[~table["method"].isin(["heft", "cpop", "peft"])]
    assert set(searched["judged"]) == {40}  # the same budget for all
    saved = pd.read_csv(tmp_path / "reductions.csv").set_index(["family", "rival"])
    by = table.set_index(["problem", "method"])["makespan_s"]
    assumed = json.loads((tmp_path / "record.json").read_text())["assumed"]
    assert assumed[0].startswith("DAGs and networks: ") and "without noise" in " ".join(assumed)
    assert assumed[-1].startswith("every search may judge")
    saves = {p: 1 - by[p, "worl_rtgs"] / by[p, "rtgs"] for p in table["problem"].unique()}
    pairs = saves.values()
    assert saved.loc[("layered", "rtgs"), "mean"] == pytest.approx(sum(pairs) / 4, abs=1e-4)
    dags = [np.mean([one for p, one in saves.items() if p.endswith(draw)]) for draw in "01"]
    half = 12.706 * np.std(dags, ddof=1) / 2**0.5  # t over two DAGs: networks are no draws
    assert saved.loc[("layered", "rtgs"), "high"] == pytest.approx(np.mean(dags) + half, abs=1e-3)
    assert set(pd.read_csv(tmp_path / "ranks.csv")["blocks"]) == {2}
    assert saved.loc[("layered", "rtgs"), "worst"] == pytest.approx(min(pairs), abs=1e-4)
    assert "66.56" in (tmp_path / "report.md").read_text()
    page = (tmp_path / "page.md").read_text()
    assert "| makespan over HEFT's | " in page and "| `heft` | " in page
    (figure,) = sections_of((tmp_path / "views.json").read_text())
    (ours,) = [line for line in figure.data if line["meta"] == "worl_rtgs"]
    assert ours["x"][-1] == 40.0 and ours["y"] == sorted(ours["y"], reverse=True)
    assert figure.title in (tmp_path / "report.html").read_text(encoding="utf-8")

    parts = {path: path.stat().st_mtime_ns for path in (tmp_path / "parts").iterdir()}
    next(iter(parts)).unlink()  # as if it had been stopped
    again = call(tmp_path, *words)
    assert "40 runs, 39 of them done before" in again.stderr
    later = {path: path.stat().st_mtime_ns for path in (tmp_path / "parts").iterdir()}
    assert len(later) == 40 and sum(later[p] == parts[p] for p in later) == 39
    pd.testing.assert_frame_equal(
        pd.read_csv(tmp_path / "comparison.csv").drop(columns="cpu_s"), table.drop(columns="cpu_s")
    )


ONE_PROBLEM = (
    *SMALL, "~reproduce.families.layered.networks.idle", "reproduce.families.layered.graphs=[20]",
    "reproduce.families.layered.gpus=[4]", "reproduce.quick.budget=4",
    "~reproduce.quick.most_tasks", "~reproduce.quick.most_graphs",
    *(f"~reproduce.methods.{name}" for name in ("rtgs", "woa", "ga", "local_search", "cpop",
                                                "random_ranks", "peft")),
)  # fmt: skip


def test_one_problem_has_no_interval(tmp_path):
    done = call(tmp_path, *ONE_PROBLEM)
    assert done.returncode == 0, done.stderr
    assert len(pd.read_csv(tmp_path / "comparison.csv")) == 3
    told = [(tmp_path / name).read_text() for name in ("page.md", "report.md")]
    assert not any("nan" in each for each in (*told, done.stdout))
    assert all("%, worst " in each for each in told)
    assert not (tmp_path / "ranks.csv").exists()


def test_one_method_has_no_rivals_to_save_from(tmp_path):
    words = (*ONE_PROBLEM, "~reproduce.methods.policy_gradient", "~reproduce.methods.worl_rtgs",
             "reproduce.ours=heft")  # fmt: skip
    done = call(tmp_path, *words)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr and "Warning" not in done.stderr
    assert (tmp_path / "page.md").read_text().splitlines()[-1] == "| mean | 1 |"
    assert "saved" not in done.stdout
    assert not [name for name in ("reductions.csv", "progress.png") if (tmp_path / name).exists()]


def test_searches_are_run_again_once_a_file_that_they_read_is_another(tmp_path):
    graphs, policy, run = tmp_path / "graphs", tmp_path / "policy", tmp_path / "run"
    words = [
        "experiment=worl_learned", "debug=quick", "reproduce.families.alibaba=null",
        "reproduce.families.layered=null", "reproduce.families.dnn_partitioning=null",
        "reproduce.families.random=null", "reproduce.methods.cpop=null",
        "reproduce.families.pipedream.graphs=[g.txt]",
        override("reproduce.families.pipedream.source.folder", graphs),
        *(override(f"reproduce.methods.{each}.checkpoint", policy) for each in LEARNED),
    ]  # fmt: skip
    graphs.mkdir()
    for seed, done_before in ((0, 0), (0, 22), (1, 18)):
        save_policy(policy, seed)
        write_graph(graphs / "g.txt", 1.0)
        done = call(run, *words)
        assert f"22 runs, {done_before} of them done before" in done.stderr, done.stderr
    write_graph(graphs / "g.txt", 2.0)
    assert "22 runs, 0 of them done before" in call(run, *words).stderr


LEARNED = ("worl_dqn", "dqn_placer")


def save_policy(folder: Path, seed: int) -> None:
    folder.mkdir(exist_ok=True)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        save_plan_policy(folder, PlacementNetwork(8).state_dict(), 8)


def write_graph(path: Path, forward_ms: float) -> None:
    node = "node{} -- Linear() -- forward_compute_time={}, backward_compute_time=2.0, "
    node += "activation_size=1000.0, parameter_size=1000.0"
    lines = [node.format(1, forward_ms), node.format(2, 1.0), "\tnode1 -- node2"]
    path.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("reproduce.program=dag_plan",), "did you mean dag_plans?"),
        (("reproduce.quick.budget=0",), "reproduce.budget is 0"),
        (("+reproduce.bugdet=3",), "did you mean budget?"),
        (("reproduce.families.layered.source.shape=round",), "shape 'round' is unknown"),
        (("reproduce.families.layered.gpus=[2,3]",), "2 numbers for 3 graphs"),
        (("~reproduce.per_server",), "reproduce: has no per_server; add per_server:"),
        (("~reproduce.families.layered.draws",), "reproduce.families.layered: has no draws"),
        (("reproduce.learned=null",), "reproduce.learned is None; it must be a list of methods"),
        (("reproduce.methods=null",), "reproduce.methods is None; give at least one by name"),
        (("reproduce.kinds.v100=1",), "kinds.v100 is 1; give [speed over a V100, GiB]"),
        (("reproduce.quick.most_tasks=10",), "families has no graph left (debug leaves out"),
    ],
)
def test_what_cannot_be_is_one_message(tmp_path, words, told):
    done = call(tmp_path, *SMALL, *words)
    assert done.returncode == 1 and told in done.stderr, done.stderr
    assert done.stderr.count("error:") == 1 and "Traceback" not in done.stderr
    assert not (tmp_path / "comparison.csv").exists()


PLACERS = ("packed", "consolidated", "compact_wait")
OTHERS = {"fifo_skip+packed", "smallest_gang+packed"} | {
    f"{order}+{placer}" for order in ("sjf", "srsf", "srtf") for placer in PLACERS
}


def test_small(tmp_path):
    words = ("experiment=worl_online", "debug=quick", "most_cells=1", "windows=1", "jobs=1")
    done = call(tmp_path, *words)
    assert done.returncode == 0, done.stderr
    table = pd.read_csv(tmp_path / "comparison.csv").set_index("scheduler")
    plain = {"shortest_workflow", "first_workflow", "heft_ranks"}
    assert set(table.index) == {"worl_online", *plain, *OTHERS}
    assert (table["workflows_finished"] > 5).all() and (table["jobs_unfinished"] == 0).all()
    assert set(table.loc[["worl_online", *plain], "information"]) == {"oracle"}
    saved = pd.read_csv(tmp_path / "paper.csv").set_index("against")["measured"]
    time_s = table["workflow_time_mean_s"]
    expected = 1 - time_s["worl_online"] / time_s["sjf+compact_wait"]
    assert saved["sjf+compact_wait"] == pytest.approx(expected, abs=1e-3)


def test_what_is_almost_level_is_not_told_as_minus_nothing():
    times_s = {"ours": 100.0004, "heft": 100.0}
    rows = [{"problem": "p", "dag": "d", "family": "f", "method": name, "makespan_s": time_s}
            for name, time_s in times_s.items()]  # fmt: skip
    assert "-0.0" not in str(reductions(rows, ours="ours", confidence=0.95))
    saved = {"rival": "heft", "low": -0.0004, "high": 0.0, "mean": -0.0002, "worst": -0.0004,
             "best": -0.0001}  # fmt: skip
    settings = {"ours": "ours", "methods": ["heft"], "learned": []}
    assert "| 0.0 % [0.0, 0.0], worst 0.0 %, best 0.0 % |" in page_tables(
        {"heft": 1.0}, [saved], settings
    )
