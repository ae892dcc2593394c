"""Who stands where: intervals by setting and scheduler, over windows, seeds or stretches."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sim.metrics.job_times import clustered_mean_interval, clustered_ratio_interval
from sim.metrics.timeline import Interval, mean_interval, ratio_interval
from sim.report.atomic import ReportError
from sim.report.comparison import ComparisonRow, check_distinct
from sim.report.labels import Labels

Values = Mapping[int, float]  # unit -> value


@dataclass(frozen=True)
class Units:
    """Windows of one setting, or its seeds if there is one window only."""

    over_windows: bool
    windows: int
    stretch_of: Mapping[int, int] | None  # unit -> stretch; None: windows are random stretches
    confidence: float  # of the intervals

    @property
    def stretches(self) -> int | None:
        """Number of stretches of time; None where windows are random stretches."""
        return None if self.stretch_of is None else len(set(self.stretch_of.values()))

    def values(self, rows: Sequence[ComparisonRow], key: str) -> dict[int, float]:
        """Unit -> mean of the metric there; rows that lack it are left out."""
        found: dict[int, list[float]] = defaultdict(list)
        for row in rows:
            value = row.metrics.get(key, float("nan"))
            if not np.isnan(value):
                found[_unit(row, self.over_windows)].append(value)
        return {unit: float(np.mean(values)) for unit, values in sorted(found.items())}

    def mean(self, values: Values) -> Interval | None:
        """The mean over units; by stretch where they have one. None without values."""
        numbers = list(values.values())
        if not numbers:
            return None
        if self.stretch_of is None:
            return mean_interval(numbers, self.confidence)
        stretches = [self.stretch_of[unit] for unit in values]
        return clustered_mean_interval(numbers, stretches, self.confidence)

    def ratio(self, ours: Values, theirs: Values) -> Interval | None:
        """The paired ratio over the units that both have; None where there are none."""
        both = [unit for unit in ours if theirs.get(unit, 0.0) > 0 and ours[unit] > 0]
        if not both:
            return None
        top, bottom = [ours[unit] for unit in both], [theirs[unit] for unit in both]
        if self.stretch_of is None:
            return ratio_interval(top, bottom, self.confidence)
        stretches = [self.stretch_of[unit] for unit in both]
        return clustered_ratio_interval(top, bottom, stretches, self.confidence)


def units_of(rows: Sequence[ComparisonRow], confidence: float) -> Units:
    """The units of one setting.

    Raises:
        ReportError: some windows are random stretches and some are not, or one is of two.
    """
    windows = len({row.labels.window for row in rows})
    found: dict[int, int | None] = {}
    for row in rows:
        labels = row.labels
        stretch = found.setdefault(_unit(row, windows > 1), labels.stretch)
        if stretch != labels.stretch or (stretch is None) != (rows[0].labels.stretch is None):
            raise ReportError(
                f"window {labels.window} of {labels.workload} is of stretch {labels.stretch} for "
                f"{labels.scheduler}, other rows are cut otherwise; compare only results of one "
                f"workload.windows_from, one workload.num_jobs and one part"
            )
    stretch_of = {unit: stretch for unit, stretch in found.items() if stretch is not None}
    return Units(windows > 1, windows, stretch_of or None, confidence)


def _unit(row: ComparisonRow, over_windows: bool) -> int:
    return row.labels.window if over_windows else row.labels.seed


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


def beside_agents(rows: Sequence[ComparisonRow]) -> list[ComparisonRow]:
    """Rows for tables and figures: global queues moved into the settings with agents.

    A row of role `global_queue` has one agent, so it would stand in a table of its own. Here it
    appears in each setting that differs from its own in the number of agents only; where there is
    none it stays. Files keep the true number.
    """
    shown: list[ComparisonRow] = []
    for row in rows:
        if row.labels.role != "global_queue":
            shown.append(row)
            continue
        counts = dict.fromkeys(
            other.labels.agents
            for other in rows
            if other.labels.role != "global_queue" and _place(other.labels) == _place(row.labels)
        )
        for agents in counts or [row.labels.agents]:
            shown.append(replace(row, labels=replace(row.labels, agents=agents)))
    return shown


def _place(labels: Labels) -> tuple[str, str, float | None, str]:
    return labels.topology, labels.workload, labels.load, labels.physics
