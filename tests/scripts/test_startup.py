"""What `simulate.py` does not do before its first event, and that nothing else changes by it."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("pandas", "matplotlib", "rich", "sklearn", "torch", "ray", "joblib")

LOADING = """
import json, sys
sys.argv[0] = "scripts/simulate.py"
from gpuyard.command import run
run("simulate")
print(json.dumps(sorted(sys.modules)))
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
