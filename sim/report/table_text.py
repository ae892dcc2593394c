"""The cells of the comparison table as text: what both rich and markdown print."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sim.metrics.intervals import Interval
from sim.report.standings import Setting, Standing
from sim.report.table_note import mark, table_note
from sim.report.time_unit import TimeUnit, axis_unit_for, unit_for

_TIMES = {
    "jct_mean_s": "mean JCT",
    "jct_p50_s": "p50 JCT",
    "jct_p95_s": "p95 JCT",
    "jct_p99_s": "p99 JCT",
    "queue_delay_mean_s": "queueing delay",
}


@dataclass(frozen=True)
class TableText:
    """Headers, and for each setting one tuple of cells a standing."""

    headers: tuple[str, ...]
    settings: tuple[tuple[str, tuple[tuple[str, ...], ...]], ...]  # (title, rows)
    note: str  # how to read it


def table_text(settings: Sequence[Setting], *, ours: str | None, confidence: float) -> TableText:
    """Text of all settings in common units, which the headers state."""
    every = [standing for setting in settings for standing in setting.standings]
    unit = unit_for(s.intervals["jct_mean_s"].centre for s in every if "jct_mean_s" in s.intervals)
    span = axis_unit_for(
        max((s.intervals["makespan_s"].centre for s in every if "makespan_s" in s.intervals),
            default=0.0)
    )  # fmt: skip
    last = ["ours / theirs"] if any(standing.ratio for standing in every) else []
    if last and any(setting.stretches for setting in settings):
        last.append("effective windows")
    headers = [
        "scheduler", "role", "information", *(f"{name} [{unit.name}]" for name in _TIMES.values()),
        f"makespan [{span.name}]", "GPU use [%]", *last,
    ]  # fmt: skip
    blocks = tuple(
        (
            setting.title + _windows(setting, confidence),
            tuple(
                _cells(s, (unit, span)) + _ratio_cells(s, ours, confidence)[: len(last)]
                for s in setting.standings
            ),
        )
        for setting in settings
    )
    return TableText(tuple(headers), blocks, table_note(settings, bool(last), ours, confidence))


def _windows(setting: Setting, confidence: float) -> str:
    """What the windows of the setting are, where several may come from one stretch of time."""
    if setting.stretches is None:
        return ""
    windows = "1 window" if setting.windows == 1 else f"{setting.windows} windows"
    stretches = "1 stretch" if setting.stretches == 1 else f"{setting.stretches} stretches"
    return f", {windows} of {stretches}{mark(setting.stretches, confidence)}"


def _cells(standing: Standing, units: tuple[TimeUnit, TimeUnit]) -> tuple[str, ...]:
    found = standing.intervals
    unit, span = units
    name = standing.scheduler + (" *" if standing.unfinished else "")
    cells = [name, standing.role, standing.information]
    cells += [interval_text(found.get(key), 1.0 / unit.length_s) for key in _TIMES]
    cells.append(interval_text(found.get("makespan_s"), 1.0 / span.length_s))
    cells.append(interval_text(found.get("gpu_util_frac"), 100.0))
    return tuple(cells)


def _ratio_cells(standing: Standing, ours: str | None, confidence: float) -> tuple[str, str]:
    """The ratio, and how many independent windows it is worth."""
    ratio = standing.ratio
    if ratio is None:
        return ("(ours)" if standing.scheduler == ours else "-"), "-"
    known = ratio.effective is not None and not np.isnan(ratio.effective)
    text = ratio_text(ratio) + mark(ratio.clusters, confidence)
    return text, f"{ratio.effective:.1f}" if known else "-"


def interval_text(interval: Interval | None, factor: float) -> str:
    """`mean ± half width`: the mean to three figures, the half width to as many decimals.

    Only the mean where there is no interval, `-` where there is nothing. An interval that is not
    symmetric is shown by half its width.
    """
    if interval is None:
        return "-"
    centre = interval.centre * factor
    decimals = _decimals(centre)
    if np.isnan(interval.low):
        return f"{centre:.{decimals}f}"
    half = (interval.high - interval.low) / 2 * factor
    return f"{centre:.{decimals}f} ± {half:.{decimals}f}"


def ratio_text(interval: Interval | None) -> str:
    """`ratio [low, high]`, the interval only if there is one."""
    if interval is None:
        return "-"
    if np.isnan(interval.low):
        return f"{interval.centre:.3f}"
    return f"{interval.centre:.3f} [{interval.low:.3f}, {interval.high:.3f}]"


def _decimals(value: float) -> int:
    """Decimals that show three significant figures, at most three decimals."""
    if value == 0 or not np.isfinite(value):
        return 1
    return min(max(2 - int(np.floor(np.log10(abs(value)))), 0), 3)
