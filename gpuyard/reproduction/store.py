"""Finished runs of a reproduction: a small file each, named after what decides its result."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from gpuyard.evaluation.task import Task
from gpuyard.launch.errors import ConfigError
from marl.policy.build import SHIPPED, policy_folder
from sim.report.atomic import write_atomically
from sim.report.comparison import ComparisonRow, Labels

PARTS = "parts"
# Keys that say what is compared and how it is shown, not what happens in a run.
NOT_OF_A_RUN = (
    "lineup", "windows", "jobs", "ours", "confidence", "reproduce", "checkpoint", "untrained",
    "missing", "failed", "fresh", "part", "level", "most_cells", "agent_counts",
    "page", "into",
)  # fmt: skip
MOST_READ_BYTES = 1 << 24  # of a file; a policy trained anew has the size of the old one


def run_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a resolved configuration that decides what happens in a run."""
    return {key: value for key, value in config.items() if key not in NOT_OF_A_RUN}


def part_name(task: Task) -> str:
    """A name that two tasks share if their resolved configurations are equal.

    A file that the configuration names (a trace, a policy) counts by its path and content, above
    16 MiB by its path and size, a folder by its files; the program's own code does not count.
    """
    contender = task.contender
    texts = [task.setting, contender.composition, contender.name or "", task.part, str(task.window)]
    files = sorted({*_files_named(task.setting), *_files_named(contender.composition)})
    digest = hashlib.sha256("\n".join([*texts, *files]).encode()).hexdigest()
    return f"{digest[:32]}.json"


@lru_cache(maxsize=1024)
def _files_named(text: str) -> list[str]:
    return _files(json.loads(text))


def _files(found: Any) -> list[str]:
    """A line for every file that a text of the configuration names."""
    if isinstance(found, Mapping):
        named = found.get("checkpoint")
        own = _told(policy_folder(named).glob("policy.*")) if named in SHIPPED else []
        return [*own, *(text for value in found.values() for text in _files(value))]
    if isinstance(found, list):
        return [text for value in found for text in _files(value)]
    if not isinstance(found, str) or "/" not in found:
        return []
    path = Path(found)
    return _told([path] if path.is_file() else path.rglob("*"))


def _told(paths: Iterable[Path]) -> list[str]:
    files = sorted(path for path in paths if path.is_file())
    return [f"{each} {_fingerprint(each, each.stat().st_size)}" for each in files]


@lru_cache(maxsize=1024)
def _fingerprint(path: Path, size_bytes: int) -> str:
    if size_bytes > MOST_READ_BYTES:
        return str(size_bytes)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write_part(path: Path, row: ComparisonRow, curves: Mapping[str, Any]) -> None:
    """Store one finished run, and what its page draws of it, whole or not at all."""
    content = {"labels": row.labels.as_dict(), "metrics": dict(row.metrics), "curves": curves}
    write_atomically(path, json.dumps(content).encode())


def read_curves(path: Path) -> dict[str, Any]:
    """What a page draws of a stored run; empty where it was stored without."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")).get("curves", {})
    return found


def read_part(path: Path, *, role: str) -> ComparisonRow | None:
    """A stored run, under the role that it has now; None where there is none.

    Raises:
        ConfigError: the file is no result of a run.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    try:
        found = json.loads(text)
        return ComparisonRow(Labels(**{**found["labels"], "role": role}), found["metrics"])
    except (ValueError, KeyError, TypeError):
        raise ConfigError(f"{path} is no result of a run; remove it to run it again") from None
