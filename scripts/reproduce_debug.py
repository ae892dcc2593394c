"""A choice of the group `debug` as overrides, so that it also wins over what cells say."""

from collections.abc import Iterator, Mapping
from typing import Any

from omegaconf import OmegaConf
from reproduce_node import CONF

SKIPPED = ("defaults", "hydra")


def debug_overrides(choice: str | None) -> list[str]:
    """`conf/debug/<choice>.yaml` as words of a command line: groups first, then values."""
    if choice is None:
        return []
    plain = OmegaConf.to_container(OmegaConf.load(CONF / "debug" / f"{choice}.yaml"))
    assert isinstance(plain, dict)  # a YAML file of keys
    return [*_groups(plain.get("defaults", [])), *_values(plain, "")]


def _groups(defaults: list[Any]) -> Iterator[str]:
    """`- override /topology: small` as `topology=small`."""
    for entry in defaults:
        if isinstance(entry, Mapping):
            for key, option in entry.items():
                yield f"{str(key).removeprefix('override ').lstrip('/')}={option}"


def _values(found: Mapping[Any, Any], prefix: str) -> Iterator[str]:
    for key, value in found.items():
        if not prefix and key in SKIPPED:
            continue
        if isinstance(value, Mapping):
            yield from _values(value, f"{prefix}{key}.")
        else:
            yield f"++{prefix}{key}={'null' if value is None else value}"
