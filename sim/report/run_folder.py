"""The folder of a run, and its record: `metrics.json` is there only if everything else is."""

import json
import math
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from platform import python_version
from typing import Any

import numpy as np

from sim.arrays import FloatArray
from sim.files import (
    LABEL_COLUMNS,
    LATER_COLUMNS,
    ComparisonRow,
    Labels,
    ReportError,
    write_atomically,
)
from sim.report.run_tables import job_columns, parquet_bytes, read_parquet
from sim.report.timeline import timeline_of
from sim.run import Run

PACKAGES = (
    "gpuyard", "numpy", "numba", "scipy", "pandas", "torch", "torch-geometric", "gymnasium",
    "pettingzoo", "ray", "hydra-core", "scikit-learn", "matplotlib",
)  # fmt: skip


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


METRICS_FILE = "metrics.json"
PAGE_FILE = "report.html"
RECORD = "record.json"
AGAIN = "run it again"
TIMELINE_BINS = 500  # bins of timeline.parquet: about the width of a figure


def write_run(folder: Path, run: Run, metrics: Mapping[str, float | int], record: Record) -> None:
    """Write config.yaml, record.json, jobs.parquet, timeline.parquet and, last, metrics.json.

    Each file appears whole or not at all. An old metrics.json goes first, so that a run that is
    cut off cannot be taken for the finished one before it. NaN is written as null.

    Raises:
        OSError: the folder cannot be written or the disk is full.
    """
    write_record(folder, record)
    write_atomically(folder / "jobs.parquet", parquet_bytes(job_columns(run)))
    timeline = vars(timeline_of(run, bins=TIMELINE_BINS))
    write_atomically(folder / "timeline.parquet", parquet_bytes(timeline))
    write_metrics(folder, {**metrics, "decides": run.decides})


def write_record(folder: Path, record: Record) -> None:
    """Begin a run's folder: drop an older run's results, write config.yaml and record.json."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in (METRICS_FILE, PAGE_FILE, "jobs.parquet", "timeline.parquet"):
        (folder / name).unlink(missing_ok=True)
    write_atomically(folder / "config.yaml", record.config_yaml.encode())
    write_atomically(folder / RECORD, _json(record.as_dict()))


def write_metrics(folder: Path, metrics: Mapping[str, float | int | str]) -> None:
    """Write metrics.json, the last file of a run; NaN is written as null."""
    write_atomically(folder / METRICS_FILE, _json(metrics))


def read_metrics(folder: Path) -> dict[str, float | int]:
    """The metrics of a finished run, its numbers; null becomes NaN."""
    loaded = read_json(folder / METRICS_FILE)
    numbers = {key: value for key, value in loaded.items() if not isinstance(value, str | dict)}
    return {key: math.nan if value is None else value for key, value in numbers.items()}


def read_labels(folder: Path) -> Labels:
    """What the run in `folder` was, from its record.json."""
    path = folder / RECORD
    loaded = read_json(path)
    missing = [name for name in LABEL_COLUMNS if name not in (*loaded, *LATER_COLUMNS)]
    if missing:
        raise ReportError(f"{path}: key {missing[0]} is missing; write it with write_run")
    return Labels(**{name: loaded[name] for name in LABEL_COLUMNS if name in loaded})


def read_row(folder: Path) -> ComparisonRow:
    """The run in `folder` as one row of a comparison."""
    return ComparisonRow(read_labels(folder), read_metrics(folder))


def read_jct_s(folder: Path) -> FloatArray:
    """(n,) completion times of the measured, finished jobs of the run in `folder`."""
    jobs = read_parquet(folder / "jobs.parquet", ("jct_s", "measured"), fix=AGAIN)
    times_s: FloatArray = jobs["jct_s"][jobs["measured"] & np.isfinite(jobs["jct_s"])]
    return times_s


def _json(values: Mapping[str, object]) -> bytes:
    clean = {
        key: None if isinstance(value, float) and math.isnan(value) else value
        for key, value in values.items()
    }
    return (json.dumps(clean, indent=2, allow_nan=False) + "\n").encode()


def read_json(path: Path) -> dict[str, Any]:
    """The object in a file; raises ReportError where there is none."""
    try:
        loaded = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ReportError(f"{path} is not there; the run in that folder is not finished") from None
    except json.JSONDecodeError as error:
        raise ReportError(f"{path}, line {error.lineno}: no valid JSON: {error.msg}") from None
    if not isinstance(loaded, dict):
        raise ReportError(f"{path}: holds a {type(loaded).__name__}; it must hold an object")
    return loaded
