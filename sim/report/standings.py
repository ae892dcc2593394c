"""Who stands where: per setting and scheduler, intervals of each metric over windows and seeds."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from sim.metrics.intervals import Interval
from sim.report.comparison import check_distinct
from sim.report.comparison_row import ComparisonRow
from sim.report.errors import ReportError
from sim.report.labels import Labels
from sim.report.units import Units, units_of

Key = tuple[str, str, float | None, int, str]  # of a setting: see `_setting_of`

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
    windows: int
    stretches: int | None  # of time that they are from; None: windows are random stretches

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
    are taken over seeds. Ratios pair what both schedulers ran. Windows that share a stretch of
    time are no independent evidence either: intervals are then bootstrapped by stretch.

    Raises:
        ReportError: no rows, doubled rows, `ours` is in none of them, or the windows of a setting
            were drawn in two ways.
    """
    if not rows:
        raise ReportError("no rows to compare; give at least one finished run")
    check_distinct(rows)
    names = list(dict.fromkeys(row.labels.scheduler for row in rows))
    if ours is not None and ours not in names:
        raise ReportError(f"ours is {ours!r}; the schedulers here are {', '.join(names)}")
    groups: dict[Key, list[ComparisonRow]] = defaultdict(list)
    for row in rows:
        groups[_setting_of(row.labels)].append(row)
    return tuple(
        _setting(key, group, ours, units_of(group, confidence)) for key, group in groups.items()
    )


def _setting_of(labels: Labels) -> Key:
    return labels.topology, labels.workload, labels.load, labels.agents, labels.physics


def _setting(key: Key, rows: list[ComparisonRow], ours: str | None, units: Units) -> Setting:
    by_scheduler: dict[tuple[str, str, str], list[ComparisonRow]] = defaultdict(list)
    for row in rows:
        by_scheduler[row.labels.scheduler, row.labels.role, row.labels.information].append(row)
    our_jct = units.values([row for row in rows if row.labels.scheduler == ours], "jct_mean_s")
    found = [
        Standing(
            *name,
            intervals=_intervals(group, units),
            ratio=units.ratio(our_jct, units.values(group, "jct_mean_s"))
            if name[0] != ours
            else None,
            unfinished=int(sum(row.metrics.get("jobs_unfinished", 0) for row in group)),
        )
        for name, group in by_scheduler.items()
    ]
    ordered = tuple(sorted(found, key=_mean_jct))
    return Setting(*key, standings=ordered, windows=units.windows, stretches=units.stretches)


def _mean_jct(standing: Standing) -> float:
    interval = standing.intervals.get("jct_mean_s")
    return interval.centre if interval else float("inf")


def _intervals(rows: list[ComparisonRow], units: Units) -> dict[str, Interval]:
    found = {key: units.mean(units.values(rows, key)) for key in METRICS}
    return {key: interval for key, interval in found.items() if interval is not None}
