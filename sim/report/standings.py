"""Who stands where: intervals by setting and scheduler, over windows, seeds or stretches."""

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from sim.errors import amount, nearest
from sim.files import ComparisonRow, Labels, ReportError, apart_from_swept, check_distinct
from sim.report.job_times import Interval, clustered_mean_interval, log_ratios, mean_interval
from sim.report.summary import HEADLINE_KEYS, LEFT_KEYS

Values = Mapping[int, float]  # unit -> value
N = TypeVar("N", bound=Hashable)
P = TypeVar("P", bound=Hashable)


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

    def mean(self, values: Values) -> Interval:
        """The mean over units, at least one; by stretch where they have one."""
        numbers = list(values.values())
        if self.stretch_of is None:
            return mean_interval(numbers, self.confidence)
        stretches = [self.stretch_of[unit] for unit in values]
        return clustered_mean_interval(numbers, stretches, self.confidence)

    def means(self, rows: Sequence[ComparisonRow], keys: Iterable[str]) -> dict[str, Interval]:
        """Metric -> its mean; those without a value are not there."""
        found = {key: self.values(rows, key) for key in keys}
        return {key: self.mean(values) for key, values in found.items() if values}

    def repeats(self, *runs: Sequence[ComparisonRow]) -> bool:
        """Whether every unit is one run played again: then there is no spread to be told."""
        return all(len(set(self.values(rows, k).values())) <= 1 for rows in runs for k in METRICS)

    def ratio(
        self, ours: Sequence[ComparisonRow], theirs: Sequence[ComparisonRow], key: str
    ) -> Interval | None:
        """The ratio of a metric over the windows and seeds that both ran; None where none are."""
        mine, its = (_by_unit(rows, key) for rows in (ours, theirs))
        both = [unit for unit in mine if unit in its]
        if not both:
            return None
        top, bottom = (self.values([ran[unit] for unit in both], key) for ran in (mine, its))
        logs = log_ratios([*top.values()], [*bottom.values()]).tolist()
        found = self.mean(dict(zip(top, logs, strict=True)))
        return found.without_ends().exp() if self.repeats(ours, theirs) else found.exp()


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


def _by_unit(rows: Sequence[ComparisonRow], key: str) -> dict[tuple[int, int], ComparisonRow]:
    """(window, seed) -> the row there, where the metric is above 0."""
    return {row.labels.unit: row for row in rows if row.metrics.get(key, 0.0) > 0}


def _unit(row: ComparisonRow, over_windows: bool) -> int:
    return row.labels.window if over_windows else row.labels.seed


WHOLE = "whole"  # what tables call the part of runs that are of none
Key = tuple[str, str, float | None, int, str]  # of a setting: see `setting_of`

METRICS = HEADLINE_KEYS[1:8]  # from jct_mean_s to gpu_util_frac


@dataclass(frozen=True)
class Standing:
    """One scheduler in one setting."""

    scheduler: str
    role: str
    information: str
    intervals: dict[str, Interval]  # of `METRICS`; a metric without values is not there
    ratio: Interval | None  # paired mean JCT, ours / theirs; None for ours itself, or no pairs
    uncounted: int  # measured jobs that are in no mean, in all runs together
    pairs: int | None  # runs on windows and seeds that ours ran too; None: all of both, or no ours
    ran: tuple[int, int]  # windows and seeds that it ran, of those that any ran


@dataclass(frozen=True)
class Setting:
    """What schedulers are compared under; standings are sorted by mean JCT."""

    topology: str
    workload: str
    load: float | None
    agents: int
    physics: str
    part: str | None  # of the trace; None: all that are compared are of one
    standings: tuple[Standing, ...]
    windows: int
    stretches: int | None  # of time that they are from; None: windows are random stretches

    @property
    def title(self) -> str:
        """The setting in words."""
        key = self.topology, self.workload, self.load, self.agents, self.physics
        return setting_title(key) + ("" if self.part is None else f", part {self.part}")


def standings(
    rows: Sequence[ComparisonRow], *, ours: str | None, confidence: float
) -> tuple[Setting, ...]:
    """Group rows by setting and scheduler, in order of appearance.

    Where there are several windows, seeds are averaged within each window first and intervals are
    taken over windows: seeds of one window are not independent evidence. With a single window they
    are taken over seeds. Ratios pair what both schedulers ran. Windows that share a stretch of
    time are no independent evidence either: intervals are then bootstrapped by stretch. Window 0
    of another part is another window, so each part is a setting of its own.

    Raises:
        ReportError: no rows, doubled rows, `ours` is in none of them, or the windows of a setting
            were drawn in two ways.
    """
    if not rows:
        raise ReportError("no rows to compare; give at least one finished run")
    check_distinct(rows)
    names = list(dict.fromkeys(row.labels.scheduler for row in rows))
    if ours is not None and ours not in names:
        known = f"the schedulers here are {', '.join(names)}"
        raise ReportError(f"ours is {ours!r}; {known}{nearest(ours, names)}")
    several = len({row.labels.part for row in rows}) > 1
    groups: dict[tuple[Key, str | None], list[ComparisonRow]] = defaultdict(list)
    for row in rows:
        part = (row.labels.part or WHOLE) if several else None
        groups[setting_of(row.labels), part].append(row)
    return tuple(
        _setting(*key, group, ours, units_of(group, confidence)) for key, group in groups.items()
    )


def setting_of(labels: Labels) -> Key:
    """Topology, workload, load, agents, physics."""
    return labels.topology, labels.workload, labels.load, labels.agents, labels.physics


def setting_title(key: Key) -> str:
    """A setting in words."""
    topology, workload, load, agents, physics = key
    at = "" if load is None else f" at load {load:g}"
    return f"{topology}, {workload}{at}, {amount(agents, 'agent')}, {physics}"


def _setting(
    key: Key, part: str | None, rows: list[ComparisonRow], ours: str | None, units: Units
) -> Setting:
    by_scheduler: dict[tuple[str, str, str], list[ComparisonRow]] = defaultdict(list)
    for row in rows:
        by_scheduler[row.labels.scheduler, row.labels.role, row.labels.information].append(row)
    our_rows = [row for row in rows if row.labels.scheduler == ours]
    every: dict[str, set[tuple[int, int]]] = defaultdict(set)  # by what was swept: see `_swept`
    for row in rows:
        every[_swept(row)].add(row.labels.unit)
    found = [
        Standing(
            *name,
            intervals=_intervals(group, units),
            ratio=units.ratio(our_rows, group, METRICS[0]) if name[0] != ours else None,
            uncounted=uncounted(group),
            pairs=_pairs(our_rows, group),
            ran=(len({row.labels.unit for row in group}), len(every[_swept(group[0])])),
        )
        for name, group in by_scheduler.items()
    ]
    jct = METRICS[0]
    found.sort(key=lambda each: each.intervals[jct].centre if jct in each.intervals else math.inf)
    return Setting(
        *key, part=part, standings=tuple(found), windows=units.windows, stretches=units.stretches
    )


def _swept(row: ComparisonRow) -> str:
    """Swept values that stand behind a scheduler's name: with others it ran for itself."""
    return apart_from_swept(row.labels.scheduler)[1]


def _pairs(ours: Sequence[ComparisonRow], theirs: Sequence[ComparisonRow]) -> int | None:
    every = {row.labels.unit for row in (*ours, *theirs)}
    both = _by_unit(ours, METRICS[0]).keys() & _by_unit(theirs, METRICS[0]).keys()
    return len(both) if ours and both != every else None


def uncounted(rows: Iterable[ComparisonRow]) -> int:
    """Measured jobs that never finished, or whose users gave up first."""
    return int(sum(row.metrics.get(key, 0) for row in rows for key in LEFT_KEYS))


def _intervals(rows: list[ComparisonRow], units: Units) -> dict[str, Interval]:
    found = units.means(rows, METRICS)
    return {k: each.without_ends() for k, each in found.items()} if units.repeats(rows) else found


def best_of(jct_s: Mapping[N, Mapping[P, float]]) -> N | None:
    """Whose geometric mean is least among those with a JCT at every place where any has one.

    None where nobody has. `jct_s` has each one's mean JCT by place, all above 0.
    """
    places = {place for found in jct_s.values() for place in found}
    logs = {
        name: float(np.mean(np.log([*found.values()])))
        for name, found in jct_s.items()
        if found and found.keys() == places
    }
    return min(logs, key=lambda name: logs[name], default=None)


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


def _place(labels: Labels) -> tuple[str, str, float | None, str, str | None]:
    return labels.topology, labels.workload, labels.load, labels.physics, labels.part


BASELINES = "published"  # role
