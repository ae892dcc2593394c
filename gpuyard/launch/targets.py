"""Why a `_target_` could not be found or made, told in words: the place in the user's module."""

import os
import pkgutil
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from traceback import extract_tb

from hydra.errors import InstantiationException

from gpuyard.launch.errors import instead

LOCATING = re.compile(r"Error locating target '([^']*)'")
INSIDE = re.compile(r"^full_key: (.+)$", re.MULTILINE)
PROJECT = Path(__file__).resolve().parents[2]
VIEW = PROJECT / "sim" / "view.py"
ROOMS = [PROJECT / name for name in ("sim", "interference", "gnn", "marl", "gpuyard", "scripts")]
LIBRARIES = [Path(sys.prefix), Path(sys.base_prefix)]
IMPORTING = ("<frozen", "importlib", "hydra")  # of files that only pass an import on


def message_of(key: str, error: InstantiationException) -> str:
    """What a user is told of section `key`, from Hydra's error and its causes."""
    found, inside = LOCATING.search(str(error)), INSIDE.search(str(error))
    if found is None:
        return f"{key}: {_on_one_line(str(error))}"
    place = f"{key}.{inside[1]}" if inside else key
    return f"{place}._target_ is {found[1]!r}; {_unfound(found[1], _first_cause(error))}"


def origin(error: BaseException) -> str:
    """`FILE line N: ` where an error came up; empty where no file is known."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename} line {error.lineno}: "
    frames = extract_tb(error.__traceback__)
    own = [each for each in frames if not any(part in each.filename for part in IMPORTING)]
    return f"{own[-1].filename} line {own[-1].lineno}: " if own else ""


def fault_of_own(error: BaseException) -> str | None:
    """The line of a user's own order or placer that failed, a library it called included.

    None: the program did, be it of the user's own.
    """
    frames = extract_tb(error.__traceback__)
    while frames and Path(frames[-1].filename) == VIEW:  # it refuses what its reader asked for
        frames.pop()
    ours = [at for at, each in enumerate(frames) if _lies_in(each.filename, ROOMS)]
    last = max(ours, default=-1)
    made = [each for each in frames[last + 1 :] if not each.filename.startswith("<")]
    python = Path(os.__file__).parent  # what Python raises is the fault of who called it
    own = [each for each in made if not _lies_in(each.filename, (*LIBRARIES, python))]
    if last < 0 or not own or Path(frames[last].filename).parent == Path(__file__).parent:
        return None
    at = own[-1]
    return (
        f"{at.filename} line {at.lineno}, in {at.name}: "
        f"{type(error).__name__}: {_on_one_line(str(error))}; mend that line"
    )


def _lies_in(file: str, folders: Sequence[Path]) -> bool:
    return any(Path(file).is_relative_to(each) for each in folders)


def _first_cause(error: BaseException) -> BaseException:
    """What Hydra's own errors came of."""
    while error.__cause__ is not None and (
        isinstance(error, InstantiationException) or str(error).startswith("Error loading ")
    ):
        error = error.__cause__
    return error


def _unfound(target: str, cause: BaseException) -> str:
    """Why the module or what it is asked for is not there, and the fix."""
    if isinstance(cause, SyntaxError):
        return f"{origin(cause)}{cause.msg}; mend that line"
    if isinstance(cause, ModuleNotFoundError) and f"{target}.".startswith(f"{cause.name}."):
        return _missing_words(str(cause.name), target)
    if isinstance(cause, AttributeError) and not origin(cause):
        return f"{_on_one_line(str(cause))}; correct the name"
    fix = "mend that line"
    if isinstance(cause, ModuleNotFoundError):
        fix = f"install {cause.name}, or mend that line"
    return f"{origin(cause)}{type(cause).__name__}: {_on_one_line(str(cause))}; {fix}"


def _missing_words(missing: str, target: str) -> str:
    parent, _, name = missing.rpartition(".")
    module = sys.modules.get(parent)
    folders = list(getattr(module, "__path__", ())) if parent else [str(Path.cwd())]
    beside = [each.name for each in pkgutil.iter_modules(folders)]
    if module is None or (folders and missing != target):
        where = folders[0] if folders else parent
        fix = instead(name, beside, f"put {name}.py there, or correct the name")
        return f"there is no module {missing!r} (looked in {where} and what is installed); {fix}"
    names = [each for each in vars(module) if not each.startswith("_")]
    fix = instead(name, names + beside, "correct the name")
    return f"{getattr(module, '__file__', None) or parent} has no {name!r}; {fix}"


def _on_one_line(text: str) -> str:
    """Without Hydra's advice to set an environment variable."""
    kept = text.replace(", set env var HYDRA_FULL_ERROR=1 to see chained exception.", "")
    return " ".join(kept.split())
