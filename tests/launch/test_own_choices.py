"""A user's own orders and placers, in a folder of their own, through every way to run them."""

import re
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

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


@pytest.mark.parametrize("jobs", ["jobs=1", "jobs=2"])
def test_line_ups_find_them_in_one_process_and_in_several(named: Call, jobs: str):
    told = named(*EVALUATE, jobs).stdout
    assert "mine+consolidated" in told and "fifo+corner" in told


def test_line_ups_find_them_where_the_command_line_says(call: Call, tmp_path: Path):
    refused = call(*EVALUATE, "jobs=1")
    assert refused.returncode == 1
    assert "lineup.entries[0]: " in refused.stderr and "scheduler/mine" in refused.stderr
    done = call(*EVALUATE, "jobs=1", f"hydra.searchpath=['file://{tmp_path / 'mine'}']")
    assert "mine+consolidated" in succeeded(done).stdout


def test_sweeps_and_advice_find_them(named: Call):
    for words in (("scheduler=mine,fifo", *FEW, "-m"), ("-m", "scheduler=mine,fifo", *FEW)):
        named("simulate", *words)
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
