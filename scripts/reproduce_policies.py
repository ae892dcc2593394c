"""Trained policies as entries of a line-up."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from reproduce_plan import Cell


def with_policies(cell: Cell, folders: Mapping[str, str], key: str) -> Cell:
    """The cell in which every entry that is called like a policy gets its folder as `key`."""
    entries = [_entry(entry, folders, key) for entry in cell.config["lineup"]["entries"]]
    return replace(cell, config={**cell.config, "lineup": {"entries": entries}})


def _entry(entry: Mapping[str, Any], folders: Mapping[str, str], key: str) -> dict[str, Any]:
    folder = folders.get(str(entry.get("name")))
    words = [] if folder is None else [folder_override(key, folder)]
    return {**entry, "overrides": [*entry["overrides"], *words]}


def folder_override(key: str, folder: str | Path) -> str:
    """`key='folder'` as Hydra reads it back, whatever the folder is called."""
    quoted = str(folder).replace("\\", "\\\\").replace("'", "\\'")
    return f"{key}='{quoted}'"
