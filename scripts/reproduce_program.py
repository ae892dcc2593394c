"""Experiments that are no league of schedulers: a program of their own runs them."""

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from launch import Launch
from launch_errors import ConfigError, nearest

Program = Callable[[Launch], None]


def program_of(node: Any, *, experiment: str) -> Program | None:
    """What runs this experiment: `run(launch)` of the module that `reproduce.program` names.

    The program reads the rest of the node, writes to `launch.folder`, keeps what is finished there
    so that the same command goes on, and says what it does on standard error.

    Returns:
        None where the node names no program: its cells are runs of schedulers.

    Raises:
        ConfigError: there is no such module, or it has no `run`.
    """
    name = node.get("program") if isinstance(node, Mapping) else None
    if name is None:
        return None
    known = known_programs()
    if name not in known:
        hint = nearest(str(name), known)
        fix = f"did you mean {hint}?" if hint else f"it must be one of {', '.join(known)}"
        raise ConfigError(f"experiment={experiment}: reproduce.program is {name!r}; {fix}")
    run: Program = import_module(name).run
    return run


def known_programs() -> list[str]:
    """Modules of this folder that define `run(launch)`, sorted."""
    paths = sorted(Path(__file__).resolve().parent.glob("*.py"))
    return [path.stem for path in paths if "\ndef run(launch" in path.read_text("utf-8")]
