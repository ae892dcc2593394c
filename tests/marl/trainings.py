"""Training programs as a user runs them, in processes of their own; values that are shipped."""

import csv
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from marl.training.spec import AgentsSpec, LocalRay
from tests.forking import environment, run_program

ROOT = Path(__file__).resolve().parents[2]
CONF = ROOT / "conf"
TINY = (
    "topology=small_leaf_spine", "workload=venus_like", "agents.count=2", "workload.num_jobs=40",
    "workload.thin=1", "algo.batch_agent_steps=64", "algo.minibatch_agent_steps=32",
    "algo.epochs=1", "validation_windows=1", "encoder.hidden_dim=8", "encoder.gpu_dim=4",
    "policy.head_dim=8",
)  # fmt: skip


@dataclass(frozen=True)
class Training:
    """A script of `scripts/` with the overrides that make it small."""

    script: str
    tiny: tuple[str, ...]

    def run(self, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
        """Train to the end, or be refused."""
        return run_program(self._command(folder, words)[1:], cwd=folder.parent)

    @contextmanager
    def begun(self, folder: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
        """A training that is under way; whoever of it is left in the end is killed.

        What it prints goes to `printed` beside its folder: nobody has to read a pipe.
        """
        with (folder.parent / "printed").open("w") as printed:
            running = subprocess.Popen(
                self._command(folder, words), cwd=folder.parent, env=environment(), text=True,
                stdout=printed, stderr=printed, start_new_session=True,
            )  # fmt: skip
        try:
            yield running
        finally:
            if running.poll() is None:
                os.killpg(running.pid, signal.SIGKILL)
                running.wait(timeout=30)

    def _command(self, folder: Path, words: tuple[str, ...]) -> list[str]:
        script = str(ROOT / "scripts" / self.script)
        return [sys.executable, script, *self.tiny, f"hydra.run.dir={folder}", *words]


def curve(folder: Path) -> list[dict[str, str]]:
    """The learning curve so far; no rows where there is none yet."""
    path = folder / "learning_curve.csv"
    return list(csv.DictReader(path.open())) if path.is_file() else []


def iterations(folder: Path) -> list[int]:
    return [int(row["iteration"]) for row in curve(folder)]


def wait_for(ready: Callable[[], object], running: subprocess.Popen[str], most_s: float) -> None:
    """Until something is so, of a program that has to run on till then."""
    deadline = time.monotonic() + most_s
    while not ready():
        assert running.poll() is None, f"it ended with {running.returncode}"
        assert time.monotonic() < deadline, f"it is not so after {most_s:g} s"
        time.sleep(0.05)


def shipped(*files: str) -> dict[str, Any]:
    """Values of files of `conf`, those of later files over those of earlier ones."""
    each = [yaml.safe_load((CONF / file).read_text()) for file in files]
    told = {key: value for values in each for key, value in values.items()}
    return {key: value for key, value in told.items() if key not in {"defaults", "_target_"}}


def local_ray(**given: Any) -> LocalRay:
    """The shipped values but for those given, in little memory."""
    files = shipped("ray/_base.yaml", "ray/local.yaml")
    return LocalRay(**files | {"object_store_bytes": 100_000_000} | given)


def optimizer_of(trainer: Any) -> Any:
    """Of the one module of a trainer that learns in this process."""
    (optimizer,) = trainer._algorithm.learner_group._learner._named_optimizers.values()
    return optimizer


def algorithm_of(*, ppo: AgentsSpec, **given: Any) -> Any:
    """What `ppo` says to learn by; `given` is as `Setup` takes it."""
    from marl.rllib.algorithm import Setup
    from marl.rllib.trainer import build_algorithm

    return build_algorithm(Setup(**given), ppo)
