"""Zhao and Wu's setting: `python scripts/reproduce.py experiment=marl_paper`.

Trains the agents that have no policy yet, each by `train.py` in a process of its own, then runs the
experiment's league. Finished policies and runs are kept, so the same command goes on.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpuyard.evaluation.lineup import entries_of
from gpuyard.launch.errors import ConfigError
from gpuyard.launch.start import Launch
from gpuyard.reproduction.ahead import POLICY_KEYS, check_words, policies_of, untrained
from gpuyard.reproduction.node import asked, key_of
from gpuyard.reproduction.planned import with_policies
from gpuyard.reproduction.reproduce import check_ahead, plan, run_league
from gpuyard.reproduction.runs import run_once

TRAINED, POLICY = "trained", "policy"


def run(launch: Launch) -> None:
    """Train what is missing, then play and compare; GpuYardError: something of it failed."""
    debug, node = asked().debug, launch.config["reproduce"]["policies"] or {}
    names = [name for name, each in node.items() if each is not None]
    _refuse_without(names, entries_of(launch.config))
    check_ahead(lambda prepared: plan(launch, prepared)[1], names, launch.config["ours"])

    def words_of(entry: Mapping[str, Any]) -> list[str]:
        return [*entry["overrides"], *(entry["quick"] if debug else [])]

    def trained(name: str, entry: Mapping[str, Any]) -> Path:
        """The policy folder of one entry, trained if there is none by the same words."""
        folder = launch.folder / TRAINED / name
        words = ["train", *words_of(entry)]
        run_once(folder, words, goes_on=True)
        return folder / POLICY

    parts = {place: words_of(entry) for place, entry in untrained("policies", node).items()}
    check_words(launch, "train", parts)
    folders = policies_of("policies", node, trained)
    run_league(launch, lambda cell: with_policies(cell, folders, "scheduler.checkpoint"))


def _refuse_without(names: Sequence[str], entries: Sequence[Mapping[str, Any]]) -> None:
    """Raise ConfigError for an entry of the agents that neither has a policy nor gets one here."""
    for entry in entries:
        words = entry.get("overrides") or () if isinstance(entry, Mapping) else ()
        if "scheduler=marl" not in words or entry.get("name") in (None, *names):
            continue
        if not any(key_of(word) in ("checkpoint", "scheduler.checkpoint") for word in words):
            name = entry["name"]
            raise ConfigError(
                f"reproduce.policies.{name} is null or missing, and the line-up plays {name}: give "
                f"it {', '.join(POLICY_KEYS)} (folder: of a trained policy, null: to be trained), "
                "or leave its entry out of lineup.entries"
            )
