"""The command `gpuyard`: what it lists, what it refuses, and a user's own folder of choices."""

import subprocess
import sys
from pathlib import Path

import pytest

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


def call(*words: str, folder: Path, path: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words], cwd=folder, env={"PYTHONPATH": str(path)},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip


def test_help_names_every_program_and_each_has_a_script(tmp_path: Path):
    from gpuyard.command import PROGRAMS

    told = call("-m", "gpuyard", "help", folder=tmp_path).stdout
    assert [name for name in PROGRAMS if f"  {name} " not in told] == []
    scripts = {path.stem for path in (ROOT / "scripts").glob("*.py")}
    assert scripts - {"check_files"} == set(PROGRAMS)


def test_an_unknown_program_gets_the_nearest(tmp_path: Path):
    done = call("-m", "gpuyard", "simulat", folder=tmp_path)
    assert done.returncode == 2
    assert done.stderr == "error: gpuyard has no program 'simulat'; did you mean simulate?\n"
    assert (
        "did you mean learn?" in call("-m", "gpuyard", "tune_linear_score", folder=tmp_path).stderr
    )


def test_a_file_of_the_users_that_hides_a_package_is_named(tmp_path: Path):
    (tmp_path / "sim.py").write_text("x = 1\n")
    done = call("-m", "gpuyard", "simulate", folder=tmp_path)
    assert done.returncode == 2
    assert f"package 'sim' cannot be imported: {tmp_path / 'sim.py'} comes first" in done.stderr
    asked = call("-c", "import gpuyard; gpuyard.simulate()", folder=tmp_path)
    assert asked.stderr.splitlines()[-1].startswith("ImportError: GPUYard's package 'sim' cannot")


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
    done = call("-c", BLOCKED, *words, folder=tmp_path)
    assert done.returncode == 1
    fix = f"this needs {package}, which is not installed: pip install 'gpuyard[{extra}]'"
    assert f"error: {fix}" in done.stderr


def test_heuristics_need_neither_torch_nor_ray(tmp_path: Path):
    words = ("evaluate", "windows=1", "workload.num_jobs=30", "agents.count=2", "jobs=1",
             "lineup.entries=[{role: composite, overrides: ['scheduler=fifo']}]")  # fmt: skip
    for program in (words, ("reproduce",)):
        done = call("-c", BLOCKED, *program, folder=tmp_path)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("text", "told"),
    [("search_path: [nowhere]", "search_path names 'nowhere'"), ("paths: []", "must be one list"),
     ("search_path: [", "while parsing")],
)  # fmt: skip
def test_a_wrong_file_of_folders_is_told(tmp_path: Path, text: str, told: str):
    (tmp_path / "gpuyard.yaml").write_text(text)
    done = call("-m", "gpuyard", "simulate", folder=tmp_path)
    assert done.returncode == 1
    assert str(tmp_path / "gpuyard.yaml") in done.stderr and told in done.stderr
