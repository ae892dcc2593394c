"""What `simulate.py` does not do before its first event, and that nothing else changes by it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("scipy.linalg", "pandas", "matplotlib", "rich", "sklearn", "torch", "ray", "joblib")

COUNTING = """
import gc, json, runpy, sys
from hydra._internal.config_loader_impl import ConfigLoaderImpl

composed, plain = [], ConfigLoaderImpl.load_configuration

def counted(self, *given, **named):
    composed.append(1)
    return plain(self, *given, **named)

ConfigLoaderImpl.load_configuration = counted
sys.argv[0] = "scripts/simulate.py"
sys.path.insert(0, "scripts")
runpy.run_path(sys.argv[0], run_name="__main__")
seen = {"composed": len(composed), "collects": gc.isenabled(), "kept": gc.get_freeze_count()}
print(json.dumps(seen | {"loaded": sorted(sys.modules)}))
"""

HYDRA_ALONE = """
import sys
sys.path.insert(0, "scripts")
import contextlib, launch, runpy
launch.composing_once = contextlib.nullcontext
sys.argv[0] = "scripts/simulate.py"
runpy.run_path(sys.argv[0], run_name="__main__")
"""

BLAS = """
import sys
sys.path.insert(0, "scripts")
from compiled_parts import load_numba_parts
load_numba_parts()
assert "scipy.linalg" not in sys.modules and "scipy.linalg.cython_blas" not in sys.modules
import numba, numpy as np
product = numba.njit(lambda a, b: np.dot(a, b))
solved = numba.njit(lambda a, b: np.linalg.solve(a, b))
a, b = np.array([[2.0, 0.0], [1.0, 4.0]]), np.array([2.0, 9.0])
print(product(a, b).tolist(), solved(a, b).tolist())
import scipy.linalg
print(scipy.linalg.cython_blas.__name__, scipy.linalg.det(a))
"""


def run(code: str, *words: str) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=ROOT, env=env, capture_output=True, text=True, timeout=300,
    )  # fmt: skip


def words(trace: Path, folder: Path) -> list[str]:
    return [
        "workload=csv", f"workload.path={trace}", "topology=small_leaf_spine", "interference=none",
        "network=none", f"hydra.run.dir={folder}",
    ]  # fmt: skip


def test_a_run_loads_no_heavy_library_and_composes_once(trace, tmp_path):
    done = run(COUNTING, *words(trace, tmp_path / "run"))
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout.splitlines()[-1])
    assert [name for name in HEAVY if name in seen["loaded"]] == []
    assert seen["composed"] == 1
    assert seen["collects"] and seen["kept"] > 0


@pytest.mark.parametrize("extra", [(), ("hydra.mode=RUN",), ("hydra.verbose=true", "seed=3")])
def test_the_configuration_is_what_hydra_alone_composes(trace, tmp_path, extra):
    folder = tmp_path / "run"
    texts = []
    for code in (HYDRA_ALONE, HYDRA_ALONE.replace("launch.composing_once", "unused")):
        done = run(code, *words(trace, folder), *extra)
        assert done.returncode == 0, done.stderr
        files = sorted((folder / ".hydra").iterdir())
        texts.append([folder.joinpath("config.yaml").read_text(), *(f.read_text() for f in files)])
    assert texts[0] == texts[1]
    mode = yaml.safe_load((folder / ".hydra" / "hydra.yaml").read_text())["hydra"]["mode"]
    assert mode == "RUN"


@pytest.mark.parametrize("mode", [("-m",), ("hydra.mode=MULTIRUN",)])
def test_a_sweep_is_still_a_sweep(start, trace, mode):
    given = [w for w in words(trace, Path("unused")) if not w.startswith("hydra.run")]
    outcome = start("simulate", *mode, *given, "seed=1,2", folder="sweep", sweep=True)
    assert outcome.status == 0, outcome.err
    assert len(list(outcome.folder.rglob("metrics.json"))) == 2


def test_values_to_sweep_without_a_sweep_are_refused(start, trace):
    given = [w for w in words(trace, Path("unused")) if not w.startswith("hydra.run")]
    start("simulate", *given, "seed=1,2").failed_with("seed=1,2")


def test_numba_finds_blas_where_a_function_needs_it():
    done = run(BLAS)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == "[4.0, 38.0] [1.0, 2.0]"
    assert second == "scipy.linalg.cython_blas 8.0"
