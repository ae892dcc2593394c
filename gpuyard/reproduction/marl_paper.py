"""Zhao and Wu's setting: `python scripts/reproduce.py experiment=marl_paper`.

Trains the agents that have no policy yet, each by `train.py` in a process of its own, then runs the
experiment's league. Finished policies and runs are kept, so the same command goes on.
"""

import json
import logging
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig

from gpuyard.launch.errors import ConfigError
from gpuyard.launch.start import Launch
from gpuyard.reproduction.plan import with_policies
from gpuyard.reproduction.reproduce import run_league
from sim.errors import GpuYardError

log = logging.getLogger(__name__)

TRAINED, POLICY, DONE = "trained", "policy", "trained_by.json"
KEYS = ("folder", "overrides", "quick")


def run(launch: Launch) -> None:
    """Train what is missing, then play and compare.

    Raises:
        GpuYardError: the node is wrong, or a training or a run failed.
    """
    debug = HydraConfig.get().runtime.choices["debug"]
    told: Mapping[str, Any] = launch.config["reproduce"]["policies"]
    folders = {
        name: _policy(launch.folder / TRAINED / name, name, each, debug)
        for name, each in told.items()
    }
    run_league(launch, lambda cell: with_policies(cell, folders, "scheduler.checkpoint"))


def _policy(folder: Path, name: str, told: Mapping[str, Any], debug: str | None) -> str:
    """The policy folder of one entry, trained if there is none by the same words."""
    if set(told) != set(KEYS):
        raise ConfigError(f"reproduce.policies.{name} has {list(told)}; it needs {KEYS}")
    if told["folder"] is not None:
        return str(told["folder"])
    words = [*told["overrides"], *(told["quick"] if debug else [])]
    done, text = folder / DONE, json.dumps(words)
    if not (done.is_file() and done.read_text("utf-8") == text):
        done.unlink(missing_ok=True)
        _train(name, words, folder)
        done.write_text(text, encoding="utf-8")
    return str(folder / POLICY)


def _train(name: str, words: list[str], folder: Path) -> None:
    """Run `train.py`; a training that was interrupted goes on."""
    log.info("training %s in %s", name, folder)
    own = [f"hydra.run.dir='{folder}'", "resume=auto"]
    status = subprocess.run(
        [sys.executable, "-m", "gpuyard", "train", *words, *own], check=False
    ).returncode
    if status != 0:
        raise GpuYardError(
            f"reproduce.policies.{name}: train.py {' '.join(words)} ended with status {status}; "
            f"what it said is above, its log in {folder}"
        )
