"""The record of a run: what is needed to run it again and to know what it was."""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from platform import python_version

from sim.report.labels import Labels

PACKAGES = (
    "gpuyard",
    "numpy",
    "numba",
    "scipy",
    "pandas",
    "torch",
    "torch-geometric",
    "gymnasium",
    "pettingzoo",
    "ray",
    "hydra-core",
    "scikit-learn",
    "matplotlib",
)


@dataclass(frozen=True)
class Record:
    """Written as `record.json` (all but the config) and `config.yaml`."""

    labels: Labels | None  # None: not (yet) the run of one scheduler
    program: str  # name of the script
    command: tuple[str, ...]  # the command line
    overrides: tuple[str, ...]  # its settings; in a sweep those of this point
    seed: int | None  # None: the program draws nothing
    versions: dict[str, str | None]  # package -> version; None: not installed
    git_commit: str | None  # None: the code is in no git repository
    git_dirty: bool | None  # True: the code differs from the commit
    config_yaml: str  # the resolved configuration
    assumed: tuple[str, ...] = ()  # durations, models, cuts, then GPU types without profiles

    def as_dict(self) -> dict[str, object]:
        """What `record.json` holds; the labels' keys stand beside the others."""
        return {
            "seed": self.seed,
            **({} if self.labels is None else self.labels.as_dict()),
            "program": self.program,
            "command": list(self.command),
            "overrides": list(self.overrides),
            "versions": self.versions,
            "git_commit": self.git_commit,
            "git_dirty": self.git_dirty,
            **({"assumed": list(self.assumed)} if self.assumed else {}),
        }


def collect_record(
    *,
    labels: Labels | None,
    program: str,
    command: Sequence[str],
    overrides: Sequence[str],
    seed: int | None,
    config_yaml: str,
) -> Record:
    """Gather versions and the git state of the code around what the caller knows of the run."""
    commit, dirty = git_state(Path(__file__).resolve())
    return Record(
        labels=labels,
        program=program,
        command=tuple(command),
        overrides=tuple(overrides),
        seed=seed,
        versions=package_versions(),
        git_commit=commit,
        git_dirty=dirty,
        config_yaml=config_yaml,
    )


def package_versions() -> dict[str, str | None]:
    """Versions of python and `PACKAGES`, read without importing them."""
    versions: dict[str, str | None] = {"python": python_version()}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = None
    return versions


def git_state(file: Path) -> tuple[str | None, bool | None]:
    """(commit, dirty) of the repository that tracks `file`; (None, None) if none does."""
    if _git(file.parent, "ls-files", "--error-unmatch", file.name) is None:
        return None, None
    commit = _git(file.parent, "rev-parse", "HEAD")
    changes = _git(file.parent, "status", "--porcelain")
    return commit, None if changes is None else bool(changes)


def _git(folder: Path, *arguments: str) -> str | None:
    """Output of a git command, None if it fails or there is no git."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True, text=True, check=True, timeout=30,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
