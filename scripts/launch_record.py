"""What a run was told and what it ran on, so that it can be run again."""

import json
import platform
import subprocess
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

LIBRARIES = (
    "gpuyard",
    "gymnasium",
    "hydra-core",
    "numba",
    "numpy",
    "pandas",
    "pettingzoo",
    "ray",
    "scikit-learn",
    "scipy",
    "torch",
    "torch-geometric",
)
HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Record:
    """Program, words of the command line, resolved configuration, commit and versions."""

    program: str
    overrides: tuple[str, ...]  # as given on the command line, this point of a sweep
    config_text: str  # resolved, YAML
    git_commit: str | None  # None outside a repository
    git_dirty: bool | None  # True if tracked files differ from the commit
    versions: dict[str, str]  # of python and of the libraries that are installed


def record_of(*, program: str, overrides: tuple[str, ...], config_text: str) -> Record:
    """Collect commit and versions beside what the run was told."""
    commit = _git("rev-parse", "HEAD")
    changes = _git("status", "--porcelain", "--untracked-files=no")
    return Record(
        program=program,
        overrides=overrides,
        config_text=config_text,
        git_commit=commit,
        git_dirty=None if commit is None or changes is None else changes != "",
        versions=library_versions(),
    )


def library_versions() -> dict[str, str]:
    """Versions of Python and of every library in `LIBRARIES` that is installed."""
    found = {"python": platform.python_version()}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def write_record(record: Record, folder: Path) -> None:
    """Write `config.yaml` (resolved) and `provenance.json` into `folder`."""
    (folder / "config.yaml").write_text(record.config_text, encoding="utf-8")
    rest = {
        "program": record.program,
        "overrides": list(record.overrides),
        "git_commit": record.git_commit,
        "git_dirty": record.git_dirty,
        "versions": record.versions,
    }
    text = json.dumps(rest, indent=2) + "\n"
    (folder / "provenance.json").write_text(text, encoding="utf-8")


def _git(*words: str) -> str | None:
    """Output of a git command about the folder of these scripts; None if git cannot answer."""
    try:
        done = subprocess.run(
            ["git", "-C", str(HERE), *words], capture_output=True, text=True, check=True, timeout=30
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
