"""What intervals of a comparison are taken over: windows, seeds, or stretches of time."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sim.metrics.clustered import clustered_mean_interval, clustered_ratio_interval
from sim.metrics.intervals import Interval, mean_interval, ratio_interval
from sim.report.comparison_row import ComparisonRow
from sim.report.errors import ReportError

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
