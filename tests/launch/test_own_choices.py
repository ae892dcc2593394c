"""A user's own orders and placers in a folder of their own, and mistakes in them: one line."""

import importlib
import re
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from gpuyard.evaluation.experiment import composition_of
from gpuyard.launch.build import build
from gpuyard.launch.errors import ConfigError, refuse_no_choice
from gpuyard.launch.own import choices_of
from sim.errors import GpuYardError
from tests.forking import run_program
from tests.launch.conftest import write_own

ORDERS = """
from sim.engine.composed import QueueScheduler
from sim.placers.by_room import FirstFit
from sim.view import Signal

class Mine(QueueScheduler):
    order_name = "mine"
    order_needs = Signal.NONE

    def keys(self, jobs):
        return -jobs.num_gpus

class Corner(FirstFit):
    name = "corner"
"""
SCHEDULER = "_target_: my_orders.Mine\nplacer: ${placer}\nsharing: ${sharing}\nskip_blocked: true\n"
FEW = ("workload.num_jobs=30", "topology=small_leaf_spine")
ENTRIES = (
    "lineup.entries=[{role: ours, overrides: ['scheduler=mine']},"
    "{role: composite, overrides: ['scheduler=fifo', 'placer=corner']}]"
)
EVALUATE = ("evaluate", "windows=2", ENTRIES, *FEW)
Call = Callable[..., CompletedProcess[str]]


@pytest.fixture
def call(tmp_path: Path) -> Call:
    """The command in a folder with an order and a placer that no file names yet."""
    write_own(tmp_path, {
        "mine/scheduler/mine.yaml": SCHEDULER, "my_orders.py": ORDERS,
        "mine/placer/corner.yaml": "_target_: my_orders.Corner\n",
    })  # fmt: skip
    (tmp_path / "gpuyard.yaml").unlink()

    def run(*words: str) -> CompletedProcess[str]:
        return run_program(["-m", "gpuyard", *words], cwd=tmp_path)

    return run


@pytest.fixture(name="named")
def _named(call: Call, tmp_path: Path) -> Call:
    """The same, with the folder named."""
    write_own(tmp_path, {})
    return lambda *words: succeeded(call(*words))


def succeeded(done: CompletedProcess[str]) -> CompletedProcess[str]:
    assert done.returncode == 0, done.stderr
    return done


def test_help_lists_own_choices_with_the_shipped_ones(named: Call):
    done = named("simulate", "--help")
    shipped, _, own = done.stdout.partition("Your own choices:\n")
    assert [line.split() for line in own.splitlines()[:2]] == [
        ["placer", "corner"], ["scheduler", "mine"],
    ]  # fmt: skip
    assert "fifo" in shipped
    assert "  scheduler.skip_blocked=" in named("simulate", "scheduler=mine", "--help").stdout


def test_help_tells_keys_of_an_own_file_that_is_made_of_a_shipped_one(named: Call, tmp_path: Path):
    (tmp_path / "mine" / "workload").mkdir()
    (tmp_path / "mine" / "workload" / "ours.yaml").write_text("defaults: [csv, _self_]\npath: x\n")
    told = named("simulate", "workload=ours", "--help").stdout
    assert "  workload.path=x" in told and "  workload.columns.job_id=job_id" in told


@pytest.mark.parametrize("word", ["scheduler=glob(*)", "scheduler=fifo,sjf", "scheduler='17'"])
def test_sweeps_over_choices_and_quoted_names_are_choices(word: str):
    refuse_no_choice([word], choices_of)


def test_a_key_of_an_own_experiment_that_nobody_reads_is_named(named: Call, tmp_path: Path):
    (tmp_path / "mine" / "experiment").mkdir()
    file = tmp_path / "mine" / "experiment" / "ours.yaml"
    group = "defaults: [{/placer@spare: packed}, _self_]\nrestart: 5"
    for key, near in (
        ("restart: 5", "restart_s"), ("agents: {cout: 5}", "agents.count"), (group, "restart_s"),
    ):  # fmt: skip
        file.write_text(f"# @package _global_\nworkload: {{num_jobs: 20}}\n{key}\n")
        with pytest.raises(AssertionError, match="experiment=ours: nothing reads the key") as found:
            named("simulate", "experiment=ours")
        assert f"did you mean {near}?" in str(found.value)
    file.write_text("# @package _global_\nworkload: {num_jobs: 20}\nrestart_s: 5\n")
    named("simulate", "experiment=ours")


def test_a_key_of_ones_own_that_another_refers_to_is_read(named: Call, tmp_path: Path):
    (tmp_path / "mine" / "experiment").mkdir()
    (tmp_path / "mine" / "experiment" / "ours.yaml").write_text(
        "# @package _global_\nof: {all: 20}\nworkload: {num_jobs: '${of.all}'}\n"
    )
    named("simulate", "experiment=ours", "+pause_s=7", "restart_s=${pause_s}")


def test_a_reference_that_is_not_closed_is_told_with_the_fix(call: Call, tmp_path: Path):
    write_own(tmp_path, {})
    (tmp_path / "mine" / "placer" / "open.yaml").write_text("name: ${placer\n")
    error = call("simulate", "placer=open").stderr
    assert "error: key 'name': no viable alternative at input '${placer'; write ${KEY}" in error
    assert "takes no keys" not in error


def test_line_ups_find_them_in_several_processes(named: Call):
    told = named(*EVALUATE, "jobs=2").stdout
    assert "mine+consolidated" in told and "fifo+corner" in told


def test_line_ups_find_them_where_the_command_line_says(call: Call, tmp_path: Path):
    refused = call(*EVALUATE, "jobs=1")
    assert refused.returncode == 1
    assert "lineup.entries[0]: " in refused.stderr and "scheduler/mine" in refused.stderr
    where = f"hydra.searchpath=['file://{tmp_path / 'mine'}']"
    done = call(*EVALUATE, "jobs=1", "page=false", where)
    assert "mine+consolidated" in succeeded(done).stdout


def test_sweeps_and_advice_find_them(named: Call):
    words = ("scheduler=mine,fifo", *FEW, "page=false")
    named("simulate", *words, "-m")
    named("simulate", "-m", *words)
    told = named("advise", ENTRIES, *FEW, "jobs=1").stdout
    assert "mine" in told and "corner" in told


ASKED = """
import gpuyard
from sim.errors import GpuYardError

few = {"overrides": ["workload.num_jobs=30"]}
print(gpuyard.simulate(cluster="small_leaf_spine", scheduler="mine placer=corner", **few))
print(gpuyard.evaluate(cluster="small_leaf_spine", schedulers=["mine", "fifo"], windows=1, **few))
for words in ("mine placer=cornr", "sjf sharing.x=1", "mine shring=off"):
    try:
        gpuyard.simulate(cluster="small_leaf_spine", scheduler=words, **few)
    except GpuYardError as error:
        print("refused:", " ".join(str(error).split()))
"""


@pytest.mark.usefixtures("named")
def test_python_finds_them_and_refuses_what_is_not_there(tmp_path: Path):
    (tmp_path / "asking.py").write_text(ASKED)
    done = succeeded(run_program([str(tmp_path / "asking.py")], cwd=tmp_path))
    assert "mine+corner" in done.stdout and "mine+consolidated" in done.stdout
    refused = re.findall("refused: (.*)", done.stdout)
    assert len(refused) == 3, done.stdout
    assert "did you mean placer=corner?" in refused[0] and "sharing" in refused[2]


MODEL = """
import numpy as np
from sim.physics.mix_table import PairTable

class Flat:
    def pair_table(self, catalogue):
        shape = (len(catalogue.gpu_types), len(catalogue.names), len(catalogue.names))
        return PairTable(slowdown=np.full(shape, 1.5), feasible=np.ones(shape, bool), source="flat")
"""


COUNTING = """
from sim.placers.by_room import FirstFit

class Corner(FirstFit):
    name, places = "corner", 0

    def place(self, gang, slots, rng):
        self.places += 1
        if self.places == 1:
            print("FIRST OF", len(slots.view.jobs.num_gpus))
        return super().place(gang, slots, rng)
"""


def test_what_an_own_part_remembers_is_of_the_run_alone(named: Call, tmp_path: Path):
    """The trial run before it is played by a copy."""
    (tmp_path / "my_orders.py").write_text(COUNTING)
    line_up = "lineup.entries=[{role: ours, overrides: ['scheduler=fifo', 'placer=corner']}]"
    for words in (("simulate", "placer=corner"), ("evaluate", "windows=1", "jobs=1", line_up)):
        assert "FIRST OF 30\n" in named(*words, *FEW, "page=false").stdout


def test_a_run_is_explained_by_a_script_from_elsewhere(named: Call, tmp_path: Path):
    """Modules are found where the script was started, as they were by the run."""
    folder = tmp_path / "run"
    named("simulate", "scheduler=mine", *FEW, "page=false", f"hydra.run.dir={folder}")
    script = tmp_path / "elsewhere" / "why.py"
    script.parent.mkdir()
    script.write_text(
        "from gpuyard.evaluation.explain import explain_folder\n"
        f"print(explain_folder({str(folder)!r}, 'venus_like-12').scheduler)\n"
    )
    done = run_program([str(script)], cwd=tmp_path)
    assert done.stdout == "mine+consolidated\n", done.stderr


def test_a_belief_has_its_model_beside_its_name(call: Call, tmp_path: Path):
    write_own(tmp_path, {
        "my_models.py": MODEL, "mine/belief/plain.yaml": "_target_: my_models.Flat\n",
        "mine/belief/under.yaml": "info: flat\nmodel: {_target_: my_models.Flat}\n",
    })  # fmt: skip
    words = ("simulate", *FEW, "scheduler=lif", "sharing=always")
    refused = call(*words, "belief=plain")
    assert refused.returncode == 1 and "Traceback" not in refused.stderr
    told = "error: belief has no info; its yaml file holds `info: NAME` and `model:`"
    assert told in refused.stderr
    succeeded(call(*words, "belief=under"))


Told = Callable[..., str]


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Told:
    """What is told of a target, with a module `<name>.py` of that text in the folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)

    def of(target: str, name: str | None = None, text: str = "", key: str = "scheduler") -> str:
        if name is not None:
            (tmp_path / f"{name}.py").write_text(text)
        importlib.invalidate_caches()
        values: dict[str, object] = {"_target_": target}
        for outer in reversed(key.split(".")[1:]):
            values = {"_target_": "builtins.dict", outer: values}
        with pytest.raises(ConfigError) as caught:
            build({key.partition(".")[0]: values}, key.partition(".")[0])
        return str(caught.value).replace(str(tmp_path), "HERE")

    return of


def test_a_module_that_is_not_there_and_one_that_is_like_it(told: Told):
    assert told("mistake_ordres.A", "mistake_orders", "class A: pass\n") == (
        "scheduler._target_ is 'mistake_ordres.A'; there is no module 'mistake_ordres' "
        "(looked in HERE and what is installed); did you mean mistake_orders?"
    )
    assert "put qqqq.py there" in told("qqqq.A")
    assert "did you mean fifo" not in told("sim.schedulers.ordres.Fifo")
    assert "did you mean orders?" in told("sim.schedulers.ordres.Fifo")


def test_a_class_that_is_not_there(told: Told):
    text = "class LeastService: pass\n"
    assert told("mistake_class.LeastServce", "mistake_class", text) == (
        "scheduler._target_ is 'mistake_class.LeastServce'; HERE/mistake_class.py has no "
        "'LeastServce'; did you mean LeastService?"
    )


@pytest.mark.parametrize(("name", "text", "line"), [
    ("syntax", "x = 1\ndef f(:\n", 2),
    ("import", "import os\nimport nosuchthing\n",
     "2: ModuleNotFoundError: No module named 'nosuchthing'; install nosuchthing, or mend"),
    ("name", "from sim.view import Signall\n",
     "1: ImportError: cannot import name 'Signall'"),
    ("value", "\n\nx = 1 / 0\n", "3: ZeroDivisionError: division by zero"),
])  # fmt: skip
def test_what_a_module_fails_at_while_it_is_imported(told: Told, name: str, text: str, line: str):
    found = told(f"mistake_{name}.A", f"mistake_{name}", text)
    key = f"scheduler._target_ is 'mistake_{name}.A'; HERE/mistake_{name}.py line {line}"
    assert found.startswith(key) and found.endswith(" that line")


def test_the_section_inside_is_named(told: Told):
    assert told("mistake_deep.A", key="scheduler.placer").startswith(
        "scheduler.placer._target_ is 'mistake_deep.A'; there is no module 'mistake_deep'"
    )


def test_a_method_that_has_to_be_written(told: Told):
    text = "from sim.rounds import RoundScheduler\nclass A(RoundScheduler):\n  x=1"
    assert told("mistake_abstract.A", "mistake_abstract", text) == (
        "scheduler: mistake_abstract.A has no method allot; write it"
    )


def error_of(folder: Path, *words: str) -> str:
    done = run_program(["-m", "gpuyard", *words], cwd=folder)
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
    return done.stderr


NEVER = """
from sim.view import Signal

class Never:
    name, needs = "never", Signal.NONE
    def place(self, gang, slots, rng):
        return None
"""


@pytest.mark.parametrize("line_up", [False, True])
def test_a_file_that_is_no_yaml(tmp_path: Path, line_up: bool):
    file = "mine/scheduler/broken.yaml"
    write_own(tmp_path, {file: "_target_: sim.schedulers.orders.Fifo\npower: [\n"})
    entries = "lineup.entries=[{role: ours, overrides: ['scheduler=broken']}]"
    words = ("evaluate", entries, "jobs=1") if line_up else ("simulate", "scheduler=broken")
    told = error_of(tmp_path, *words)
    assert f"{tmp_path / file} line 3: " in told
    assert "(while parsing a flow node that begins in line 3); mend the file" in told


def test_a_file_in_another_encoding(tmp_path: Path):
    write_own(tmp_path, {"mine/scheduler/old.yaml": ""})
    (tmp_path / "mine/scheduler/old.yaml").write_text("# café\n", encoding="latin-1")
    told = error_of(tmp_path, "simulate", "scheduler=old")
    assert f"{tmp_path / 'mine/scheduler/old.yaml'}, line 1: byte 0xe9 is not UTF-8" in told


def test_a_trial_run_before_the_users_jobs_is_called_so(tmp_path: Path):
    write_own(tmp_path, {
        "mine/placer/never.yaml": "_target_: my_placers.Never\n", "my_placers.py": NEVER,
    })  # fmt: skip
    words = ("simulate", "workload.num_jobs=30", "topology=small_leaf_spine", "placer=never")
    made_up = r"error: fifo\+never, in a trial run of \d+ made-up jobs before yours: \d+ jobs wait"
    assert re.search(made_up, error_of(tmp_path, *words))


OWN_PARTS = """\
import numpy as np
from sim.engine.composed import QueueScheduler
from sim.view import Signal

class Order(QueueScheduler):
    order_name, order_needs = "mine", Signal.NONE
    def keys(self, jobs):
        return helper(jobs)

def helper(jobs):
    return np.reshape(jobs.num_gpus, (7, 7, 7))

class Place:
    name, needs = "mine", Signal.NONE
    def place(self, gang, slots, rng):
        return slots.nothing

class Column(Order):
    def keys(self, jobs):
        return jobs.num_gpu
"""


@pytest.mark.parametrize(("word", "line"), [
    ("scheduler=mine", "line 11, in helper: ValueError: cannot reshape array of size "),
    ("placer=mine", "line 16, in place: AttributeError: 'Slots' object has no attribute 'no"),
    ("scheduler=mine scheduler._target_=my_own.Column",
     "line 20, in keys: AttributeError: jobs has no column 'num_gpu'; did you mean 'num_gpus"),
])  # fmt: skip
def test_what_an_order_or_a_placer_of_ones_own_raises(tmp_path: Path, word: str, line: str):
    parts = "placer: ${placer}\nsharing: ${sharing}\nskip_blocked: true\n"
    write_own(tmp_path, {
        "mine/scheduler/mine.yaml": f"_target_: my_own.Order\n{parts}",
        "mine/placer/mine.yaml": "_target_: my_own.Place\n", "my_own.py": OWN_PARTS,
    })  # fmt: skip
    words = ("simulate", "workload.num_jobs=30", *word.split())
    told = error_of(tmp_path, *words)
    assert f"error: {tmp_path / 'my_own.py'} {line}" in told
    assert told.rstrip().endswith("; mend that line\n(DEBUG=1 shows the traceback)")
    shown = run_program(["-m", "gpuyard", *words], cwd=tmp_path, env={"DEBUG": "1"})
    assert "Traceback" in shown.stderr and "in checked" in shown.stderr


def test_a_target_that_makes_no_scheduler():
    with pytest.raises(
        GpuYardError, match=r"builtins.dict has no method `decide`; add decide\(sel"
    ):
        composition_of({"scheduler": {"_target_": "builtins.dict"}}, 1)


def test_a_working_folder_whose_name_reads_like_a_key_is_told(tmp_path: Path):
    (folder := tmp_path / "a ${x}").mkdir()
    done = run_program(["-m", "gpuyard", "simulate"], cwd=folder)
    assert f"error: {folder}: Hydra looks for a key where a path has ${{; rename" in done.stderr
