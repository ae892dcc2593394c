"""What a process need look up but once, or not at all: YAML files, choices, frames of no module.

Reading its files is a third of composing a configuration, and a quarter is a table of all choices,
made anew for every file, that lists of defaults with `${` alone read. RLlib asks `inspect` for all
frames when it makes a connector, which looks through every module for each that belongs to none.
"""

import inspect
import os
import pickle
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from hydra._internal import defaults_list
from omegaconf import OmegaConf

_parse, _module_of = OmegaConf.load, inspect.getmodule
_choices = defaults_list._create_interpolation_map
_parsed: dict[tuple[str, int, int, int], bytes] = {}
_nowhere: set[str] = set()


def look_up_once(*folders: Path) -> None:
    """From here on in this process, and in those that it forks; what lies in `folders` now."""
    OmegaConf.load, inspect.getmodule = _load, _getmodule
    defaults_list._create_interpolation_map = _choices_if_read
    for path in (file for folder in folders for file in folder.rglob("*.yaml")):
        with path.open(encoding="utf-8") as file:
            _load(file)


def _load(file: Any) -> Any:
    """As `OmegaConf.load` does; of a file that Hydra opened, a copy unless it has changed."""
    if not isinstance(file, TextIOWrapper):
        return _parse(file)
    now = os.fstat(file.fileno())
    key = (os.path.realpath(file.name), now.st_ino, now.st_mtime_ns, now.st_size)
    if key not in _parsed:
        _parsed[key] = pickle.dumps(_parse(file))
    return pickle.loads(_parsed[key])


def _choices_if_read(overrides: Any, defaults: list[Any], *more: Any) -> Any:
    """As Hydra makes it for a list of defaults that refers to other choices; else nothing."""
    read = any(each.is_interpolation() for each in defaults)
    return _choices(overrides, defaults, *more) if read else None


def _getmodule(what: Any, name: str | None = None) -> Any:
    """As `inspect.getmodule` does, of frames."""
    file = what.f_code.co_filename if inspect.isframe(what) else None
    if file in _nowhere:
        return None
    found = _module_of(what, name)
    if found is None and file is not None:
        _nowhere.add(file)
    return found
