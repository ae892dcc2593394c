"""What an evaluation leaves in its folder: tables, figures, per-job table, metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from evaluate_task import Outcome

from sim.arrays import FloatArray
from sim.report.atomic import write_atomically
from sim.report.comparison_report import write_comparison
from sim.report.figure_jct_cdf import jct_cdf
from sim.report.figure_utilisation import utilisation_queue
from sim.report.headline_report import FILES as HEADLINE_FILES
from sim.report.headline_report import write_headline
from sim.report.headline_table import headline_cells
from sim.report.job_table import as_parquet
from sim.report.run_folder import write_metrics

if TYPE_CHECKING:
    from rich.console import Group

RESULT_FILES = (
    "comparison.csv", "comparison.md", "jct_bars.png", "jct_cdf.png", "utilisation_queue.png",
    "jobs.parquet", "metrics.json", *HEADLINE_FILES,
)  # fmt: skip
MOST_CURVES = 12  # of the distribution figure
FIRST_ROLES = ("ours", "composite", "published", "global_queue")  # one each, over time
NOT_A_RESULT = ("global_queue", "reference")  # lines to compare with
ALWAYS_DRAWN = ("ours", "published", "linear_score", "ablation")


def remove_results(folder: Path) -> None:
    """Forget an earlier evaluation in this folder, so that a failure leaves nothing like one."""
    for name in RESULT_FILES:
        (folder / name).unlink(missing_ok=True)


def write_evaluation(
    folder: Path, outcomes: Sequence[Outcome], *, ours: str | None, confidence: float
) -> tuple[Group, str]:
    """Write every file; `metrics.json` (means over windows of one scheduler) comes last.

    Args:
        folder: exists.
        outcomes: one a run.
        ours: scheduler that the others are divided by; None for no ratio.
        confidence: of the intervals.

    Returns:
        The tables, and the scheduler that metrics.json is about: `ours`, else the best one that
        is no mere line to compare with.
    """
    ranked = _ranked(outcomes)
    drawn = _drawn(ranked)
    jct_cdf({name: _pooled_jct_s(outcomes, name) for name in drawn}, path=folder / "jct_cdf.png")
    first = min(outcome.row.labels.window for outcome in outcomes)
    timelines = {o.row.labels.scheduler: o.timeline for o in ranked if o.row.labels.window == first}
    chosen = {name: timelines[name] for name in _one_a_role(ranked)}
    utilisation_queue(chosen, path=folder / "utilisation_queue.png")
    write_atomically(folder / "jobs.parquet", as_parquet(_jobs(ranked)))
    rows = [outcome.row for outcome in ranked]
    tables = write_comparison(folder, rows, ours=ours, confidence=confidence)
    focus = ours or _best(ranked)
    write_metrics(folder, _means([row.metrics for row in rows if row.labels.scheduler == focus]))
    return tables, focus


def write_rivals(
    folder: Path, outcomes: Sequence[Outcome], *, ours: str, part: str, confidence: float
) -> Group:
    """Write headline.csv and .md: ours against the best of each kind of rival; what to print."""
    rows = [outcome.row for outcome in _ranked(outcomes)]
    cells = headline_cells(rows, [], ours=ours, parts=("", part), confidence=confidence)
    title = f"{ours} against each kind of rival"
    return write_headline(folder, cells, title=title, confidence=confidence)


def _ranked(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Sorted by the scheduler's mean JCT over its runs, then by window."""
    found: dict[str, list[float]] = {}
    for outcome in outcomes:
        jct_s = outcome.row.metrics["jct_mean_s"]
        found.setdefault(outcome.row.labels.scheduler, []).append(jct_s)
    mean_s = {name: float(np.nan_to_num(np.mean(v), nan=np.inf)) for name, v in found.items()}

    def rank(outcome: Outcome) -> tuple[float, str, int]:
        labels = outcome.row.labels
        return mean_s[labels.scheduler], labels.scheduler, labels.window

    return sorted(outcomes, key=rank)


def _roles(ranked: Sequence[Outcome]) -> dict[str, str]:
    """Scheduler -> role, best first."""
    return {outcome.row.labels.scheduler: outcome.row.labels.role for outcome in ranked}


def _best(ranked: Sequence[Outcome]) -> str:
    """The best scheduler that could run in the setting; the best of all if there is none."""
    roles = _roles(ranked)
    return next((n for n, role in roles.items() if role not in NOT_A_RESULT), next(iter(roles)))


def _drawn(ranked: Sequence[Outcome]) -> list[str]:
    """Schedulers of the distribution figure: those that must be there, then the best."""
    roles = _roles(ranked)
    must = [name for name, role in roles.items() if role in ALWAYS_DRAWN]
    rest = [name for name in roles if name not in must]
    done = {o.row.labels.scheduler for o in ranked if o.row.metrics["jobs_finished"] > 0}
    return [name for name in [*must, *rest] if name in done][:MOST_CURVES]


def _one_a_role(ranked: Sequence[Outcome]) -> list[str]:
    """The best of each role that belongs over time; the best of all if there is none."""
    roles = _roles(ranked)
    best = [next((n for n, role in roles.items() if role == wanted), None)
            for wanted in FIRST_ROLES]  # fmt: skip
    return [name for name in best if name is not None] or list(roles)[:1]


def _pooled_jct_s(outcomes: Sequence[Outcome], name: str) -> FloatArray:
    """(n,) completion times of the measured, finished jobs of all windows."""
    parts = [o.jobs["jct_s"].dropna() for o in outcomes if o.row.labels.scheduler == name]
    pooled: FloatArray = pd.concat(parts).to_numpy(dtype=float)
    return pooled


def _jobs(ranked: Sequence[Outcome]) -> pd.DataFrame:
    """Measured jobs of all runs, a row a (scheduler, window, job)."""
    parts = []
    for outcome in ranked:
        labels = outcome.row.labels
        parts.append(
            outcome.jobs.assign(
                scheduler=labels.scheduler, agents=labels.agents, window=labels.window
            )
        )
    whole = pd.concat(parts, ignore_index=True)
    front = ["scheduler", "agents", "window"]
    return whole[[*front, *(name for name in whole.columns if name not in front)]]


def _means(metrics: Sequence[Mapping[str, float | int]]) -> dict[str, float | int]:
    """Mean of every key over the runs."""
    return {key: float(np.mean([found[key] for found in metrics])) for key in metrics[0]}
