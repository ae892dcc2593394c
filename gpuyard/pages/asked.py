"""What every page says of its run: what was asked, and by what code."""

import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from gpuyard.launch.errors import ConfigError
from sim.report.run_folder import Record

SHORT = 12  # characters of a commit


def check_page(config: Mapping[str, Any]) -> None:
    """Refuse a `page` that is neither true nor false, before anything is run.

    Raises:
        ConfigError: naming the value.
    """
    if not isinstance(config["page"], bool):
        raise ConfigError(f"page is {config['page']!r}; it must be true or false")


def facts_of(record: Record, *, seeds: Iterable[int] = ()) -> tuple[tuple[str, str], ...]:
    """(name, text) of the command, its settings, the code and the seeds.

    Args:
        record: of the run.
        seeds: of the runs on the page, where they are other than the record's.
    """
    first, *words = record.command or ("",)
    drawn = sorted(set(seeds)) or ([] if record.seed is None else [record.seed])
    versions = record.versions
    return (
        ("command", f"{first} {shlex.join(words)}".strip()),
        ("overrides", shlex.join(record.overrides) or "none"),
        ("commit", _commit(record)),
        ("seed" if len(drawn) == 1 else "seeds", ", ".join(map(str, drawn)) or "none"),
        ("versions", ", ".join(f"{name} {versions[name]}" for name in ("gpuyard", "python", "numpy")
                               if versions.get(name))),
    )  # fmt: skip


def _commit(record: Record) -> str:
    if record.git_commit is None:
        return "not from a git repository"
    changed = " with changes that are not committed" if record.git_dirty else ""
    return record.git_commit[:SHORT] + changed
