"""Finds finished results below folders: comparisons, and runs of one scheduler."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from sim.arrays import FloatArray
from sim.report.comparison import read_comparison_csv
from sim.report.comparison_row import ComparisonRow
from sim.report.errors import ReportError
from sim.report.labels import Labels
from sim.report.run_folder import METRICS_FILE, read_jct_s, read_row

COMPARISON, RECORD = "comparison.csv", "record.json"


@dataclass(frozen=True)
class Found:
    """Results in one folder."""

    folder: Path
    rows: list[ComparisonRow]
    single: bool  # a run of one scheduler; False: a comparison


def gather(folders: Sequence[Path], *, leave_out: Path) -> list[Found]:
    """Every comparison and every finished run in or below `folders`, in order of their paths.

    A folder with a comparison is read as that, and nothing else in it. Folders that this program
    wrote before, and `leave_out`, are passed over: they repeat others' rows.

    Raises:
        ReportError: a folder is not there or holds no result, a file cannot be read, or two
            results have the same labels.
    """
    found: dict[Path, Found] = {}
    for top in folders:
        if not top.is_dir():
            raise ReportError(f"{top} is no folder; give one that a program wrote or a sweep's")
        before = len(found)
        for folder in sorted(path.parent for path in top.rglob(RECORD)):
            result = None if folder.resolve() == leave_out.resolve() else _read(folder)
            if result is not None:
                found[folder.resolve()] = result
        if len(found) == before:
            raise ReportError(f"{top}: no finished run in it or below; give the folder of a sweep")
    results = list(found.values())
    _check_distinct(results)
    return results


def pooled_jct_s(results: Sequence[Found]) -> dict[tuple[str, str], FloatArray]:
    """(setting, scheduler) -> completion times of measured jobs, where per-job tables are there."""
    parts: dict[tuple[str, str], list[FloatArray]] = {}
    for result in results:
        for labels, times in _times(result):
            parts.setdefault((_setting(labels), labels.scheduler), []).append(times)
    joined = {key: pd.concat(map(pd.Series, times)).to_numpy(float) for key, times in parts.items()}
    return {key: times for key, times in joined.items() if len(times)}


def _read(folder: Path) -> Found | None:
    record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    if record.get("program") == "compare":
        return None
    if (folder / COMPARISON).is_file():
        return Found(folder, read_comparison_csv(folder / COMPARISON), single=False)
    if (folder / METRICS_FILE).is_file() and "scheduler" in record:
        return Found(folder, [read_row(folder)], single=True)
    return None


def _check_distinct(results: Sequence[Found]) -> None:
    """Refuse two results of the same thing, naming both folders."""
    seen: dict[Labels, Path] = {}
    for result in results:
        for row in result.rows:
            other = seen.setdefault(row.labels, result.folder)
            if other != result.folder:
                raise ReportError(
                    f"{other} and {result.folder} hold the same run: {row.labels.scheduler} on "
                    f"{row.labels.topology}, seed {row.labels.seed}, window {row.labels.window}; "
                    f"compare folders that differ in a column of comparison.csv"
                )


def _times(result: Found) -> list[tuple[Labels, FloatArray]]:
    if not (result.folder / "jobs.parquet").is_file():
        return []
    if result.single:
        return [(result.rows[0].labels, read_jct_s(result.folder))]
    columns = ["scheduler", "window", "jct_s"]
    frame = pd.read_parquet(result.folder / "jobs.parquet", columns=columns).dropna()
    by_run = {key: part["jct_s"].to_numpy(float) for key, part in frame.groupby(columns[:2])}
    empty: FloatArray = pd.Series(dtype=float).to_numpy(float)
    labels = [row.labels for row in result.rows]
    return [(each, by_run.get((each.scheduler, each.window), empty)) for each in labels]


def _setting(labels: Labels) -> str:
    """What tells apart the curves of one scheduler."""
    load = "" if labels.load is None else f" load {labels.load:g}"
    return f"{labels.topology}, {labels.workload}{load}, {labels.agents} agents, {labels.physics}"
