"""`simulate.py`: defaults, files, errors, sweeps, outages, what a start leaves out."""

import fcntl
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import yaml

import gpuyard
from tests.forking import environment

ROOT = Path(__file__).resolve().parents[2]
PLAIN = ("interference=none", "network=none", "topology=small_leaf_spine")
ONE_SERVER = ("topology.servers=1", "topology.servers_per_rack=1", *PLAIN)


def csv(trace) -> tuple[str, ...]:
    return "workload=csv", f"workload.path={trace}"


def test_a_whole_trace_with_the_defaults(done, trace):
    """8 GPUs: a and b side by side till 10 and 11, c (8 GPUs, 0 s) at 11, d at 30 till 35."""
    outcome = done("simulate", *csv(trace), *ONE_SERVER, "log_decisions=true", "seed=5")
    jobs = outcome.jobs()
    assert jobs["finish_s"].tolist() == [10.0, 11.0, 11.0, 35.0]
    assert jobs["measured"].all()
    metrics, record = outcome.read(), outcome.read("record.json")
    assert (metrics.pop("decides"), metrics["jobs_finished"]) == ("compiled", 4)
    assert metrics["jct_mean_s"] == (10 + 10 + 9 + 5) / 4
    assert all(value is None or isinstance(value, int | float) for value in metrics.values())
    assert (record["scheduler"], record["agents"], record["seed"]) == ("fifo+consolidated", 1, 5)
    assert (record["load"], record["physics"], record["role"]) == (None, "none", "published")
    assert record["versions"]["numba"]
    config = yaml.safe_load(outcome.text("config.yaml"))
    assert config["sharing"]["_target_"].endswith("NoSharing")
    caps = ("max_gang", "min_duration_s", "max_duration_s", "load", "thin", "num_jobs")
    assert [config["workload"][key] for key in caps] == [None] * len(caps)
    orders = pd.read_parquet(outcome.folder / "decisions.parquet")
    assert orders["job_id"].tolist() == ["a", "b", "c", "d"]
    assert orders["time_s"].tolist() == [0.0, 1.0, 11.0, 30.0]
    assert set(orders["order"]) == {"start"}
    assert orders["gpus"].map(len).tolist() == [4, 4, 8, 1]
    assert (outcome.folder / "simulate.log").is_file()

    other = ("seed=5", "compiled=false", "topology.gpu_types=[abacus]")
    again = done("simulate", *csv(trace), *ONE_SERVER, *other, folder="again")
    assert again.read()["decision_ms_mean"] > 0 and "compiling" not in again.err
    assert "abacus: k80's profile x 1 (physics is off)" in again.out
    pd.testing.assert_frame_equal(again.jobs(), jobs)


def test_a_folder_that_another_run_writes_to_is_refused_until_that_ends(start, tmp_path):
    words = ("simulate", "scheduler=sjf", "workload.num_jobs=20")
    (tmp_path / "run").mkdir()
    held = os.open(tmp_path / "run", os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    refused = start(*words)
    assert refused.status == 1 and "another run writes there now" in refused.err
    assert not (tmp_path / "run" / "metrics.json").exists()
    os.close(held)
    for _ in range(2):
        assert start(*words).status == 0


def test_words_that_change_nothing_beside_others_are_told(done):
    words = ("max_tenants=1", "sharing=always", "checkpoint_s=30", "preempt_saves=false")
    outcome = done("simulate", "scheduler=sjf", "workload.num_jobs=20", *words)
    told = [word for word in words if f"{word} changes nothing" in outcome.err]
    assert told == list(words[1:3])


def test_a_cluster_of_today_runs_with_physics_and_says_what_it_assumes(done):
    fabric = "topology.oversubscription=8"
    words = ("topology=h100_rails", fabric, "scheduler=sjf", "workload.num_jobs=60")
    outcome = done("simulate", *words)
    assert f"{fabric} changes no time: network=alpha_beta" in outcome.err
    assert "changes nothing" not in outcome.err
    line = "h100: a100's profile x 1.9 (assumed); in 80 GiB any two jobs fit"
    assert line in outcome.out and line in outcome.err
    assert line in outcome.read("record.json")["assumed"]
    assert outcome.read()["jobs_finished"] == 60
    assert line in done("compare", f"sweep={outcome.folder}", folder="compared").text()


def test_a_forest_described_before_it_had_all_its_keys_is_as_it_was(done, trace):
    words = ("scheduler=sjf", "estimator=random_forest", "~estimator.gittins")
    told = "by a random forest on finished jobs (gittins: off)"
    assert told in done("simulate", *csv(trace), *words).out


def test_a_run_says_in_one_line_what_it_takes_for_granted(done, trace):
    words = ("scheduler=sjf", "agents.count=3", "workload.max_gang=4")
    outcome = done("simulate", *csv(trace), *words)
    line = (
        "assumes durations: noisy predictions, sigma 1; models drawn; gangs cut to 4 GPUs; "
        "3 partitions of unequal size: 48, 40, 40 GPUs; physics on (shipped); load as it comes"
    )
    assert line in outcome.out and line in outcome.err
    plain = done("simulate", "workload.num_jobs=50", *PLAIN, folder="plain")
    assert (
        "assumes durations unknown to the scheduler; gangs cut to 16 GPUs; durations kept within "
        "30 s and 48 h; 1 generated job in 8 kept; physics off; times stretched to load 0.9\n"
    ) in plain.out


def test_the_table_has_whole_counts_hours_and_no_nan_and_a_load_in_percent_is_told(done, trace):
    hour = ("workload.min_duration_s=3600", "workload.load=90")
    outcome = done("simulate", *csv(trace), *ONE_SERVER, *hour)
    assert "jobs ask for 90 times the GPUs there are (0.9: for 90 % of them)" in outcome.out
    table = dict(line.split(maxsplit=1) for line in outcome.out.splitlines() if line[:2] == "  ")
    assert table["jobs_finished"] == "4"
    assert table["jct_p50_s"].split() == ["5,398.6", "1.50", "h"]  # A, B 1 h, C 2 h, D 3 h
    assert table["decision_ms_mean"] == "-  (compiled: not timed one by one)"
    assert "nan" not in outcome.out


def test_fairness_between_users_that_nobody_names_is_a_warning(done, trace):
    words = "drf+consolidated shares between users, and no job names its user"
    assert words in done("simulate", *csv(trace), *PLAIN, "scheduler=drf").err
    users = done("simulate", "workload.num_jobs=20", *PLAIN, "scheduler=drf", folder="users")
    assert words not in users.err


def test_a_type_named_in_a_file_is_told_with_its_line(start, trace, tmp_path):
    nodes = tmp_path / "nodes.csv"
    nodes.write_text("host,gpu,kind\na,8,v100\nb,8,abacus\n")
    columns = "topology.columns={server: host, gpus: gpu, gpu_type: kind}"
    words = (f"topology.path={nodes}", columns, "topology.servers_per_rack=2")
    start("simulate", *csv(trace), "topology=node_list", *words).failed_with(
        f"{nodes}, line 3, column 'kind': GPU type 'abacus'", "+gpus.abacus.like"
    )


def test_a_type_named_in_an_own_configuration_is_told_with_its_line(start, trace, tmp_path):
    own = tmp_path / "own" / "topology" / "mine.yaml"
    own.parent.mkdir(parents=True)
    text = (ROOT / "conf" / "topology" / "small_leaf_spine.yaml").read_text()
    own.write_text(text.replace("[p100]", "\n  - p100\n  - abacus"))
    line = own.read_text().splitlines().index("  - abacus") + 1
    words = ("--config-dir", str(own.parents[1]), "topology=mine", *csv(trace))
    start("simulate", *words).failed_with(f"{own}, line {line}: gpu_types: GPU type 'abacus'")


def test_a_window_of_a_part_counts_its_middle_only(done):
    outcome = done("simulate", "part=test", "window=3", "workload.num_jobs=100", *PLAIN)
    jobs = outcome.jobs()
    assert (len(jobs), int(jobs["measured"].sum())) == (100, 60)
    assert outcome.read("record.json")["window"] == 3


@pytest.mark.parametrize(("words", "told"), [
    (("compiled=perhaps",), ("compiled is 'perhaps'", "true or false")),
    (("max_tenants=1000000000",), ("max_tenants is 1000000000", "from 1 to 1000")),
    (("gpu_oversubscription=1e18",), ("gpu_oversubscription is 1e+18", "null, or from 1 to")),
    (("max_tenants=none",), ("max_tenants is 'none'", "whole number from 1")),
    (("reference_gpu=a101",), ("reference_gpu is 'a101'", "p100", "+gpus.a101.like")),
    (("topology.gpu_types=[h1000]", "network=alpha_beta"),
     ("topology.gpu_types=[h1000] (command line)", "mean 'h100'?", "+gpus.h1000.speed")),
    (("gpus.h100.speed=-1",), ("gpus.h100.speed is -1",)),
    (("window=2",), ("window is 2", "part=test")),
    (("placer=null",), ("placer=null", "consolidated, delay", "leave it out")),
    (("belief=3",), ("belief=3", "belief=none switches it off")),
    (("workload.num_jobs=1e3",), ("workload.num_jobs is 1000.0", "write 1000")),
    (("seed=1e3",), ("seed is 1000.0", "write 1000")),
    (("checkpoint=pretrained",), ("checkpoint is 'pretrained'", "scheduler=marl")),
    (("agents.count=8", "topology.gpus_per_server=2"), ("c", "fits none", "agents")),
    (("topology.gpus_per_server=4", "topology.servers=1", "topology.servers_per_rack=1"),
     ("job c", "8 GPUs", "workload.max_gang=4", "workload.drop_too_large=true")),
    (("agents.division=group",), ("agents.division is 'group'", "contiguous or groups")),
    (("interference=own",), ("add profiles=own profiles.path=DIR",)),
    (("agents=2",), ("the number of agents is agents.count",)),
    (("agents.division=groups",), ("has no groups", "agents.division=contiguous")),
    (("workload.path=nowhere.csv",), ("nowhere.csv",)),
    (("outages=file", "outages.path=none.csv"), ("none.csv", "set outages.path")),
    (("outages=failures", "outages.shape=0"), ("outages.shape is 0",)),
    (("experiment=headlin",), ("did you mean experiment=headline?",)),
    (("experiment=worl_main",), ("for: python scripts/reproduce.py experiment=worl_main",)),
    (("workload=venus_like",), ("add workload=csv",)),
])  # fmt: skip
def test_what_cannot_be_is_one_message(start, trace, words, told):
    start("simulate", *csv(trace), *PLAIN, *words).failed_with(*told)


def test_a_bad_row_or_word_leaves_an_older_result(start, done, trace):
    before = contents(done("simulate", *csv(trace), *PLAIN, "explain=d").folder)
    rows = trace.read_text()
    for more, word, told in (
        ("", "explain=z", ("explain is 'z'",)),
        ("e,40,1,-5\n", "seed=0", ("jobs.csv", "6", "duration_s", "-5")),
    ):
        trace.write_text(rows + more)
        wrong = start("simulate", *csv(trace), *PLAIN, word)
        assert wrong.status == 1 and all(each in wrong.err for each in told), wrong.err
        assert contents(wrong.folder) == before
    trace.write_text(rows)
    after = contents(done("simulate", *csv(trace), *PLAIN, "scheduler=sjf").folder)
    assert after["record.json"] != before["record.json"] and "explain.json" not in after


def contents(folder):
    """Every file but the log."""
    return {path.name: path.read_bytes() for path in folder.glob("*.*")
            if path.is_file() and path.suffix != ".log"}  # fmt: skip


def test_a_sweep_and_its_comparison(done, start):
    """Two clusters by two numbers of agents; agents=1 has one queue, so no forwarding rule."""
    sweep = done(
        "simulate", "-m", "topology=small_leaf_spine,headline_leaf_spine", "agents.count=1,2",
        "workload.num_jobs=60", "scheduler=sjf", folder="sweep", sweep=True,
    )  # fmt: skip
    compared = done("compare", f"sweep={sweep.folder}", folder="compared")
    table = compared.table()
    assert set(zip(table["topology"], table["agents"], strict=True)) == {
        (name, count) for name in ("small_leaf_spine", "headline_leaf_spine") for count in (1, 2)
    }
    assert set(table["scheduler"]) == {"sjf+consolidated", "sjf+consolidated+own"}
    assert len(table) == 4 and list(table.columns[:3]) == ["scheduler", "topology", "workload"]
    for name in ("jct_bars.png", "jct_cdf.png", "comparison.md", "report.html"):
        assert (compared.folder / name).stat().st_size > 0
    assert "mean JCT [h] over topology / agents" in compared.out
    assert "2 agents" in compared.text()
    again = done("compare", f"sweep=[{sweep.folder},{compared.folder.parent}]", folder="again")
    assert "4 runs" in again.out  # each once, and no comparison of comparisons
    start("compare", "sweep=nowhere", folder="no").failed_with("nowhere", "no folder")
    shown = re.findall(r"Jobs by server: .*?, seed 0, window 0", compared.text("report.html"))
    assert len(shown) == 1 and (compared.folder / "sweep.png").is_file()
    config = next(sweep.folder.glob("0_*")) / "config.yaml"
    config.write_text(config.read_text().replace("num_jobs: 60", "num_jobs: 50"))
    changed = done("compare", f"sweep={sweep.folder}", folder="changed")
    assert "is not drawn server by server: played again, its mean JCT is" in changed.err


def test_equal_runs_are_refused_with_both_folders(done, start, trace):
    for name in ("one", "two"):
        done("simulate", *csv(trace), *PLAIN, folder=f"same/{name}")
    top = trace.parent / "same"
    start("compare", f"sweep={top}", folder="no").failed_with("same/one", "same/two")


def test_models_that_no_profile_is_of_are_counted(done, trace):
    models = ["model", "bert", "resnet50", "bert", "gpt2"]
    rows = zip(trace.read_text().splitlines(), models, strict=True)
    trace.write_text("".join(f"{row},{model}\n" for row, model in rows))
    words = ("simulate", *csv(trace), "workload.columns.model=model", "scheduler=fifo")
    drawn = "theirs are drawn"
    said = f"3 of 4 jobs name models that profiles lack (bert, gpt2); {drawn}"
    assert done(*words).err.count(said) == 1
    wrong = done(*words, "+workload.rules.models={bert: Tranformer, gpt2: LM}")
    assert "('Tranformer' is none; did you mean 'Transformer'?)" in wrong.err
    assert drawn not in done(*words, "+workload.rules.models={bert: Transformer, gpt2: LM}").err


def test_a_long_run_says_that_it_is_measured_now(done, trace):
    rows = [f"j{row},{row},64,1" for row in range(8_000)]  # a million GPUs taken and given back
    trace.write_text("\n".join(["job_id,submit_s,num_gpus,duration_s", *rows]))
    one = (*ONE_SERVER, "topology.gpus_per_server=64")
    outcome = done("simulate", *csv(trace), *one, "page=false")
    assert "; measuring 1,024,000 changes of GPUs" in outcome.err


BARE_SERVER = (
    "topology.servers=1", "topology.servers_per_rack=1", "interference=none", "network=none",
    "restart_s=0",
)  # fmt: skip
CLOSED = {"first_s": "5", "duration_s": "1", "every_s": "1000"}
FAILS = {"mtbf_s": "8", "repair_median_s": "1", "horizon_s": "40"}
Finishes = Callable[..., dict[str, float]]


@pytest.fixture
def finishes(trace: Path) -> Finishes:
    """When jobs end on one server whose outages are of that kind."""

    def found(kind: str, *words: str, under: str = "", **values: str) -> dict[str, float]:
        told = (f"outages.{under}{key}={value}" for key, value in values.items())
        given = [*BARE_SERVER, f"outages={kind}", *words, *told]
        jobs = gpuyard.simulate(trace, "small_leaf_spine", overrides=given).jobs
        return dict(zip(jobs["job_id"], jobs["finish_s"], strict=True))

    return found


def test_a_file_of_changes_moves_what_runs(finishes: Finishes, tmp_path: Path):
    # a (0 to 10) and b (1 to 11) lose all they did at 5; back at 6 they pay no restart and start
    # anew: 16 both. c (0 s) ends then; d, 5 s, comes at 30, is sent away at 32 with 2 s done, and
    # ends 3 s after 40.
    changes = tmp_path / "changes.csv"
    changes.write_text("time_s,server,change\n5,0,fail\n6,0,open\n32,0,close\n40,0,open\n")
    assert finishes("file", path=str(changes)) == {"a": 16.0, "b": 16.0, "c": 16.0, "d": 43.0}


def test_maintenance_closes_the_server_in_its_turn(finishes: Finishes):
    closed = {"a": 11.0, "b": 12.0, "c": 12.0, "d": 35.0}
    assert finishes("maintenance", **CLOSED) == closed
    silent = "outages.failures.horizon_s=1e-9"
    assert finishes("both", silent, under="maintenance.", **CLOSED) == closed


def test_failures_are_seeded(finishes: Finishes):
    one = finishes("failures", **FAILS)
    assert one["a"] > 10.0
    silent = "outages.maintenance.first_s=1e9"
    assert finishes("both", silent, under="failures.", **FAILS) == one


HEAVY = ("pandas", "matplotlib", "rich", "sklearn", "torch", "ray", "joblib")

LOADING = """
import json, sys
sys.argv[0] = "scripts/simulate.py"
from gpuyard.command import run
run("simulate")
print(json.dumps(sorted(sys.modules)))
"""


def run(code: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=300,
    )  # fmt: skip


def words(trace: Path, folder: Path) -> list[str]:
    return [
        "workload=csv", f"workload.path={trace}", "topology=small_leaf_spine", "interference=none",
        "network=none", f"hydra.run.dir={folder}",
    ]  # fmt: skip


def test_a_run_loads_no_heavy_library(trace, tmp_path):
    done = run(LOADING, *words(trace, tmp_path / "run"))
    assert done.returncode == 0, done.stderr
    loaded = json.loads(done.stdout.splitlines()[-1])
    assert [name for name in HEAVY if name in loaded] == []


def test_a_wrong_value_of_a_training_is_told_before_torch_and_ray_load(tmp_path):
    code = LOADING.replace('run("simulate")', 'try: run("train")\nexcept SystemExit: pass')
    done = run(code.replace("simulate", "train"), "algo.gamma=2", f"hydra.run.dir={tmp_path}")
    assert "algo.gamma is 2; it must be above 0, at most 1" in done.stderr
    assert not (tmp_path / "learning_curve.csv").exists()
    loaded = json.loads(done.stdout.splitlines()[-1])
    assert [name for name in ("torch", "ray", "pandas") if name in loaded] == []


def test_a_word_or_a_file_may_say_that_it_is_a_sweep(start, trace, tmp_path):
    (tmp_path / "own/experiment").mkdir(parents=True)
    (tmp_path / "own/experiment/seeds.yaml").write_text(
        "# @package _global_\nhydra:\n  mode: MULTIRUN\n  sweeper:\n    params:\n      seed: 1,2\n"
    )
    given = [w for w in words(trace, Path("unused")) if not w.startswith("hydra.run")]
    file = ("experiment=seeds", f"hydra.searchpath=[file://{tmp_path / 'own'}]")
    for at, own in enumerate((("hydra.mode=MULTIRUN", "seed=1,2"), file)):
        outcome = start("simulate", *given, *own, folder=f"sweep {at}", sweep=True)
        assert outcome.status == 0, outcome.err
        assert len(list(outcome.folder.rglob("metrics.json"))) == 2


def test_values_to_sweep_without_a_sweep_are_refused(start, trace):
    given = [w for w in words(trace, Path("unused")) if not w.startswith("hydra.run")]
    start("simulate", *given, "seed=1,2").failed_with("seed=1,2")
