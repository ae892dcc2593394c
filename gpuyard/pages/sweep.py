"""A sweep on a page: schedulers down and swept values across, and a line plot over numbers."""

import math
from typing import Any

from gpuyard.pages.figures import looks
from gpuyard.pages.page import Figure, Table, label
from gpuyard.pages.tables import text_cell
from sim.report.comparison_report import Sweep, sweep_curves, sweep_rows, sweep_title


def sweep_sections(sweep: Sweep) -> list[Table | Figure]:
    """The table, and the figure where a number was swept."""
    title = sweep_title(sweep)
    title = title[0].upper() + title[1:]
    headers = ("scheduler", *(" / ".join(point) for point in sweep.points))
    rows = tuple(tuple(text_cell(text) for text in cells) for cells in sweep_rows(sweep))
    table = Table(title, headers, rows, note="All metrics are in the tables of the settings below.")
    figure = _figure(sweep, title)
    return [table] if figure is None else [table, figure]


def _figure(sweep: Sweep, title: str) -> Figure | None:
    found = sweep_curves(sweep)
    if found is None:
        return None
    key, curves = found
    names = {curve: ", ".join(curve) for curve in curves}
    look = looks(list(names.values()))
    data: list[dict[str, Any]] = []
    for curve, values in curves.items():
        x, centre, low, high = zip(*values, strict=True)
        trace = {
            "type": "scatter", "mode": "lines+markers", "name": label(names[curve]),
            "line": look[names[curve]], "x": list(x), "y": list(centre),
        }  # fmt: skip
        if all(map(math.isfinite, (*low, *high))):  # one run a point has no interval
            trace["error_y"] = {
                "type": "data", "symmetric": False,
                "array": [end - mid for end, mid in zip(high, centre, strict=True)],
                "arrayminus": [mid - end for end, mid in zip(low, centre, strict=True)],
            }  # fmt: skip
        data.append(trace)
    layout = {
        "xaxis": {"title": {"text": key}},
        "yaxis": {"title": {"text": f"mean JCT [{sweep.unit.name}]"}, "rangemode": "tozero"},
    }
    return Figure(title, data, layout, note="Lower is better.", wide=True)
