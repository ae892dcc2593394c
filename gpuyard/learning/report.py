"""What a search leaves behind: weights, curve, figure, and what held-out windows say."""

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from gpuyard.learning.checkpoint import Point
from sim.arrays import FloatArray
from sim.metrics.timeline import mean_interval
from sim.report.atomic import write_atomically
from sim.report.figure_style import GREY, heading, line_look, new_figure, save_png, tidy
from sim.scoring.layer import Layer
from sim.scoring.weights import ScoreWeights

CURVE_CSV, CURVE_PNG, METRICS = "curve.csv", "curve.png", "metrics.json"
CONFIDENCE = 0.95
DIGITS = 6  # of a weight in a file
WIDE = 3.0  # a beginning so far above the reference is drawn on a logarithmic axis


def rounded(weights: ScoreWeights) -> ScoreWeights:
    """The weights as a file holds them."""
    return ScoreWeights(
        start=weights.start.round(DIGITS),
        forward=weights.forward.round(DIGITS),
        suspend=None if weights.suspend is None else weights.suspend.round(DIGITS),
        start_layer=_rounded_layer(weights.start_layer),
        forward_layer=_rounded_layer(weights.forward_layer),
        suspend_layer=_rounded_layer(weights.suspend_layer),
    )


def _rounded_layer(layer: Layer) -> Layer:
    return replace(
        layer, **{each.name: getattr(layer, each.name).round(DIGITS) for each in fields(Layer)}
    )


def write_weights(path: Path, weights: ScoreWeights, words: Sequence[str]) -> None:
    """A file for conf/linear_weights/ or `scheduler.weights_file`; `words` become comments."""
    body = yaml.safe_dump(weights.as_mapping(), sort_keys=False, default_flow_style=None, width=100)
    write_atomically(path, "".join(f"# {line}\n" for line in words).encode() + body.encode())


def write_curve(folder: Path, curve: Sequence[Point], begin: str, reference: str) -> None:
    """The curve as CSV, one row a validation, and as a figure."""
    text = io.StringIO()
    rows = csv.DictWriter(text, [each.name for each in fields(Point)], lineterminator="\n")
    rows.writeheader()
    rows.writerows(asdict(point) for point in curve)
    write_atomically(folder / CURVE_CSV, text.getvalue().encode())
    if curve:
        draw_curves(folder / CURVE_PNG, {"learned": curve}, begin, reference)


def read_curve(folder: Path) -> list[Point]:
    """The curve that `write_curve` wrote."""
    with (folder / CURVE_CSV).open(newline="", encoding="utf-8") as file:
        return [
            Point(
                int(row["update"]), float(row["minutes"]), int(row["runs"]),
                float(row["to_begin"]), float(row["to_reference"]),
            )
            for row in csv.DictReader(file)
        ]  # fmt: skip


def draw_curves(
    path: Path, curves: Mapping[str, Sequence[Point]], begin: str, reference: str
) -> None:
    """Curves by name, none of them empty, with the reference and the beginning as lines."""
    figure = new_figure(6.5, 4.0)
    axes = figure.subplots()
    for place, (name, curve) in enumerate(curves.items()):
        look = line_look(place) | {"marker": "o", "markersize": 4}
        axes.plot([p.minutes for p in curve], [p.to_reference for p in curve], **look, label=name)
    axes.axhline(1.0, color="black", linestyle="--", label=reference)
    firsts = [curve[0].to_reference / curve[0].to_begin for curve in curves.values()]
    first = math.exp(
        sum(map(math.log, firsts)) / len(firsts)
    )  # curves may have windows of their own
    axes.axhline(first, color=GREY, linestyle=":", label=f"{begin}: {first:.3f}")
    if first > WIDE:
        axes.set_yscale("log")
        for tell in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
            tell("{x:g}")
    axes.set_xlabel("minutes of learning")
    axes.set_ylabel(f"mean JCT / that of {reference}")
    axes.legend(fontsize=9, frameon=False)
    heading(axes, "Validation windows: lower is better")
    tidy(axes, grid="y")
    save_png(figure, path)


def ratios_of(learned: FloatArray, rivals: Mapping[str, FloatArray]) -> dict[str, Any]:
    """Geometric means of paired ratios of mean JCT, learned / rival, with t intervals of the logs.

    Args:
        learned: (W,) ln mean JCT on held-out windows.
        rivals: name -> (W,) the same of others.
    """
    found = {}
    for name, logs in rivals.items():
        interval = mean_interval(learned - logs, CONFIDENCE)
        ratio, low, high = np.exp([interval.centre, interval.low, interval.high]).tolist()
        found[name] = {"ratio": ratio, "low": low, "high": high, "windows": interval.count}
    return found


def write_metrics(folder: Path, values: Mapping[str, Any]) -> None:
    """`metrics.json`."""
    text = json.dumps(values, indent=2, allow_nan=False)
    write_atomically(folder / METRICS, (text + "\n").encode())
