"""The five packages are ours, and a wheel holds all that they need and nothing else."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("sim", "interference", "gnn", "marl", "gpuyard")
DATA = {".csv", ".json", ".npz", ".pt"}
PAGE = {".j2", ".css", ".js"}
SHIPPED = (
    "shipped", "pretrained", "pretrained_suspending", "pretrained_forest", "pretrained_alone",
    "pretrained_gittins",
)  # fmt: skip


@pytest.mark.parametrize("package", PACKAGES)
def test_the_package_is_ours_alone(package: str):
    owners = set(packages_distributions().get(package, ["nobody: run `make setup`"]))
    assert owners == {"gpuyard"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from a copy of the sources (a build leaves folders behind)."""
    copy = tmp_path_factory.mktemp("sources")
    for folder in (*PACKAGES, "conf"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.cfg", "setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy / name)
    command = "pip wheel --quiet --no-deps --no-build-isolation --wheel-dir out ."
    subprocess.run([sys.executable, "-m", *command.split()], cwd=copy, check=True, timeout=300)
    (made,) = (copy / "out").glob("*.whl")
    return made


def test_a_wheel_holds_every_module_configuration_and_shipped_file(wheel: Path):
    held = set(zipfile.ZipFile(wheel).namelist())
    wanted = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.suffix == ".py"
        or (path.suffix in DATA and path.parent.name in SHIPPED)
        or (path.suffix in PAGE and path.parent.name == "pages")
    }
    conf = {f"gpuyard/{p.relative_to(ROOT).as_posix()}" for p in (ROOT / "conf").rglob("*.yaml")}
    assert (wanted | conf) - held == set()
    tops = {name.split("/")[0] for name in held}
    assert {top for top in tops if not top.startswith("gpuyard-")} == set(PACKAGES)


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command in a new virtual environment that has the wheel; libraries are those of here."""
    env = tmp_path_factory.mktemp("installed")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", env], check=True)
    words = ["pip", "--python", env, "install", "--quiet", "--no-deps", "--no-index", wheel]
    subprocess.run([sys.executable, "-m", *words], check=True, timeout=120)
    (site,) = env.glob("lib/python*/site-packages")
    (site / "libraries.pth").write_text(sysconfig.get_path("purelib"))  # its own .pth are not read
    for compiled in ROOT.glob("sim/**/__pycache__/*.nb[ic]"):  # the sources are the same
        beside = site / compiled.relative_to(ROOT)
        beside.parent.mkdir(exist_ok=True)
        shutil.copy(compiled, beside)
    return env / "bin" / "gpuyard"


def call(command: Path, folder: Path, *words: str) -> str:
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [command, *words], cwd=folder, env=env, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_installed_command_simulates_in_an_empty_folder(installed: Path, tmp_path: Path):
    told = call(installed, tmp_path, "simulate", "workload.num_jobs=40", "scheduler=fifo")
    assert "jct_mean_s" in told
    (metrics,) = tmp_path.glob("runs/simulate/*/metrics.json")
    assert metrics.with_name("report.html").is_file()
    record = json.loads(metrics.with_name("record.json").read_text())
    assert record["command"][0] == "gpuyard simulate"


@pytest.mark.slow
def test_the_installed_command_evaluates_the_shipped_policy(installed: Path, tmp_path: Path):
    words = ("checkpoint=pretrained", "windows=1", "workload.num_jobs=60", "jobs=1")
    told = call(installed, tmp_path, "evaluate", "experiment=marl_headline", *words)
    assert "marl" in told


def test_the_lock_names_every_requirement_once():
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    pins = [line.partition("==") for line in lines if not line.startswith("#")]
    names = [name.lower().replace("_", "-") for name, _, _ in pins]
    assert all(sep and version and "+" not in version for _, sep, version in pins)
    assert len(set(names)) == len(names)
    assert {"torch", "setuptools", "ray", "hydra-core", "pytest", "mypy"} <= set(names)
