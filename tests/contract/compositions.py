"""Schedulers made from `conf/` as a user's command line makes them."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from omegaconf import OmegaConf

from gpuyard.launch.build import resolve
from sim.protocols import Scheduler

CONF = Path(__file__).resolve().parents[2] / "conf"


def resolved(program: str, *words: str) -> dict[str, Any]:
    """The configuration of a program with these words."""
    with initialize_config_dir(config_dir=str(CONF), version_base=None):
        return resolve(compose(program, list(words)))


def stems(group: str) -> list[str]:
    return sorted(path.stem for path in (CONF / group).glob("*.yaml"))


def composed(overrides: Sequence[str], program: str = "composition") -> Any:
    """The resolved `scheduler` node with these overrides.

    A whole program has the same node as a composition alone, in four times the time.
    """
    with initialize_config_dir(config_dir=str(CONF), version_base=None):
        config = compose(config_name=program, overrides=list(overrides))
    OmegaConf.resolve(config.scheduler)
    return config.scheduler


@cache  # nothing is composed before the test that plays it: each takes a tenth of a second
def made(*overrides: str) -> Scheduler:
    return instantiate(composed(overrides), _convert_="all")


def heuristics() -> list[str]:
    """Scheduler files that need no trained policy."""
    texts = {stem: (CONF / "scheduler" / f"{stem}.yaml").read_text() for stem in stems("scheduler")}
    return [stem for stem, text in texts.items() if "_target_: sim." in text]
