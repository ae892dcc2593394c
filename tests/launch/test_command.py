"""The command `gpuyard`, objects from plain configuration, and what CONTRIBUTING shows works."""

import importlib
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
import yaml

import gpuyard
from gpuyard.launch.build import build
from gpuyard.launch.errors import ConfigError
from gpuyard.launch.targets import MOVED, fault_of_own, new_name, with_new_names
from sim.errors import GpuYardError
from sim.placers.by_room import BestFit, FirstFit
from sim.run import Kind, Run
from sim.schedulers.orders import Fifo
from sim.sharing import NoSharing
from sim.topology.generators import leaf_spine
from sim.topology.topology import Topology
from tests.forking import run_program

ROOT = Path(__file__).resolve().parents[2]

BLOCKED = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"torch", "ray", "pettingzoo", "gymnasium", "fastapi"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
sys.argv = ["gpuyard " + sys.argv[1], *sys.argv[2:]]
from gpuyard.command import run
run(sys.argv[0].split()[1])
"""


def call(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return run_program(["-m", "gpuyard", *words], cwd=folder)


def test_help_names_every_program_and_each_has_a_script(tmp_path: Path):
    from gpuyard.command import PROGRAMS

    told = call("help", folder=tmp_path).stdout
    assert [name for name in PROGRAMS if f"  {name} " not in told] == []
    scripts = {path.stem for path in (ROOT / "scripts").glob("*.py")}
    assert scripts - {"check_files"} == set(PROGRAMS)


def test_an_unknown_program_gets_the_nearest(tmp_path: Path):
    done = call("simulat", folder=tmp_path)
    assert done.returncode == 2
    assert done.stderr == "error: gpuyard has no program 'simulat'; did you mean simulate?\n"
    assert "did you mean learn?" in call("tune_linear_score", folder=tmp_path).stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [("tune", "no program 'tune'; did you mean train tune=random?"),
     ("train tune.samples=3", "a choice of it, in train: gpuyard train tune=grid --help"),
     ("train +tune.trials=3", "keys of tune come with a choice of it, in train: "),
     ("generate_trace +reproduce.foo=3", "nothing reads the key 'reproduce.foo'. Leave it out."),
     ("train +lineup.foo=3", "nothing reads the key 'lineup.foo'."),
     ("advise +makers.foo=3", "nothing reads the key 'makers.foo'."),
     ("generate_trace scheduler.x=1", "a choice of it, in learn, serve, simulate: "),
     ("generate_trace scheduler=fifo", "it is one of learn, serve, simulate\n"),
     ("serve window=3", "struct\n  window is a key of simulate\n"),
     ("generate_trace gpuz=8", "struct\n  did you mean gpus?\n")],
)  # fmt: skip
def test_a_key_of_another_program_is_told_with_those_that_have_it(
    tmp_path: Path, words: str, told: str
):
    assert told in call(*words.split(), folder=tmp_path).stderr


def test_a_file_of_the_users_that_hides_a_package_is_named(tmp_path: Path):
    told = {"cwd": tmp_path, "env": {"PYTHONPATH": str(ROOT)}, "capture_output": True, "text": True}
    (tmp_path / "sim.py").write_text("x = 1\n")
    done = subprocess.run([sys.executable, "-m", "gpuyard", "simulate"], **told)
    assert done.returncode == 2
    assert f"package 'sim' cannot be imported: {tmp_path / 'sim.py'} comes first" in done.stderr
    code = "import gpuyard; gpuyard.simulate()"
    asked = subprocess.run([sys.executable, "-c", code], **told)
    assert asked.stderr.splitlines()[-1].startswith("ImportError: GPUYard's package 'sim' cannot")


def test_the_installed_command_tells_of_no_scripts(tmp_path: Path):
    listed = call("reproduce", folder=tmp_path).stdout
    assert "run one: gpuyard reproduce experiment=NAME" in listed
    done = call("simulate", "experiment=worl_main", folder=tmp_path)
    assert "for: gpuyard reproduce experiment=worl_main" in done.stderr


@pytest.mark.parametrize(
    ("words", "package", "extra"),
    [
        (("train",), "torch", "learn"),
        (("simulate", "scheduler=marl"), "torch", "learn"),
        (("learn",), "ray", "learn"),
        (("serve", "port=0"), "fastapi", "serve"),
    ],
)
def test_what_the_base_install_lacks_is_said(tmp_path: Path, words, package: str, extra: str):
    cores = {"LOKY_MAX_CPU_COUNT": "2"}  # by which `learn` has workers
    done = run_program(["-c", BLOCKED, *words], cwd=tmp_path, env=cores, timeout=60.0, bare=True)
    assert done.returncode == 1
    fix = f"this needs {package}, which is not installed: pip install 'gpuyard[{extra}]'"
    assert f"error: {fix}" in done.stderr


def test_heuristics_need_neither_torch_nor_ray(tmp_path: Path):
    words = ("evaluate", "windows=1", "workload.num_jobs=30", "agents.count=2", "jobs=1",
             "lineup.entries=[{role: composite, overrides: ['scheduler=fifo']}]")  # fmt: skip
    for program in (words, ("reproduce",)):
        done = run_program(["-c", BLOCKED, *program], cwd=tmp_path, bare=True)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("text", "told"),
    [("search_path: [nowhere]", "search_path names 'nowhere'"), ("paths: []", "must be one list"),
     ("search_path: [", "while parsing"),
     ("search_path: [a]\n# café", ", line 2: byte 0xe9 is not UTF-8 text; save the file")],
)  # fmt: skip
def test_a_wrong_file_of_folders_is_told(tmp_path: Path, text: str, told: str):
    (tmp_path / "gpuyard.yaml").write_text(text, encoding="latin-1")
    done = call("simulate", folder=tmp_path)
    assert done.returncode == 1
    assert str(tmp_path / "gpuyard.yaml") in done.stderr and told in done.stderr


SERVERS = {"_target_": "sim.topology.topology.contiguous_partitions", "count": 2}
TOPOLOGY = {
    "_target_": "sim.topology.generators.leaf_spine", "name": "t", "servers": 2,
    "gpus_per_server": 4, "servers_per_rack": 1, "gpu_types": ["p100"], "intra_gbps": 80,
    "nic_gbps": 10, "oversubscription": 2,
}  # fmt: skip


class Part: ...


class Own:
    def __init__(self, part: Part = None, *, other: Part):  # type: ignore[assignment]
        self.part, self.other = part, other


OWN = {"_target_": f"{__name__}.Own", "other": {"_target_": f"{__name__}.Part"}}
CONFIG = {
    "topology": TOPOLOGY, "agents": {"count": 1}, "split": SERVERS, "gone": {"_target_": "no.such"},
    "own": OWN | {"part": None}, "three": OWN | {"part": 3}, "none": OWN | {"other": None},
    "cut": {"_target_": "interference.learned.AdditiveInterference", "path": None},
}  # fmt: skip


def test_objects_reach_the_target_as_they_are():
    topology = build(CONFIG, "topology")
    assert type(topology) is Topology and type(topology.gpu_types) is tuple
    assert build({"a": {"b": SERVERS}}, "a.b", topology=topology).tolist() == [0, 1]


def test_containers_are_plain_and_a_partial_stays_one():
    made = build({"x": {"_target_": "builtins.dict", "inner": {"deep": [1]}}}, "x")
    assert type(made["inner"]) is dict and type(made["inner"]["deep"]) is list
    made = build({"x": {**SERVERS, "_partial_": True}}, "x")
    assert isinstance(made, partial) and made.keywords == {"count": 2}


@pytest.mark.parametrize(
    ("key", "given", "told"),
    [
        ("split", {}, "split: sim.topology.topology.contiguous_partitions needs topology"),
        ("topology", {"rate": 1}, "topology.rate: "),
        ("topology", {"serverz": 1}, "did you mean topology.servers?"),
        ("topolgy", {}, "has no 'topolgy'; it has 'topology'"),
        ("agents", {}, "has no _target_"),
        ("gone", {}, "no.such"),
        ("three", {}, "three.part is 3; it must be a"),
        ("none", {}, "none.other is None; it must"),
        ("cut", {}, "AdditiveInterference is gone; use belief=linear"),
    ],
)
def test_missing_unknown_and_absent_are_told_apart(key: str, given: dict[str, int], told: str):
    with pytest.raises(ConfigError, match=re.escape(told)):
        build(CONFIG, key, **given)


def test_a_fault_in_compiled_code_that_has_no_file_is_no_line_of_the_users():
    at = str(ROOT / "sim" / "made.py")
    exec(compile("def draw(rng):\n    rng.poisson(-1.0)", at, "exec"), made := {})
    with pytest.raises(ValueError) as raised:
        made["draw"](np.random.default_rng(0))
    assert fault_of_own(raised.value) is None


def test_the_default_of_a_parameter_may_be_said_whatever_its_hint():
    """Classes of users' own write `part: Part = None`."""
    assert build(CONFIG, "own").part is None


def test_configurations_of_before_the_merges_of_modules_build_what_they_always_built():
    old = {"placer": {"_target_": "sim.placers.best_fit.BestFit"}}
    assert isinstance(build(old, "placer"), BestFit)
    inside = {"a": [{"_target_": "sim.sharing.off.NoSharing"}], "b": "sim.sharing.off.X"}
    found = with_new_names(inside)
    assert found == {"a": [{"_target_": "sim.sharing.NoSharing"}], "b": "sim.sharing.off.X"}
    assert new_name("my_package.rules.Own") == "my_package.rules.Own"
    for name, new in MOVED.items():
        importlib.import_module(new)
        assert new not in MOVED, name  # it has not moved on


def test_what_an_old_name_takes_for_granted_is_told_as_ever():
    old = "estimator._target_=sim.estimators.group_median.GroupMedian"
    words = ["workload.num_jobs=20", "estimator=group_median", old]
    run = gpuyard.simulate("venus_like", "small_leaf_spine", "sjf", overrides=words)
    assert "durations: predicted as the median of the group's finished runs" in run.assumed


OFF = ["estimator=oracle", "interference=none", "network=none", "restart_s=0"]


def shown(language: str, number: int = 0) -> tuple[str, str]:
    """File name and text of a block in that language."""
    pattern = rf"`([\w/]+\.\w+)`\n\n```{language}\n(.*?)```"
    found = re.findall(pattern, (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL)
    assert len(found) > number, f"CONTRIBUTING.md shows no {language} file"
    return found[number]


def module_shown(number: int = 0) -> tuple[str, ModuleType]:
    path, code = shown("python", number)
    module = ModuleType(f"shown_{number}")
    exec(compile(code, path, "exec"), module.__dict__)
    return path, module


def racks(servers: int, gpus: int, servers_per_rack: int = 1) -> Topology:
    return leaf_spine(
        name="own", servers=servers, gpus_per_server=gpus, servers_per_rack=servers_per_rack,
        gpu_types=["p100"], intra_gbps=80.0, nic_gbps=10.0, oversubscription=1.0,
    )  # fmt: skip


def played(scheduler: object, topology: Topology, **columns: object) -> Run:
    jobs = pd.DataFrame({"job_id": [f"j{n}" for n in range(len(columns["num_gpus"]))], **columns})
    return gpuyard.simulate(jobs, topology, scheduler, overrides=OFF).raw


def test_the_scheduler_shown_starts_large_gangs_first():
    """GPUs 0-3: job 2 (4 GPUs) till 5, then jobs 1 (2 GPUs) and 0 (1 GPU) till 8 and 15.

    The class has the values shown, as a user would have it.
    """
    path, module = module_shown()
    name, text = shown("yaml")
    values = yaml.safe_load(text)
    target, _, cls = values.pop("_target_").rpartition(".")
    assert target.replace(".", "/") + ".py" == path
    assert Path(name).stem == Path(path).stem
    assert (values.pop("placer"), values.pop("sharing")) == ("${placer}", "${sharing}")
    largest_gang = getattr(module, cls)(placer=FirstFit(), sharing=NoSharing(), **values)
    run = played(largest_gang, racks(1, 4), submit_s=0, num_gpus=[1, 2, 4], duration_s=[10, 3, 5])
    assert run.scheduler == "largest_gang+first_fit"
    assert run.start_s.tolist() == [5.0, 5.0, 0.0]
    assert run.finish_s.tolist() == [15.0, 8.0, 5.0]


def test_the_whole_scheduler_shown_preempts_for_shorter_jobs():
    """4 GPUs: B and C stop A at 2, of which 8 s are left; B ends at 5, C at 4, A at 13."""
    run = played(
        module_shown(1)[1].ShortestRemaining(), racks(1, 4),
        submit_s=[0, 2, 2], num_gpus=[4, 2, 1], duration_s=[10, 3, 2],
    )  # fmt: skip
    assert run.finish_s.tolist() == [13.0, 5.0, 4.0]
    assert run.decides == "python (shortest_remaining has rounds or placements of its own)"
    with pytest.raises(GpuYardError, match=r"shortest_remaining owns one queue .*agents\.count=1"):
        gpuyard.simulate("venus_like", scheduler=module_shown(1)[1].ShortestRemaining, agents=2)


def test_the_placer_shown_takes_the_tightest_rack():
    """Racks of 4 GPUs: A takes 3 of one, so that B fits there and C does not; D takes both."""
    placer = module_shown(2)[1].TightestRack()
    order = Fifo(placer=placer, sharing=NoSharing(), skip_blocked=False)
    run = played(order, racks(4, 2, 2), submit_s=range(4), num_gpus=[3, 1, 2, 8], duration_s=100.0)
    starts = np.flatnonzero(run.log.kind == Kind.START)
    assert {int(run.log.job[at]): run.log.gpus[at].tolist() for at in starts} == {
        0: [0, 1, 2], 1: [3], 2: [4, 5], 3: list(range(8)),
    }  # fmt: skip
