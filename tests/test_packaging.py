"""The five packages are ours, and a wheel holds all that they need and nothing else."""

import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("sim", "interference", "gnn", "marl", "gpuyard")
DATA = {".csv", ".json", ".npz"}


@pytest.mark.parametrize("package", PACKAGES)
def test_the_package_is_ours_alone(package: str):
    owners = set(packages_distributions().get(package, ["nobody: run `make setup`"]))
    assert owners == {"gpuyard"}


@pytest.fixture(scope="module")
def wheel_files(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Files of a wheel built from a copy of the sources (a build leaves folders behind)."""
    copy = tmp_path_factory.mktemp("sources")
    for package in PACKAGES:
        shutil.copytree(
            ROOT / package, copy / package, ignore=shutil.ignore_patterns("__pycache__")
        )
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy / name)
    command = "pip wheel --quiet --no-deps --no-build-isolation --wheel-dir out ."
    subprocess.run([sys.executable, "-m", *command.split()], cwd=copy, check=True, timeout=300)
    (wheel,) = (copy / "out").glob("*.whl")
    return set(zipfile.ZipFile(wheel).namelist())


def test_a_wheel_holds_every_module_and_every_shipped_file(wheel_files: set[str]):
    wanted = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.suffix == ".py" or (path.suffix in DATA and path.parent.name == "shipped")
    }
    assert wanted - wheel_files == set()


def test_a_wheel_holds_no_other_top_level_name(wheel_files: set[str]):
    tops = {name.split("/")[0] for name in wheel_files}
    assert {top for top in tops if not top.startswith("gpuyard-")} == set(PACKAGES)


def test_the_lock_names_every_requirement_once():
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    pins = [line.partition("==") for line in lines if not line.startswith("#")]
    names = [name.lower().replace("_", "-") for name, _, _ in pins]
    assert all(sep and version and "+" not in version for _, sep, version in pins)
    assert len(set(names)) == len(names)
    assert {"torch", "setuptools", "ray", "hydra-core", "pytest", "mypy"} <= set(names)
