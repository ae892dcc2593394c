"""Curves of a reproduction's page: completion times, use and queue, of the best of each role."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gpuyard.evaluation.task import Outcome
from gpuyard.pages.comparison_page import CURVES
from gpuyard.pages.page import numbers
from gpuyard.reproduction.plan import Planned
from gpuyard.reproduction.store import PARTS, read_curves
from sim.report.files import ComparisonRow, write_atomically

QUANTILES, BINS = 100, 100  # of each run; of window 0
MOST_CURVES = 6
FIRST_ROLES = ("ours", "composite", "published", "global_queue")  # one each, then the best others

Settings = dict[str, dict[str, list[tuple[Planned, ComparisonRow]]]]  # by title and scheduler


def curves_of(outcome: Outcome) -> dict[str, Any]:
    """What is kept of a run: quantiles of its completion times; of window 0 use and queue, too."""
    times_s = outcome.jobs["jct_s"].dropna().to_numpy(dtype=float)
    shares = (np.arange(QUANTILES) + 0.5) / QUANTILES
    found: dict[str, Any] = {"jct_s": numbers(np.quantile(times_s, shares)) if len(times_s) else []}
    timeline = outcome.timeline
    if outcome.row.labels.window == 0 and len(timeline.time_s) > 1:
        for key in ("time_s", "gpu_util_frac", "queue_jobs"):
            parts = np.array_split(getattr(timeline, key), min(BINS, len(timeline.time_s)))
            found[key] = numbers(each[0] if key == "time_s" else each.mean() for each in parts)
    return found


def write_curves(folder: Path, done: Iterable[tuple[Planned, ComparisonRow]]) -> None:
    """Write curves.json: setting by setting, so many schedulers' curves, windows pooled."""
    told = []
    for title, runs in _settings(done).items():
        curves = [_pooled(folder, name, runs[name]) for name in _shown(runs)]
        told.append({"title": title, "curves": [each for each in curves if each["jct_s"]]})
    write_atomically(
        folder / CURVES, json.dumps([each for each in told if each["curves"]]).encode()
    )


def _settings(done: Iterable[tuple[Planned, ComparisonRow]]) -> Settings:
    """Runs by cell and number of agents; a global queue stands beside every number."""
    rows = [(planned, row) for planned, row in done if not planned.picks]
    counts: dict[str, dict[int, None]] = {planned.cell: {} for planned, _ in rows}
    for planned, row in rows:
        if row.labels.role != "global_queue":
            counts[planned.cell][row.labels.agents] = None
    found: Settings = {}
    for planned, row in rows:
        here, alone = counts[planned.cell], row.labels.role == "global_queue"
        for agents in here if alone else [row.labels.agents]:
            title = f"{planned.cell}, {agents} agents" if len(here) > 1 else planned.cell
            name = row.labels.scheduler + (", one queue" if alone else "")
            found.setdefault(title, {}).setdefault(name, []).append((planned, row))
    return found


def _shown(runs: dict[str, list[tuple[Planned, ComparisonRow]]]) -> list[str]:
    """The best of each role that counts, then the best others, all by mean JCT."""
    mean_s = {
        name: float(np.mean([row.metrics["jct_mean_s"] for _, row in each]))
        for name, each in runs.items()
    }
    ordered = sorted(mean_s, key=lambda name: np.nan_to_num(mean_s[name], nan=np.inf))
    roles = {name: runs[name][0][1].labels.role for name in ordered}
    first = {next((name for name in ordered if roles[name] == role), "") for role in FIRST_ROLES}
    rest = [name for name in ordered if name not in first][: MOST_CURVES - len(first - {""})]
    return [name for name in ordered if name in first or name in rest]


def _pooled(
    folder: Path, name: str, runs: Sequence[tuple[Planned, ComparisonRow]]
) -> dict[str, Any]:
    found = [read_curves(folder / PARTS / planned.part) for planned, _ in runs]
    timeline = next((each for each in found if "queue_jobs" in each), {})
    pooled = [value for each in found for value in each.get("jct_s", [])]
    windows = sum("jct_s" in each for each in found)
    return {**timeline, "name": name, "windows": windows, "jct_s": pooled}
