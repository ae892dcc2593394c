"""Ratios to other schedulers on the same windows, with tests corrected for their number."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sim.metrics.intervals import ratio_interval
from sim.report.comparison_row import ComparisonRow

BASELINES = "published"  # role


def paired_tests(
    cell: str,
    of: Mapping[str, Sequence[ComparisonRow]],
    *,
    ours: str,
    metric: str,
    confidence: float,
) -> list[dict[str, Any]]:
    """`ours` over each other scheduler in `metric`, paired by window and seed.

    Args:
        cell: goes into the rows.
        of: scheduler -> its runs, on the same windows.
        ours: the scheduler that is judged.
        metric: of `metrics`, above 0.
        confidence: of the ratio's interval.

    Returns:
        A row a scheduler: geometric mean of the ratios with its interval, and p of the two-sided
            paired t-test of the logs (NaN for one pair). Rows of baselines also have `p_holm`,
            corrected for their number.
    """
    from scipy import stats  # heavy: only reports need it

    mine = {row.labels.unit: float(row.metrics[metric]) for row in of[ours]}
    found = []
    for name, runs in of.items():
        if name == ours:
            continue
        theirs = np.array([float(row.metrics[metric]) for row in runs])
        own = np.array([mine[row.labels.unit] for row in runs])
        ratio = ratio_interval(own, theirs, confidence)
        p = float(stats.ttest_rel(np.log(own), np.log(theirs)).pvalue) if len(own) > 1 else math.nan
        found.append(
            {"cell": cell, "against": name, "role": runs[0].labels.role, "pairs": len(own),
             "ratio": ratio.centre, "low": ratio.low, "high": ratio.high, "p": p}
        )  # fmt: skip
    _holm([row for row in found if row["role"] == BASELINES])
    return found


def _holm(tests: list[dict[str, Any]]) -> None:
    """Add `p_holm` (Holm, 1979): p of rank k times the number not yet rejected, never falling."""
    least = 0.0
    for rank, test in enumerate(sorted(tests, key=lambda test: test["p"])):
        least = max(least, min(1.0, test["p"] * (len(tests) - rank)))
        test["p_holm"] = least
