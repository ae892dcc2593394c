"""Distances between two traces as files and as the cells of a table."""

import csv
import io
import json
import math
from collections.abc import Sequence
from dataclasses import asdict

from sim.traces.likeness import Distance

COLUMNS = (
    "feature", "measure", "distance", "floor", "over_floor", "ln_shift", "ln_shift_floor", "first",
    "second",
)  # fmt: skip
HEADERS = (
    "feature", "real", "generated", "measure", "distance", "floor", "x floor", "ln shift", "floor",
)  # fmt: skip
NOTE = (
    "floor: distance between the first and the second half of the real trace's time span; up to "
    "1 x floor the generated trace is no further from the real one than its halves are from each "
    "other. real, generated: (weighted) medians, shares, or means of the curve. ln shift: "
    "Wasserstein distance of logarithms, 0.1 is about 10 %."
)


def likeness_csv(distances: Sequence[Distance]) -> str:
    """One row a feature; what is not defined is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for each in distances:
        row = asdict(each) | {"over_floor": each.over_floor}
        writer.writerow([_plain(row[name]) for name in COLUMNS])
    return text.getvalue()


def likeness_json(distances: Sequence[Distance], about: dict[str, str | int | None]) -> str:
    """What was compared, and feature -> figures; what is not defined is null."""
    features = {
        each.feature: {
            name: None if isinstance(value, float) and math.isnan(value) else value
            for name, value in (asdict(each) | {"over_floor": each.over_floor}).items()
            if name != "feature"
        }
        for each in distances
    }
    return json.dumps({**about, "features": features}, indent=2, allow_nan=False) + "\n"


def likeness_cells(distance: Distance) -> tuple[str, ...]:
    """The cells of one row, under HEADERS."""
    return (
        distance.feature,
        _short(distance.first),
        _short(distance.second),
        distance.measure,
        _short(distance.distance),
        _short(distance.floor),
        "-" if math.isnan(distance.over_floor) else f"{distance.over_floor:.2f}",
        _short(distance.ln_shift),
        _short(distance.ln_shift_floor),
    )


def _short(value: float) -> str:
    if math.isnan(value):
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"  # noqa: PLR2004


def _plain(value: str | float) -> str:
    if isinstance(value, str):
        return value
    return "" if math.isnan(value) else repr(value)
