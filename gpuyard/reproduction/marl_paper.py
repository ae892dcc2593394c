"""Zhao and Wu's setting: `python scripts/reproduce.py experiment=marl_paper`.

Trains the agents that have no policy yet, each by `train.py` in a process of its own, then runs the
experiment's league. Finished policies and runs are kept, so the same command goes on.
"""

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpuyard.launch.start import Launch
from gpuyard.launch.sweeps import run_program
from gpuyard.reproduction.node import asked
from gpuyard.reproduction.plan import policies_of, with_policies
from gpuyard.reproduction.reproduce import run_league
from sim.errors import GpuYardError

log = logging.getLogger(__name__)

TRAINED, POLICY, DONE = "trained", "policy", "trained_by.json"


def run(launch: Launch) -> None:
    """Train what is missing, then play and compare.

    Raises:
        GpuYardError: the node is wrong, or a training or a run failed.
    """
    debug = asked().debug

    def trained(name: str, entry: Mapping[str, Any]) -> Path:
        """The policy folder of one entry, trained if there is none by the same words."""
        words = [*entry["overrides"], *(entry["quick"] if debug else [])]
        folder = launch.folder / TRAINED / name
        done, text = folder / DONE, json.dumps(words)
        if not (done.is_file() and done.read_text("utf-8") == text):
            done.unlink(missing_ok=True)
            _train(name, words, folder)
            done.write_text(text, encoding="utf-8")
        return folder / POLICY

    folders = policies_of("policies", launch.config["reproduce"]["policies"], trained)
    run_league(launch, lambda cell: with_policies(cell, folders, "scheduler.checkpoint"))


def _train(name: str, words: list[str], folder: Path) -> None:
    """Run `train.py`; a training that was interrupted goes on."""
    log.info("training %s in %s", name, folder)
    own = [f"hydra.run.dir='{folder}'", "resume=auto"]
    status = run_program(["train", *words, *own])
    if status != 0:
        raise GpuYardError(
            f"reproduce.policies.{name}: train.py {' '.join(words)} ended with status {status}; "
            f"what it said is above, its log in {folder}"
        )
