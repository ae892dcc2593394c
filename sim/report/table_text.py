"""The cells of the comparison table as text: what both rich and markdown print."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sim.metrics.intervals import Interval
from sim.report.standings import Setting, Standing
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
    with_ratio = any(standing.ratio for standing in every)
    headers = [
        "scheduler", "role", "information", *(f"{name} [{unit.name}]" for name in _TIMES.values()),
        f"makespan [{span.name}]", "GPU use [%]", *(["ours / theirs"] if with_ratio else []),
    ]  # fmt: skip
    blocks = tuple(
        (setting.title, tuple(_cells(s, (unit, span), with_ratio, ours) for s in setting.standings))
        for setting in settings
    )
    return TableText(tuple(headers), blocks, _note(every, with_ratio, ours, confidence))


def _cells(
    standing: Standing, units: tuple[TimeUnit, TimeUnit], with_ratio: bool, ours: str | None
) -> tuple[str, ...]:
    found = standing.intervals
    unit, span = units
    name = standing.scheduler + (" *" if standing.unfinished else "")
    cells = [name, standing.role, standing.information]
    cells += [interval_text(found.get(key), 1.0 / unit.length_s) for key in _TIMES]
    cells.append(interval_text(found.get("makespan_s"), 1.0 / span.length_s))
    cells.append(interval_text(found.get("gpu_util_frac"), 100.0))
    if with_ratio:
        cells.append("(ours)" if standing.scheduler == ours else ratio_text(standing.ratio))
    return tuple(cells)


def interval_text(interval: Interval | None, factor: float) -> str:
    """`mean ± half width`: the mean to three figures, the half width to as many decimals.

    Only the mean where there is no interval, `-` where there is nothing.
    """
    if interval is None:
        return "-"
    centre = interval.centre * factor
    decimals = _decimals(centre)
    if np.isnan(interval.low):
        return f"{centre:.{decimals}f}"
    half = (interval.high - interval.centre) * factor
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


def _note(every: list[Standing], with_ratio: bool, ours: str | None, confidence: float) -> str:
    counts = {s.intervals["jct_mean_s"].count for s in every if "jct_mean_s" in s.intervals}
    repeats = (
        " to ".join(str(count) for count in sorted({min(counts), max(counts)})) if counts else ""
    )
    parts = [
        f"Mean ± half width of the {confidence:.0%} t interval over {repeats} windows "
        "(over seeds where there is one window); sorted by mean JCT."
    ] if counts else []  # fmt: skip
    if with_ratio:
        parts.append(
            f"ours / theirs: geometric mean of the paired ratios of mean JCT, ours = {ours}; "
            "below 1 ours is faster."
        )
    if any(s.unfinished for s in every):
        parts.append("* left measured jobs unfinished, which its means do not count.")
    return " ".join(parts)
