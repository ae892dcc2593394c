"""What differs beyond chance: paired tests, and ranks over blocks.

Ranks are Friedman's with Nemenyi's critical difference (Demsar, JMLR 2006).
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sim.arrays import FloatArray
from sim.files import ComparisonRow, ReportError
from sim.report.job_times import log_ratios, mean_interval
from sim.report.standings import units_of

LEAST_COMPARED = 3  # Friedman's test asks for so many


@dataclass(frozen=True)
class Ranking:
    """Mean ranks of k methods over N blocks; the best method comes first."""

    names: tuple[str, ...]
    mean_ranks: FloatArray  # (k,) ascending; rank 1 is the best of a block
    blocks: int  # N
    friedman_chi2: float  # corrected for ties
    friedman_p: float  # of the same ranks everywhere; 1 where every block is one big tie
    critical_difference: float  # mean ranks further apart differ at `level`
    level: float  # like 0.05

    @property
    def rank_of(self) -> dict[str, float]:
        """Name -> mean rank."""
        return dict(zip(self.names, self.mean_ranks.tolist(), strict=True))


def ranking(names: Sequence[str], scores: FloatArray, *, level: float) -> Ranking | None:
    """Rank `scores` (N, k), finite, in every block, smallest first; ties share their mean rank.

    None where there are fewer than three methods or two blocks.

    Raises:
        ReportError: a score is not finite, or the level outside (0, 1).
    """
    from scipy import stats  # heavy: only reports need it

    blocks, count = scores.shape
    if count < LEAST_COMPARED or blocks < 2:  # noqa: PLR2004  (one block has no spread)
        return None
    if not np.isfinite(scores).all():
        raise ReportError("a score is missing; rank only blocks that every scheduler ran")
    ranks = stats.rankdata(scores, axis=1)  # (N, k)
    mean_ranks = ranks.mean(axis=0)
    order = np.lexsort((np.array(list(names)), mean_ranks))
    if (ranks == ranks[:, :1]).all():
        chi2, p = 0.0, 1.0  # nothing but ties, where the statistic is 0 / 0
    else:
        chi2, p = map(float, stats.friedmanchisquare(*scores.T))
    return Ranking(
        names=tuple(names[place] for place in order),
        mean_ranks=mean_ranks[order],
        blocks=blocks,
        friedman_chi2=chi2,
        friedman_p=p,
        critical_difference=critical_difference(count, blocks, level=level),
        level=level,
    )


def critical_difference(count: int, blocks: int, *, level: float) -> float:
    """Nemenyi's: q sqrt(k (k + 1) / (6 N)), q the Studentized range over sqrt 2 (section 3.2.2).

    Raises:
        ReportError: the level is not between 0 and 1.
    """
    from scipy import stats

    if not 0 < level < 1:
        raise ReportError(f"level is {level}; it must lie between 0 and 1, like 0.05")
    q = float(stats.studentized_range.ppf(1.0 - level, count, np.inf)) / 2**0.5
    return q * float(np.sqrt(count * (count + 1) / (6.0 * blocks)))


def insignificant_stretches(found: Ranking) -> list[tuple[int, int]]:
    """Longest stretches [first, last] of places whose ends lie within the critical difference.

    Stretches of one place, and those inside another, are left out.
    """
    ends = np.searchsorted(
        found.mean_ranks, found.mean_ranks + found.critical_difference, side="right"
    )
    stretches: list[tuple[int, int]] = []
    for first, end in enumerate(ends.tolist()):
        last = end - 1
        if last > first and not (stretches and stretches[-1][1] >= last):
            stretches.append((first, last))
    return stretches


def paired_tests(
    cell: str,  # goes into the rows
    of: Mapping[str, Sequence[ComparisonRow]],  # scheduler -> its runs, the same for all
    *,
    ours: str,  # the scheduler that is judged
    metric: str,  # of `metrics`, above 0
    confidence: float,  # of the ratio's interval
) -> list[dict[str, Any]]:
    """`ours` over each other scheduler in `metric`, paired as in the tables (`Units`).

    A row a scheduler: geometric mean of the ratios with its interval, and p of the two-sided paired
    t-test of the logs (NaN for one pair, 1 where both are equal in all). The mean over the seeds of
    a window is one observation: seeds may be of policies alone, and the jobs the same. Windows of
    one stretch of time are one, too, their mean.
    """
    from scipy import stats  # heavy: only reports need it

    units = units_of([row for runs in of.values() for row in runs], confidence)
    mine, found = units.values(of[ours], metric), []
    for name, runs in of.items():
        if name == ours:
            continue
        theirs = units.values(runs, metric)
        logs = log_ratios([mine[unit] for unit in theirs], [*theirs.values()])
        logs = _by_stretch(logs, list(theirs), units.stretch_of)
        ratio = mean_interval(logs, confidence).exp()
        p = float(stats.ttest_1samp(logs, 0.0).pvalue) if logs.any() else 1.0
        p = p if len(logs) > 1 else math.nan
        found.append(
            {"cell": cell, "against": name, "role": runs[0].labels.role, "pairs": len(theirs),
             "ratio": ratio.centre, "low": ratio.low, "high": ratio.high, "p": p}
        )  # fmt: skip
    return found


def _by_stretch(
    values: FloatArray, units: Sequence[int], stretch_of: Mapping[int, int] | None
) -> FloatArray:
    """(n,) means of `values` (m,) of units over each stretch of time; without any, the values."""
    if stretch_of is None:
        return values
    found: dict[int, list[float]] = defaultdict(list)
    for value, unit in zip(values.tolist(), units, strict=True):
        found[stretch_of[unit]].append(value)
    return np.array([np.mean(each) for each in found.values()])


def correct_for_many(tests: Sequence[dict[str, Any]]) -> None:
    """Add `p_holm` (Holm, 1979), over all tests of which the significant ones are counted.

    p of rank k times the number not yet rejected, never falling; NaN where p is.
    """
    least, known = 0.0, [test for test in tests if not math.isnan(test["p"])]
    for rank, test in enumerate(sorted(known, key=lambda test: test["p"])):
        least = max(least, min(1.0, test["p"] * (len(known) - rank)))
        test["p_holm"] = least
    for test in tests:
        test.setdefault("p_holm", math.nan)
