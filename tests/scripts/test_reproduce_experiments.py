"""`reproduce.py` with the experiments that train, or that set arms beside each other."""

import contextlib
from pathlib import Path

import pytest
import torch

from gpuyard.reproduction import runs
from marl.env.layout import WORKER, CodecRules
from marl.policy.build import build_policy, save_policy
from marl.topdrl.codec import NetworkSpec, ObservationSpec
from marl.topdrl.network import build_network, save_picker
from marl.topdrl.proximity import GpuScores, ProximitySpec, save_proximity
from sim.errors import GpuYardError
from tests.marl.worlds import SMALL

QUICK = ("debug=quick", "workload.num_jobs=40")
ABLATIONS = ("reproduce", "experiment=marl_ablations", *QUICK, "jobs=1")
PAPER = ("reproduce", "experiment=marl_paper", *QUICK, "windows=1")
TOPDRL = ("reproduce", "experiment=topdrl_main", *QUICK, "reproduce.seeds=[3]", "most_cells=1")
MAIN_JOB = ("reproduce", "experiment=main_job", *QUICK)
LATER = (  # the last that is trained
    "reproduce.policies.single_agent.overrides",
    "reproduce.arms.single_agents.train",
    "reproduce.pickers.proximity.overrides",
)
ARMS = ("reproduce", "experiment=interference_arms", "debug=quick", "windows=1", "jobs=1")


def stamps(folder: Path, files: str) -> dict[Path, int]:
    """When each of these files was written."""
    return {path: path.stat().st_mtime_ns for path in folder.glob(files)}


@pytest.mark.slow
@pytest.mark.ray
def test_ablations_train_play_compare_and_go_on_where_they_stopped(done):
    left_out = [
        f"reproduce.arms.{arm}=null"
        for arm in ("flat_graph", "no_graph", "nothing_seen_of_peers", "own_critic",
                    "no_warm_start", "no_interference_reward", "single_agents")
    ]  # fmt: skip
    first = done(*ABLATIONS, *left_out)
    lines = first.table("ablations.csv").set_index("arm")
    assert list(lines.index)[:2] == ["full", "no_forwarding"]
    assert lines.loc["full", "ratio"] == 1.0
    assert set(lines["windows"]) == {2} and (lines["mean_jct_h"] > 0).all()
    for name in ("comparison.csv", "ablations.csv", "ablations.md", "page.md",
                 "learning_curves.png", "report.html"):  # fmt: skip
        assert (first.folder / name).stat().st_size > 0
    kept, told = stamps(first.folder, "**/policy.pt"), first.text("ablations.csv")
    assert len([path for path in kept if path.parent.name == "policy"]) == 2
    again = done(*ABLATIONS, *left_out)
    assert stamps(first.folder, "**/policy.pt") == kept
    assert again.text("ablations.csv") == told


@pytest.fixture
def policies(tmp_path):
    """Words that name two policies with fresh weights, one of which is alone."""
    words = []
    for name, alone in (("agents", False), ("single_agent", True)):
        rules = CodecRules(window=4, only_placeable=False, sharing=True, patience_s=1e4,
                           alone=alone, granularity=WORKER, interval_s=60.0)  # fmt: skip
        save_policy(tmp_path / name, build_policy(SMALL), SMALL, rules)
        words.append(f"reproduce.policies.{name}.folder={tmp_path / name}")
    return words


@pytest.mark.slow
def test_the_papers_figure_stands_beside_ours(done, policies):
    outcome = done(*PAPER, *policies)
    published = {"agents", "single_agent", "load_balance", "tetris", "lif", "lif_linear"}
    strong = {"load_balance_strong", "tetris_strong", "lif_strong"}
    assert published | strong <= set(outcome.table()["scheduler"])
    claims = outcome.table("paper.csv")
    assert set(claims["claim"]) == {"more than 0.2"}
    assert set(claims["against"]) >= {"load_balance", "tetris", "lif", "single_agent"}
    assert not (outcome.folder / "trained").exists()


@pytest.mark.slow
def test_what_is_not_there_is_trained_once(done):
    first = done(*PAPER).folder
    assert (first / "trained" / "agents" / "policy" / "policy.json").is_file()
    written = stamps(first, "trained/agents/learning_curve.csv")
    done(*PAPER)
    assert stamps(first, "trained/agents/learning_curve.csv") == written


def test_what_other_words_left_is_begun_anew_and_an_interrupted_training_goes_on(
    tmp_path, monkeypatch, caplog
):
    folder, found, statuses = tmp_path / "agents", [], [1, 1, 0, 0]

    def program(words):
        found.append((words[1], (folder / "checkpoint").exists()))
        (folder / "checkpoint").mkdir(parents=True, exist_ok=True)
        return statuses.pop(0)

    monkeypatch.setattr(runs, "run_program", program)
    for words in ("a", "a", "a", "a", "b"):
        with contextlib.suppress(GpuYardError):
            runs.run_once(folder, ["train", words], goes_on=True)
    assert found == [("a", False), ("a", True), ("a", True), ("b", False)]
    assert caplog.text.count(f"{folder} was trained by other words; it is dropped") == 1


@pytest.mark.parametrize("word", ["reproduce.policies.agents=null", "reproduce.policies=null"])
def test_agents_without_a_policy_are_told_before_anything_is_trained(start, word: str):
    outcome = start(*PAPER[:-1], word)
    outcome.failed_with("reproduce.policies.agents is null or missing, and the line-up plays")
    assert not (outcome.folder / "trained").exists()


@pytest.mark.parametrize(
    ("experiment", "word", "told"),
    [(PAPER[:-1], "windows=0", "windows is 0; it must be"),
     (ABLATIONS, "windows=0", "windows is 0; it must be"),
     (TOPDRL, "windows=0", "windows is 0; it must be"),
     (PAPER[:-1], "ours=nobody", "ours is 'nobody'; the schedulers"),
     (ABLATIONS, "ours=nobody", "ours is 'nobody'; the schedulers"),
     (TOPDRL, "ours=nobody", "ours is 'nobody'; the schedulers"),
     (ABLATIONS, "jobs=0", "jobs is 0"), (TOPDRL, "failed=maybe", "failed is 'maybe'"),
     (PAPER[:-1], "into=nowhere.md", "into is nowhere.md, which is no file"),
     (ABLATIONS, "into=README.md", "README.md has no line"),
     (PAPER[:-1], f"{LATER[0]}=['rules.alnoe=true']", "policies.single_agent: Could not override"),
     (PAPER[:-1], f"{LATER[0]}=['warm_start.least_speed=x']",
      "policies.single_agent: warm_start.least_speed is 'x'; it must be a number"),
     (ABLATIONS, f"{LATER[1]}=['encoder.rounds=0']", "arms.single_agents: encoder.rounds is 0"),
     (TOPDRL, f"{LATER[2]}=['picker=proximity','picker.proximity.row_s=x']",
      "pickers.proximity: picker.proximity.row_s is 'x'"),
     ((*TOPDRL, "into=docs/results/topdrl.md"),
      "reproduce.cells=[{name: other, overrides: ['workload.load=0.9']}]",
      "into: no row and column of reproduce.page is of schedulers and cells"),
     (MAIN_JOB, "windows=0", "windows is 0; it must be"),
     (MAIN_JOB, "ours=nobody", "ours is 'nobody'; the schedulers here are marl"),
     (MAIN_JOB, "reproduce.runs.learn=[lern]",
      "reproduce.runs.learn: 'lern' is no program; did you mean learn?"),
     (MAIN_JOB, "reproduce.runs.learn=[base]", "learn: 'base' is no program; "),
     (MAIN_JOB, "reproduce.runs.learn=[learn,'pairz=3']", "runs.learn: Could not override")],
)  # fmt: skip
def test_what_is_done_after_training_is_planned_before(start, experiment, word: str, told: str):
    outcome = start(*experiment, word)
    outcome.failed_with(told)
    assert not (outcome.folder / "trained").exists() and not (outcome.folder / "runs").exists()


def test_a_policy_without_its_keys_is_one_message(start, policies):
    words = [policies[0], "~reproduce.policies.single_agent.quick"]
    start(*PAPER, *words).failed_with("reproduce.policies.single_agent: has no quick; add quick:")


@pytest.fixture(scope="module")
def pickers(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Random policies for the 64 GPUs of debug=quick, as words of the command line."""
    root = tmp_path_factory.mktemp("policies")
    torch.manual_seed(0)
    observed = ObservationSpec(slots=8, oldest_slots=0, order="worth", rows=10, row_s=60.0,
                               row_growth=1.5, block_gpus=8)  # fmt: skip
    for name, branches in (("topdrl", "multi"), ("single_branch", "single")):
        spec = NetworkSpec(branches=branches, channels=2, hidden=8, server_gpus=8, racks=2,
                           rack_servers=4)  # fmt: skip
        save_picker(root / name, build_network(spec, observed).state_dict(), spec, observed)
    gpus = ProximitySpec(row_s=100.0, most_rows=50, most_gang=8, server_weight=0.25,
                         rack_weight=0.5, hidden=8, gpus=64)  # fmt: skip
    save_proximity(root / "proximity", GpuScores(gpus).state_dict(), gpus)
    return [f"reproduce.pickers.{path.name}.folder='{path}'" for path in sorted(root.iterdir())]


@pytest.mark.slow
def test_topdrl_compares_all_and_goes_on_where_it_stopped(done, pickers):
    first = done(*TOPDRL, *pickers)
    compared, runs = first.table(), 2 * 11  # windows x schedulers, one cell, one seed
    assert len(compared) == runs and set(compared["seed"]) == {3}
    assert (compared["throughput_tflops"] > 0).all()
    assert (compared["placement_cost_ratio"] >= 1 - 1e-9).all()
    assert set(compared["information"]) <= {"none", "oracle"}
    assert (first.table("tests.csv")["role"] == "published").sum() == 6
    assert "claimed: up to 0.47 higher" in first.out
    assert first.text("page.md").startswith("| over | gen. 0.64 |")
    for name in ("throughput.md", "throughput.png", "jct_all_mean_s.png"):
        assert (first.folder / name).stat().st_size > 0
    before = stamps(first.folder, "parts/*")
    assert len(before) == runs
    dropped = sorted(before)[0]
    dropped.unlink()
    done(*TOPDRL, *pickers)
    after = stamps(first.folder, "parts/*")
    assert {path for path in after if after[path] != before[path]} == {dropped}


BASE = "sjf+consolidated+selective1.2"
# The arms of one scheduler, and blind fallback sharing, which `none` should be.
FEW = "lineup.entries=[" + ",".join(
    f"{{role: global_queue, agents: 1, name: {BASE}@{arm},"
    f" overrides: ['scheduler=sjf', 'sharing={sharing}', '+belief={belief}']}}"
    for arm, sharing, belief in (
        *((name, "selective", name) for name in ("none", "linear", "learned", "oracle")),
        ("fallback", "fallback", "none"),
    )
) + "]"  # fmt: skip
BUSY = ("workload.num_jobs=300", "workload.load=1.5")  # jobs enough that some must share
OVER = (f"reproduce.ratio_to={BASE}@none", "reproduce.arms=[none,oracle]")


@pytest.mark.slow
@pytest.mark.usefixtures("real_data")
def test_arms_differ_by_what_they_are_told(done):
    outcome = done(*ARMS, FEW, *BUSY, *OVER)
    table = outcome.table("arms.csv").set_index(["cell", "arm"])
    assert set(table["scheduler"]) == {BASE}
    for cell in ("P100, Venus-like", "V100, Venus-like"):
        jct = table.loc[cell]["jct_mean_s"]
        assert jct["none"] == jct["fallback"]  # no model: shares whatever fits into memory
        assert jct.drop("fallback").nunique() == 4
        over = table.loc[cell]["over_oracle"]
        assert over["none"] == pytest.approx(jct["none"] / jct["oracle"])
    runs = outcome.table()
    assert set(runs["physics"]) == {"measured"}
    told = runs["scheduler"].str.partition("@")[2].replace("fallback", "none")
    assert (runs["interference_info"] == told).all()


@pytest.mark.slow
@pytest.mark.usefixtures("real_data")
def test_the_whole_line_up_of_arms_in_small(done):
    outcome = done(*ARMS, "most_cells=1")
    table = outcome.table("arms.csv")
    assert set(table["cell"]) == {"P100, Venus-like"}
    counts = table.groupby("scheduler")["arm"].nunique()
    # no sharing and five beliefs; least interference first also with empty GPUs first
    assert counts.map(lambda n: n in {6, 7}).all() and len(counts) == 6
    assert "over none | over no_sharing | over oracle" in outcome.text("arms.md")


def test_without_the_measured_files_it_says_so(start, monkeypatch, tmp_path):
    monkeypatch.setenv("GPUYARD_DATA", str(tmp_path))
    path = tmp_path / "colocation" / "gavel_pairs.csv"
    start(*ARMS).failed_with("no cell is left", str(path))


@pytest.mark.parametrize(("experiment", "told"), [
    ((*ARMS, "reproduce.arms=none"), ("reproduce.arms is 'none'", "like [none]")),
    ((*ABLATIONS, "reproduce.whole=half"),
     ("reproduce.whole is 'half'; the arms are full, flat_graph",)),
    ((*ABLATIONS, "+reproduce.arms.full.pause=[]"), ("reproduce.arms.full: no such key 'pause'",)),
    ((*ABLATIONS, "reproduce.training=['policy.critic=nobody']"), ("be shared or own",)),
])  # fmt: skip
def test_what_cannot_be_is_one_message(start, experiment, told):
    start(*experiment).failed_with(*told)
