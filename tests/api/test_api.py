"""`import gpuyard`: the page of examples, own schedulers, and what is refused."""

import json
import re
import subprocess
import sys
import traceback
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import gpuyard
from gpuyard.launch.errors import ConfigError
from sim.decision import WAIT, Decision, Start
from sim.errors import GpuYardError, TraceError
from sim.schedulers.orders import Sjf
from sim.sharing import NoSharing
from sim.topology.generators import leaf_spine
from sim.view import Signal
from tests.forking import run_program

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "api.md").read_text(), re.DOTALL)
OFF = ["interference=none", "network=none"]
JOBS = pd.DataFrame({
    "job_id": ["a", "b", "c", "d"], "submit_s": [0, 1, 2, 3], "num_gpus": [64, 64, 8, 16],
    "duration_s": [100, 300, 20, 10],
})  # fmt: skip


RUNNING = """
import json, sys, time
for number, example in enumerate(json.loads(sys.argv[1])):
    began = time.monotonic()
    exec(compile(example, f"example {number}", "exec"), {})
    print(f"example {number}: {time.monotonic() - began:.1f} s", file=sys.stderr)
"""


def test_examples_of_the_page_run(tmp_path: Path):
    program = tmp_path / "running.py"
    program.write_text(RUNNING)
    done = run_program([str(program), json.dumps(EXAMPLES)], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("example ") == len(EXAMPLES) >= 6
    assert (tmp_path / "gantt.png").is_file()


def starts(**words) -> list[float]:
    run = gpuyard.simulate(JOBS, "small_leaf_spine", overrides=OFF, **words)
    return run.jobs["start_s"].tolist()


def test_orders_that_are_named_and_handed_in_decide_as_worked_by_hand():
    """64 GPUs: a holds all of them until 100 s; then fifo goes on with b, the others do not."""
    assert starts(scheduler="fifo") == [0, 100, 400, 400]
    short_first = [0, 120, 100, 100]  # d and c start at 100 s; c ends at 120 s

    def fewest_gpus(jobs):
        return jobs.num_gpus

    class Fewest(Sjf):
        order_name = "fewest"

        def order(self, view):
            gpus = view.jobs.num_gpus[view.queued]
            return view.queued[np.argsort(gpus, kind="stable")]

    assert starts(scheduler=fewest_gpus) == short_first
    assert starts(scheduler=Fewest) == short_first


def test_a_frame_a_file_and_a_topology_are_the_same_as_names(tmp_path: Path):
    path = tmp_path / "o'neil's jobs.csv"
    JOBS.to_csv(path, index=False)
    cluster = leaf_spine(
        name="own", servers=8, gpus_per_server=8, servers_per_rack=4, gpu_types=["p100"],
        intra_gbps=80, nic_gbps=10, oversubscription=2,
    )  # fmt: skip
    by_file = gpuyard.simulate(path, cluster, "fifo", overrides=OFF)
    assert by_file.jobs["start_s"].tolist() == starts(scheduler="fifo")
    assert by_file.labels.topology == "own"
    dated = JOBS.drop(columns="submit_s").assign(
        submit_time=pd.to_datetime(JOBS["submit_s"], unit="s").astype(str)
    )
    told = gpuyard.simulate(dated, cluster, "fifo", overrides=OFF)
    assert told.jobs["jct_s"].tolist() == by_file.jobs["jct_s"].tolist()
    assert by_file.metrics["jobs_finished"] == 4
    assert "jct_mean_s" in repr(by_file) and "<table" in by_file._repr_html_()
    assert "nan" not in (repr(by_file) + by_file._repr_html_()).lower()


def test_windows_that_share_a_stretch_of_time_are_known_to():
    rows = [(f"j{k}", 97 * k, (1, 2, 8)[k % 3], 60 + k * k % 7919) for k in range(240)]
    frame = pd.DataFrame(rows, columns=["job_id", "submit_s", "num_gpus", "duration_s"])
    words = ["workload.num_jobs=60", "workload.thin=2", "workload.windows_from=disjoint"]
    found = gpuyard.evaluate(
        frame, "small_leaf_spine", ["sjf", "fifo"], windows=40, part="all", overrides=words
    )  # there are four: fewer than were asked for are played, as by the program
    assert [row.labels.stretch for row in found.rows[::2]] == [0, 1, 0, 1]


def test_rules_of_placement_and_sharing_hold_for_orders_of_all_kinds():
    jobs = JOBS.assign(num_gpus=64)
    words = ["sharing=always", "placer=first_fit"]
    for order in ("fifo", lambda jobs: jobs.submit_s):
        alone = gpuyard.simulate(jobs, "small_leaf_spine", order, overrides=OFF)
        beside = gpuyard.simulate(jobs, "small_leaf_spine", order, overrides=[*OFF, *words])
        assert alone.jobs["start_s"].tolist() == [0, 100, 400, 420]
        assert beside.jobs["start_s"].tolist()[:2] == [0, 1]
        assert "first_fit" in beside.labels.scheduler
    asked = gpuyard.simulate(
        jobs, "small_leaf_spine", "fifo sharing=off", overrides=[*OFF, "sharing=always"]
    )
    assert asked.jobs["start_s"].tolist() == [0, 100, 400, 420]


def test_a_placer_may_take_what_it_was_offered_and_nothing_else():
    class Own:
        name, needs = "own", Signal.NONE

        def __init__(self, choose):
            self.choose = choose

        def place(self, gang, slots, rng):
            del rng
            return self.choose(np.flatnonzero(slots.usable)[:gang], gang)

    given = {
        "gave GPU 0, which was not offered": lambda _, gang: np.arange(gang),
        "must be an array of whole numbers": lambda gpus, _: gpus + 0.5,
        "the decision names 0": lambda gpus, _: gpus[:0],
        "gave {": lambda gpus, _: set(gpus.tolist()),
        "gave [[": lambda gpus, _: [gpus.tolist(), 1],
    }
    jobs = JOBS.assign(num_gpus=2)
    for told, choose in given.items():
        scheduler = Sjf(placer=Own(choose), sharing=NoSharing(), skip_blocked=True)
        with pytest.raises(GpuYardError, match=re.escape(told)):
            gpuyard.simulate(jobs, "small_leaf_spine", scheduler, overrides=OFF)
    right = Sjf(placer=Own(lambda gpus, _: gpus), sharing=NoSharing(), skip_blocked=True)
    run = gpuyard.simulate(jobs, "small_leaf_spine", right, overrides=OFF)
    assert run.jobs["start_s"].tolist() == [0, 1, 2, 3]


def test_a_column_that_is_not_there_is_named_with_the_nearest():
    for order, told in (
        (lambda jobs: jobs.gpus, "jobs has no column 'gpus'; did you mean 'num_gpus'?"),
        (lambda jobs: jobs.owner, "jobs has no column 'owner'; it has attained_gpu_s, demands"),
    ):
        with pytest.raises(AttributeError, match=re.escape(told)):
            gpuyard.simulate(JOBS, "small_leaf_spine", order, overrides=OFF)


def test_a_class_that_needs_more_is_to_be_handed_in_made():
    class Weighted:
        def __init__(self, *, placer, weight, **more):
            self.placer, self.weight, self.more = placer, weight, more

    with pytest.raises(ConfigError, match=r"scheduler Weighted needs weight; hand in what Weigh"):
        gpuyard.simulate(JOBS, "small_leaf_spine", Weighted, overrides=OFF)


def test_a_class_with_one_queue_is_refused_where_there_are_several():
    class Whole(Sjf):
        one_queue = True

    assert starts(scheduler=Whole) == [0, 120, 100, 100]
    with pytest.raises(ConfigError, match="owns one queue for the whole cluster"):
        starts(scheduler=Whole, agents=2)


def test_a_cluster_may_be_described_in_a_file(tmp_path: Path):
    source = ROOT / "docs" / "examples" / "cluster.yaml"
    path = tmp_path / "mine.yaml"
    path.write_text(source.read_text())
    run = gpuyard.simulate(JOBS.assign(num_gpus=1), str(path), "fifo", overrides=OFF)
    with pytest.raises(ConfigError, match=r"'.topology.cpu_milli=4', but cluster is described"):
        gpuyard.simulate(JOBS, run.raw.topology, "fifo", overrides=["+topology.cpu_milli=4"])
    assert run.raw.topology.name == "mine" and run.metrics["jobs_finished"] == len(JOBS)


def test_a_policy_is_named_as_on_the_command_line():
    two = {"trace": "venus_like", "cluster": "small_leaf_spine", "agents": 2}
    few, policy = ["workload.num_jobs=20"], "checkpoint=pretrained"
    loaded = gpuyard.simulate(**two, scheduler=gpuyard.load_policy("pretrained"), overrides=few)
    behind = gpuyard.simulate(**two, scheduler=f"marl {policy}", overrides=few)
    beside = gpuyard.simulate(**two, scheduler="marl", overrides=[*few, policy])
    for run in (behind, beside):
        assert run.jobs["finish_s"].tolist() == loaded.jobs["finish_s"].tolist()


def test_a_comparison_has_a_row_a_scheduler_and_a_run_a_window(tmp_path: Path):
    few, both = ["workload.num_jobs=30"], ["fifo", "sjf sharing=selective"]
    found = gpuyard.evaluate(schedulers=both, windows=2, overrides=few)
    names = ["fifo+consolidated", "sjf+consolidated+selective1.2"]
    assert sorted(found.table["scheduler"]) == names
    assert len(found.runs) == 4
    means = found.runs.groupby("scheduler")["jct_mean_s"].mean()
    told = found.table.set_index("scheduler")["jct_mean_s"]
    assert told.to_dict() == pytest.approx(means.to_dict())
    found.save(tmp_path)
    assert (tmp_path / "comparison.csv").is_file()


def test_a_policy_that_was_cut_off_is_refused_where_it_is_loaded(tmp_path: Path):
    whole = ROOT / "marl" / "pretrained"
    for path in whole.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    assert gpuyard.load_policy(tmp_path).name == "marl"
    weights = (whole / "policy.pt").read_bytes()
    (tmp_path / "policy.pt").write_bytes(weights[: len(weights) // 2])
    with pytest.raises(gpuyard.GpuYardError, match=r"policy.pt: cannot be read as .* anew, or"):
        gpuyard.load_policy(tmp_path)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ({"trace": "venus_lik"}, "trace is 'venus_lik'; did you mean 'venus_like'?"),
        ({"cluster": "small_leaf_spin"}, "did you mean 'small_leaf_spine'?"),
        ({"scheduler": "sjff"}, "scheduler is 'sjff'; did you mean 'sjf'?"),
        ({"scheduler": 3}, "scheduler is 3; it must be a name"),
        ({"trace": Path("nowhere.csv")}, "there is no such file"),
        ({"trace": "nowhere.csv"}, "trace is 'nowhere.csv', and there is no such file in "),
        ({"trace": "nowhere/jobs"}, "there is no such file"),
        ({"overrides": "workload.num_jobs=3"}, "it must be a list of texts, like ['workload.num_"),
        ({"overrides": [3]}, "overrides is [3]; it must be a list of texts"),
        ({"overrides": ["workload.num_job=3"]}, "did you mean workload.num_jobs?"),
        ({"overrides": ["workload.num_jobs"]}, "workload.num_jobs"),
        ({"overrides": ["interference=nonee"]}, "did you mean interference=none?"),
        ({"cluster": Path("nowhere.yaml")}, "must be a yaml file"),
        ({"cluster": {"servers": 4}}, "cluster is {'servers': 4}; it must be a name, a yaml file"),
        ({"scheduler": "fifo skip_blocked=true"}, "fifo's own; write scheduler.skip_blocked=true"),
        ({"scheduler": lambda jobs: jobs.duration_s}, "a function cannot ask for; read jobs.estim"),
        ({"trace": JOBS.drop(columns="num_gpus")}, "no column 'num_gpus'"),
        ({"overrides": ["compiled=false"]}, "overrides has 'compiled=false', which is not read h"),
        ({"overrides": ["jobs=2"]}, "not read here; use the program `gpuyard evaluate`"),
        ({"overrides": ["window=3"]}, "use evaluate(windows=...)"),
        ({"overrides": ["+scheduler=sjf"]}, "use the argument scheduler"),
        ({"overrides": ["scheduler.skip_blocked=true"]}, "use words behind its name"),
        ({"overrides": ["agents=2"]}, "use the argument agents"),
        ({"overrides": ["+foo=3"]}, "nothing reads the key 'foo'"),
        ({"scheduler": "sjf +belief=none"}, "does not read 'belief', only scheduler, placer"),
        ({"scheduler": "sjf estimator=oracle"}, "does not read 'estimator', only scheduler"),
        ({"scheduler": "sjf +seed=3"}, "does not read 'seed', only scheduler, placer"),
        ({"scheduler": "sjf +network=none"}, "does not read 'network', only scheduler, placer"),
        ({"scheduler": "marl"}, "add checkpoint=pretrained"),
        ({"overrides": ["seed=2"]}, "use the argument seed"),
        ({"overrides": ["experiment=headline"]}, "use its settings, or the program"),
        ({"trace": {"job_id": ["a"]}}, "trace is a dict; it must be a pandas frame"),
        ({"overrides": ["gpus=64"]}, "gpus is 64; it is the table of GPU types"),
        ({"overrides": ["preempt_saves=maybe"]}, "preempt_saves is 'maybe'"),
        ({"overrides": ["hydra.run.dir=x"]}, "overrides has 'hydra.run.dir=x', which is not read"),
    ],
)
def test_a_wrong_argument_is_named(words, told: str):
    with pytest.raises(gpuyard.GpuYardError, match=re.escape(told)):
        gpuyard.simulate(**words)


@pytest.mark.parametrize(
    ("word", "use"),
    [("aim=jct_p95_s", "aim"), ("agents=2", "agents"), ("+seed=3", "seed"),
     ("learn_minutes=1", "learn_minutes"), ("topology=small_vl2", "cluster")],
)  # fmt: skip
def test_what_arguments_of_advise_say_is_no_override(word: str, use: str):
    with pytest.raises(ConfigError, match=f"which is not read here; use the argument {use}"):
        gpuyard.advise("venus_like", "small_leaf_spine", overrides=[word])


@pytest.mark.parametrize(
    ("column", "cells", "told"),
    [
        ("num_gpus", [1, -1, 1], "trace, row 1, column 'num_gpus': '-1' is below 1; "),
        ("job_id", ["a", "b", "a"], "trace, row 2, column 'job_id': 'a' is the job of an earlier"),
        ("num_gpus", [1, 1, 999], "trace, row 2, column 'num_gpus', job c: a gang of 999 GPUs"),
    ],
)
def test_a_wrong_row_of_a_frame_is_named_as_the_frame_has_it(column, cells, told: str):
    with pytest.raises(TraceError, match=f"^{re.escape(told)}"):
        gpuyard.simulate(JOBS[:3].assign(num_gpus=1).assign(**{column: cells}))


@pytest.mark.parametrize("windows", [0, -1, 1.5])
def test_a_number_of_windows_is_at_least_1(windows):
    with pytest.raises(ConfigError, match=re.escape(f"windows is {windows}; it must be a whole")):
        gpuyard.evaluate(schedulers=["fifo"], windows=windows)


def test_two_schedulers_of_one_name_are_refused_unless_they_are_given_others():
    found = gpuyard.evaluate(
        schedulers={"few": lambda jobs: jobs.num_gpus, "all": lambda jobs: -jobs.num_gpus},
        windows=1, overrides=["workload.num_jobs=40"],
    )  # fmt: skip
    assert found.table["scheduler"].tolist() == ["few", "all"]
    with pytest.raises(ConfigError, match=re.escape("give a list, like ['sjf']")):
        gpuyard.evaluate(schedulers="sjf")
    with pytest.raises(ConfigError, match=re.escape("fifo+consolidated twice")):
        gpuyard.evaluate(schedulers=["fifo", "fifo"])


def test_importing_loads_nothing_heavy():
    """Though the functions are listed before they are imported."""
    code = (
        "import sys, gpuyard; gpuyard.__version__; "
        "assert {*gpuyard.__all__, '__version__'} <= set(dir(gpuyard)); "
        "assert not {'numba', 'hydra', 'pandas', 'torch'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_a_size_of_windows_is_refused_where_a_file_is_played_whole():
    words = [*OFF, "workload.num_jobs=2"]
    with pytest.raises(ConfigError, match=r"workload.num_jobs=2 is the size of a window"):
        gpuyard.evaluate(JOBS, "small_leaf_spine", ["sjf"], windows=None, overrides=words)


TWO_JOBS = pd.DataFrame({"job_id": ["a", "b"], "submit_s": 0, "num_gpus": 1, "duration_s": 10})
FREE = {0: [0], 1: [1]}  # job -> GPUs


class Own:
    name, needs = "own", Signal.NONE

    def reset(self, seed):
        pass

    def decide(self, view):
        return Decision(tuple(Start(job, FREE[job]) for job in view.queued.tolist()))


def run_of(scheduler):
    return gpuyard.simulate(TWO_JOBS, "small_leaf_spine", scheduler)


@pytest.mark.parametrize("missing", ["name", "needs", "reset", "decide"])
def test_a_class_without_what_a_scheduler_has_is_told_what_to_add(missing: str):
    parts = {key: value for key, value in vars(Own).items() if key not in {missing, "__dict__"}}
    lacking = type("Lacking", (), parts)
    with pytest.raises(GpuYardError, match=rf"Lacking has no .*`{missing}`; add {missing}"):
        run_of(lacking)


def test_needs_are_signals():
    asked = type("Asked", (Own,), {"needs": "DURATION"})
    with pytest.raises(GpuYardError, match=r"Asked.needs is 'DURATION'; write needs = Signal.NONE"):
        run_of(asked())


def test_what_decide_gives_is_refused_by_class_and_method():
    class Lists(Own):
        def decide(self, view):
            return [super().decide(view)]

    told = r"test_api\.\S*Lists\.decide gives \[Decision\(.*; it must be a Decision"
    with pytest.raises(GpuYardError, match=told):
        run_of(Lists)
    assert run_of(Own).jobs["start_s"].tolist() == [0, 0]


def test_a_view_is_shown_on_one_line():
    shown = []

    class Printing(Own):
        def decide(self, view):
            shown.append(repr(view))
            return super().decide(view) if view.queued.size else WAIT

    run_of(Printing)
    assert re.fullmatch(
        r"<ClusterView at t=0\.0 s: 2 jobs queued, 0 running, \d+ servers, 64 GPUs>", shown[0]
    )


def test_a_column_that_is_not_there_is_likened_once():
    class Mistyped(Own):
        def decide(self, view):
            return view.jobs.num_gpu

    with pytest.raises(AttributeError) as error:
        run_of(Mistyped)
    assert "".join(traceback.format_exception(error.value)).lower().count("did you mean") == 1


def test_a_figure_is_a_png_in_a_file(tmp_path: Path):
    run = run_of(Own)
    with pytest.raises(ConfigError, match=r"g\.pdf'; it must end in \.png"):
        run.gantt(tmp_path / "g.pdf")
    with pytest.raises(ConfigError, match=r"', a folder; name a file"):
        run.gantt(str(tmp_path))
    assert list(tmp_path.iterdir()) == []
    run.gantt(tmp_path / "new" / "G.PNG")
    assert (tmp_path / "new" / "G.PNG").read_bytes().startswith(b"\x89PNG")
