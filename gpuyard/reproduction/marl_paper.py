"""Zhao and Wu's setting: `python scripts/reproduce.py experiment=marl_paper`.

Trains the agents that have no policy yet, each by `train.py` in a process of its own, then runs the
experiment's league. Finished policies and runs are kept, so the same command goes on.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpuyard.launch.start import Launch
from gpuyard.reproduction.node import asked
from gpuyard.reproduction.planned import policies_of, with_policies
from gpuyard.reproduction.reproduce import check_ahead, plan, run_league
from gpuyard.reproduction.runs import run_once

TRAINED, POLICY = "trained", "policy"


def run(launch: Launch) -> None:
    """Train what is missing, then play and compare; GpuYardError: something of it failed."""
    debug, node = asked().debug, launch.config["reproduce"]["policies"] or {}
    names = [name for name, each in node.items() if each is not None]
    check_ahead(lambda prepared: plan(launch, prepared)[1], names, launch.config["ours"])

    def trained(name: str, entry: Mapping[str, Any]) -> Path:
        """The policy folder of one entry, trained if there is none by the same words."""
        words = [*entry["overrides"], *(entry["quick"] if debug else [])]
        folder = launch.folder / TRAINED / name
        run_once(folder, ["train", *words], "resume=auto")  # one that was interrupted goes on
        return folder / POLICY

    folders = policies_of("policies", node, trained)
    run_league(launch, lambda cell: with_policies(cell, folders, "scheduler.checkpoint"))
