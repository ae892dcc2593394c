"""What a page shows of a sweep before its details: one table, and lines over a number."""

from collections.abc import Sequence
from typing import Any

from gpuyard.pages.figures import Look, looks
from gpuyard.pages.page import Figure, Table, label, numbers
from gpuyard.pages.tables import text_cell
from sim.report.comparison import ComparisonRow
from sim.report.comparison_report import (
    LinePoint,
    Sweep,
    lines_of,
    sweep_of,
    sweep_rows,
    sweep_title,
)
from sim.report.standings import beside_agents, standings

BAND = 0.13  # opacity of an interval


def sweep_sections(
    rows: Sequence[ComparisonRow], *, confidence: float
) -> tuple[Table | Figure, ...]:
    """The table of a terminal, schedulers down and swept values across, and the same as lines.

    Args:
        rows: one a run.
        confidence: of the intervals.

    Returns:
        Nothing where nothing was swept; no lines where no number was.
    """
    sweep = sweep_of(standings(beside_agents(rows), ours=None, confidence=confidence))
    if sweep is None:
        return ()
    headers = ("scheduler", *(" / ".join(point) for point in sweep.points))
    cells = tuple(tuple(map(text_cell, row)) for row in sweep_rows(sweep))
    note = "Best mean over the columns first. Every metric of each column stands below, folded."
    table = Table(_capital(sweep_title(sweep)), headers, cells, note)
    drawn = _figure(sweep, confidence)
    return (table,) if drawn is None else (table, drawn)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _figure(sweep: Sweep, confidence: float) -> Figure | None:
    found = lines_of(sweep)
    if found is None:
        return None
    key, lines = found
    look = looks([", ".join(line) for line in lines])
    data: list[dict[str, Any]] = []
    for line, points in lines.items():
        name = ", ".join(line)
        data += _line(name, points, look[name], sweep.unit.name)
    spread = any(trace.get("fill") for trace in data)
    layout = {
        "xaxis": {"title": {"text": label(key)}},
        "yaxis": {"title": {"text": f"mean JCT [{sweep.unit.name}]"}, "rangemode": "tozero"},
        "showlegend": True,
    }
    note = f"Lower is better. Bands: {confidence:.0%} intervals." if spread else "Lower is better."
    return Figure(f"Mean JCT over {key}", data, layout, note)


def _line(name: str, points: Sequence[LinePoint], look: Look, unit: str) -> list[dict[str, Any]]:
    """The line, and behind it its interval where there is one."""
    x, centre, low, high = map(numbers, zip(*points, strict=True))
    line = {
        "type": "scatter", "mode": "lines+markers", "name": label(name), "legendgroup": label(name),
        "x": x, "y": centre, "line": look, "marker": {"size": 6, "color": look["color"]},
        "hovertemplate": f"%{{y:.4g}} {unit}",
    }  # fmt: skip
    if None in low or None in high or low == high:
        return [line]
    band = {
        "type": "scatter", "mode": "lines", "x": [*x, *reversed(x)], "y": [*high, *reversed(low)],
        "fill": "toself", "opacity": BAND, "fillcolor": look["color"], "line": {"width": 0},
        "hoverinfo": "skip", "showlegend": False, "legendgroup": label(name),
    }  # fmt: skip
    return [band, line]
