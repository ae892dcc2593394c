"""Compiled code that is kept is thrown away when anything that it calls is edited."""

import shutil
from pathlib import Path

import pytest

from tests.forking import run_program

ROOT = Path(__file__).resolve().parents[2]
COST = """
from sim.jit import kernel
from sim.physics.laws import excess_by

@kernel
def cost(slowdown, milli):
    return 4.0 * excess_by(slowdown, milli)
"""
CALLER = """
from sim.cost import cost
from sim.jit import kernel

@kernel
def caller(slowdown):
    return cost(slowdown, 1000) + 0.25
"""
PROGRAM = """
from sim.caller import caller
print(caller(1.5), sum(caller.stats.cache_hits.values()))
"""


def told_by(program: str, sources: Path, **environment: str) -> tuple[str, str]:
    """What a process prints that imports these sources, and its errors."""
    places = {"PYTHONPATH": str(sources), "NUMBA_CACHE_DIR": "", **environment}
    done = run_program(["-c", program], cwd=sources, env=places, bare=True)
    return done.stdout.strip(), done.stderr


def run(folder: Path) -> tuple[float, int]:
    """What a copy of the simulator computes, and how often it found compiled code."""
    answer, errors = told_by(PROGRAM, folder)
    assert answer, errors
    cost, hits = answer.split()
    return float(cost), int(hits)


def copied_to(folder: Path) -> Path:
    """The sources of the simulator, without what is compiled of them."""
    shutil.copytree(ROOT / "sim", folder / "sim", ignore=shutil.ignore_patterns("__pycache__"))
    return folder / "sim"


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


def test_editing_a_callee_in_another_file_recompiles_its_callers(tmp_path: Path) -> None:
    """`caller` calls `cost` of another file, which comes to `excess_by` of sim/physics/laws.py."""
    sim = copied_to(tmp_path)
    for name, text in (("cost", COST), ("caller", CALLER)):
        (sim / f"{name}.py").write_text(text, encoding="utf-8")
    (sim / "__pycache__").mkdir()
    old = "caller.caller-43.py311.nbi"  # as numba itself names them
    gone, merged = "caller.removed-reach.py311.1.nbc", "no_such_module.some-reach.py311.1.nbc"
    of_another = "heap.some-reach.py311.1.nbc"
    kept = [sim / "__pycache__" / name for name in (old, gone, merged, of_another)]
    for file in kept:
        file.write_bytes(b"")

    assert run(tmp_path) == (2.25, 0)
    assert [file.name for file in kept if file.exists()] == [of_another]
    assert run(tmp_path) == (2.25, 1)

    laws = sim / "physics" / "laws.py"
    edit(laws, "excess = slowdown - 1.0", "excess = 5.0 * (slowdown - 1.0)")
    assert run(tmp_path) == (10.25, 0)

    # A comment, and a file that is not compiled, change nothing.
    laws.write_text(laws.read_text(encoding="utf-8") + "\n# Edited.\n", encoding="utf-8")
    (sim / "report" / "units.py").write_text("", encoding="utf-8")
    assert run(tmp_path) == (10.25, 1)

    edit(laws, "excess = 5.0 * (slowdown - 1.0)", "excess = slowdown - 1.0")
    assert run(tmp_path)[0] == 2.25


TAKES = "from sim.jit import kernel\n@kernel\ndef total(pair):\n    return pair.a + pair.b\n"
MAKES = (
    "from sim.jit import kernel\nfrom sim.KIND import Pair\n"
    "@kernel\ndef made(a):\n    return Pair(a, a)\n"
)


@pytest.mark.parametrize(
    ("module", "asked", "answer"), [(TAKES, "total(Pair(2, 3))", "5"), (MAKES, "made(2).b", "2")]
)
def test_code_kept_for_a_type_whose_module_is_gone_is_out_of_date(
    tmp_path: Path, module: str, asked: str, answer: str
) -> None:
    sim = copied_to(tmp_path)
    pair = "from typing import NamedTuple\nclass Pair(NamedTuple):\n    a: int\n    b: int\n"
    (sim / "old_kind.py").write_text(pair, encoding="utf-8")
    for kind in ("old_kind", "newer_kind"):
        if kind == "newer_kind":
            (sim / "old_kind.py").rename(sim / "newer_kind.py")
        (sim / "adding.py").write_text(module.replace("KIND", kind), encoding="utf-8")
        program = f"from sim.adding import *\nfrom sim.{kind} import Pair\nprint({asked})"
        found, errors = told_by(program, tmp_path)
        assert found == answer, errors


KEPT = """
from sim.physics.laws import excess_by
print(excess_by(1.5, 1000), sum(excess_by.stats.cache_hits.values()))
"""
SMALL = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (400, 400))\n"


def kept_beside(folder: Path, program: str = KEPT) -> tuple[str, str]:
    """What a process prints that keeps compiled code in a folder, and its errors."""
    return told_by(program, ROOT, NUMBA_CACHE_DIR=str(folder))


@pytest.mark.parametrize("kind", ["nbi", "nbc"])
def test_kept_code_that_cannot_be_read_is_made_anew(tmp_path: Path, kind: str) -> None:
    assert kept_beside(tmp_path) == ("0.5 0", "")
    (file,) = tmp_path.glob(f"*/laws.excess_by-*.{kind}")
    for left, more in ((0, b""), (150, b""), (0, b"\x8e" + b"\xff" * 8)):
        file.write_bytes(broken := file.read_bytes()[:left] + more)
        assert kept_beside(tmp_path) == ("0.5 0", "")
        assert file.read_bytes() != broken
    assert kept_beside(tmp_path) == ("0.5 1", "")


def test_on_a_full_disk_code_is_used_and_not_kept(tmp_path: Path) -> None:
    answer, told = kept_beside(tmp_path, SMALL + KEPT)
    assert answer == "0.5 0"
    assert told.count("compiled code is not kept") == 1
    assert str(tmp_path) in told
    assert kept_beside(tmp_path) == ("0.5 0", "")


GONE = """
import os
import shutil
from pathlib import Path
from sim.physics import laws
folder = Path(os.environ["NUMBA_CACHE_DIR"])
shutil.rmtree(folder)
folder.touch()
"""


def test_a_folder_that_is_lost_meanwhile_stops_no_run(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    answer, told = kept_beside(folder, GONE + KEPT)
    assert answer == "0.5 0"
    assert told.count("compiled code is not kept") == told.count("\n") == 1
    assert str(folder) in told


def test_where_nothing_can_be_kept_each_process_compiles(tmp_path: Path) -> None:
    sim = copied_to(tmp_path)
    for place in {path.parent for path in sim.rglob("*.py")}:
        (place / "__pycache__").touch()  # no folder can be made there, not even by root
    places = dict.fromkeys(("NUMBA_CACHE_DIR", "HOME", "XDG_CACHE_HOME"),
                           str(sim / "__pycache__" / "below"))  # fmt: skip
    for _ in range(2):
        assert told_by(KEPT, tmp_path, **places) == ("0.5 0", "")


TWO = """
from sim.jit import kernel
@kernel
def inner(a):
    if a < 0:
        raise ValueError("below 0")
    return a + 1
@kernel
def outer(a):
    return inner(a) * 2
def is_put_off():
    return [each.library.is_put_off for each in inner.overloads.values()]
"""


def test_what_is_compiled_for_a_caller_is_finished_once_python_calls_it(tmp_path: Path) -> None:
    (copied_to(tmp_path) / "two.py").write_text(TWO, encoding="utf-8")
    hits = "sum(inner.stats.cache_hits.values())"
    for asked, answer in (
        ("outer(1), is_put_off(), inner(1), is_put_off()", "4 [True] 2 [False]"),
        (f"inner(1), is_put_off(), {hits}", "2 [False] 1"),
    ):
        assert told_by(f"from sim.two import *\nprint({asked})", tmp_path) == (answer, "")
    edit(tmp_path / "sim" / "two.py", "return a + 1", "return a + 2")
    for asked, answer in (
        ("outer(1), is_put_off()", "6 [True]"),
        (f"inner(1), is_put_off(), {hits}", "3 [False] 1"),  # kept unfinished
        (f"inner(1), outer(2), is_put_off(), {hits}", "3 8 [False] 1"),
    ):
        assert told_by(f"from sim.two import *\nprint({asked})", tmp_path) == (answer, "")
    assert "below 0" in told_by("from sim.two import *\nouter(-1)", tmp_path)[1]
