"""Who stands where: per setting and scheduler, intervals of each metric over windows and seeds."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sim.metrics.intervals import Interval, mean_interval, ratio_interval
from sim.report.comparison import check_distinct
from sim.report.comparison_row import ComparisonRow
from sim.report.errors import ReportError
from sim.report.labels import Labels

METRICS = (
    "jct_mean_s",
    "jct_p50_s",
    "jct_p95_s",
    "jct_p99_s",
    "queue_delay_mean_s",
    "makespan_s",
    "gpu_util_frac",
)


@dataclass(frozen=True)
class Standing:
    """One scheduler in one setting."""

    scheduler: str
    role: str
    information: str
    intervals: dict[str, Interval]  # of `METRICS`; a metric without values is not there
    ratio: Interval | None  # paired mean JCT, ours / theirs; None for ours itself, or no pairs
    unfinished: int  # measured jobs that never finished, in all runs together


@dataclass(frozen=True)
class Setting:
    """What schedulers are compared under; standings are sorted by mean JCT."""

    topology: str
    workload: str
    load: float | None
    agents: int
    physics: str
    standings: tuple[Standing, ...]

    @property
    def title(self) -> str:
        """The setting in words."""
        load = "" if self.load is None else f" at load {self.load:g}"
        plural = "agent" if self.agents == 1 else "agents"
        return f"{self.topology}, {self.workload}{load}, {self.agents} {plural}, {self.physics}"


def standings(
    rows: Sequence[ComparisonRow], *, ours: str | None, confidence: float
) -> tuple[Setting, ...]:
    """Group rows by setting and scheduler, in order of appearance.

    Where there are several windows, seeds are averaged within each window first and intervals are
    taken over windows: seeds of one window are not independent evidence. With a single window they
    are taken over seeds. Ratios pair what both schedulers ran.

    Raises:
        ReportError: no rows, doubled rows, or `ours` is in none of them.
    """
    if not rows:
        raise ReportError("no rows to compare; give at least one finished run")
    check_distinct(rows)
    names = list(dict.fromkeys(row.labels.scheduler for row in rows))
    if ours is not None and ours not in names:
        raise ReportError(f"ours is {ours!r}; the schedulers here are {', '.join(names)}")
    groups: dict[tuple[str, str, float | None, int, str], list[ComparisonRow]] = defaultdict(list)
    for row in rows:
        groups[_setting_of(row.labels)].append(row)
    return tuple(
        Setting(*key, standings=_setting_standings(group, ours, confidence))
        for key, group in groups.items()
    )


def _setting_of(labels: Labels) -> tuple[str, str, float | None, int, str]:
    return labels.topology, labels.workload, labels.load, labels.agents, labels.physics


def _setting_standings(
    rows: list[ComparisonRow], ours: str | None, confidence: float
) -> tuple[Standing, ...]:
    by_scheduler: dict[tuple[str, str, str], list[ComparisonRow]] = defaultdict(list)
    for row in rows:
        by_scheduler[row.labels.scheduler, row.labels.role, row.labels.information].append(row)
    over_windows = len({row.labels.window for row in rows}) > 1
    our_rows = [row for row in rows if row.labels.scheduler == ours]
    our_jct = _units(our_rows, "jct_mean_s", over_windows)
    found = [
        Standing(
            *key,
            intervals=_intervals(group, over_windows, confidence),
            ratio=_ratio(our_jct, _units(group, "jct_mean_s", over_windows), confidence)
            if key[0] != ours
            else None,
            unfinished=int(sum(row.metrics.get("jobs_unfinished", 0) for row in group)),
        )
        for key, group in by_scheduler.items()
    ]
    return tuple(sorted(found, key=_mean_jct))


def _mean_jct(standing: Standing) -> float:
    interval = standing.intervals.get("jct_mean_s")
    return interval.centre if interval else float("inf")


def _intervals(
    rows: list[ComparisonRow], over_windows: bool, confidence: float
) -> dict[str, Interval]:
    values = {key: list(_units(rows, key, over_windows).values()) for key in METRICS}
    return {key: mean_interval(found, confidence) for key, found in values.items() if found}


def _units(rows: list[ComparisonRow], key: str, over_windows: bool) -> dict[int, float]:
    """Window (or seed) -> mean of the metric there; rows that lack it are left out."""
    found: dict[int, list[float]] = defaultdict(list)
    for row in rows:
        value = row.metrics.get(key, float("nan"))
        if not np.isnan(value):
            found[row.labels.window if over_windows else row.labels.seed].append(value)
    return {unit: float(np.mean(values)) for unit, values in sorted(found.items())}


def _ratio(ours: dict[int, float], theirs: dict[int, float], confidence: float) -> Interval | None:
    both = [unit for unit in ours if theirs.get(unit, 0.0) > 0 and ours[unit] > 0]
    if not both:
        return None
    return ratio_interval([ours[u] for u in both], [theirs[u] for u in both], confidence)
