"""Sections of a page: tables, and figures about times, use and learning as traces of Plotly.js."""

import csv
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gpuyard.pages.page import COLOURS, GREY, Cell, Figure, Table, label, numbers
from sim.arrays import FloatArray
from sim.report.figure_studies import LearningCurve
from sim.report.figures import SHORTEST_S, TICKS_S
from sim.report.job_times import percent
from sim.report.standings import Setting
from sim.report.table_text import table_text
from sim.report.timeline import Timeline
from sim.times import HOUR_S, axis_unit_for, time_text, unit_for

WORDS = 3  # columns of a comparison that hold words come first there
MOST_ROWS = 500  # of a table from a file; the file has the rest
BETWEEN_CELLS = re.compile(r"(?<!\\)\|")  # a bar inside a cell is written \|
LEADING_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w+])")


def metrics_table(metrics: Mapping[str, float | int | str], whose: str = "") -> Table:
    """Every metric with its value, simulated times in hours too; `whose` begins the note."""
    rows = []
    for key, value in metrics.items():
        if isinstance(value, str):
            rows.append((Cell(key), Cell(value), Cell("")))
            continue
        simulated = key.endswith("_s") and not key.startswith("loop_") and math.isfinite(value)
        hours = Cell(f"{value / HOUR_S:,.2f}", value / HOUR_S) if simulated else Cell("")
        rows.append((Cell(key), number_cell(value), hours))
    note = "Keys are those of metrics.json; times are seconds, the last column has them in hours."
    return Table("All metrics", ("metric", "value", "hours"), tuple(rows), whose + note)


def comparison_tables(
    settings: Sequence[Setting], *, ours: str | None, confidence: float, opened: int = 3
) -> tuple[Table, ...]:
    """One table a setting, as in comparison.md, with intervals; the note below the first and last.

    The first `opened` of them are not folded.
    """
    text = table_text(settings, ours=ours, confidence=confidence)
    # Numbers first: on a narrow screen they stand beside the scheduler without scrolling.
    order = [0, *range(WORDS, len(text.headers)), *range(1, WORDS)]
    return tuple(
        Table(
            f"Comparison: {name}",
            tuple(text.headers[at] for at in order),
            tuple(tuple(text_cell(row[at]) for at in order) for row in rows),
            text.note if at in {0, len(text.settings) - 1} else "",
            opened=at < opened,
        )
        for at, (name, rows) in enumerate(text.settings)
    )


def table_of_rows(
    title: str, rows: Sequence[Mapping[str, object]], *, note: str = "", opened: bool = True
) -> Table:
    """A table of any rows, such as why jobs waited: keys of the first row are its columns.

    A key that a row lacks is an empty cell; the note says so where rows are left out.
    """
    keys = list(rows[0]) if rows else []
    shown = rows[:MOST_ROWS]
    if len(rows) > len(shown):
        note = f"{note} The first {len(shown)} of {len(rows):,} rows.".strip()
    cells = tuple(tuple(value_cell(row.get(key, "")) for key in keys) for row in shown)
    return Table(title, tuple(keys), cells, note, opened)


def csv_table(path: Path, title: str, *, opened: bool = True) -> Table | None:
    """A table of a CSV file; None where it has no row."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    if not rows:
        return None
    rows, alike = _telling(rows)  # of all, though not all are shown
    return table_of_rows(title, rows, note=f"From {path.name}. {alike}".rstrip(), opened=opened)


def _telling(rows: list[dict[str, str]]) -> tuple[list[dict[str, str]], str]:
    """Rows with the columns in which they differ, and words on the others; one row has all."""
    same = {key: rows[0][key] for key in rows[0] if len({row[key] for row in rows}) == 1}
    if len(rows) == 1 or len(same) == len(rows[0]):
        return rows, ""
    said = [f"{key} = {value}" for key, value in same.items() if value]
    empty = [key for key, value in same.items() if not value]
    words = [f"The same in every row: {', '.join(said)}."] * bool(said)
    words += [f"Empty: {', '.join(empty)}."] * bool(empty)
    return [{k: v for k, v in row.items() if k not in same} for row in rows], " ".join(words)


def markdown_tables(path: Path, title: str) -> list[Table]:
    """The tables of a Markdown file; none where there is no such file.

    Of several each has its first header in its title.
    """
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    blocks = [
        [line for line in part.splitlines() if line[:1] == "|"] for part in text.split("\n\n")
    ]
    found = [[_cells(line) for line in block] for block in blocks if block]
    return [
        Table(
            f"{title}: {head[0]}" if len(found) > 1 and head[0] else title,
            head, tuple(tuple(map(text_cell, row)) for row in rows),
        )
        for head, _, *rows in found
    ]  # fmt: skip


def _cells(line: str) -> tuple[str, ...]:
    plain = line.replace("`", "").replace("**", "").strip()
    return tuple(cell.strip().replace("\\|", "|") for cell in BETWEEN_CELLS.split(plain)[1:-1])


def value_cell(value: object) -> Cell:
    """A number in a readable form, or a text."""
    if isinstance(value, bool) or value is None:
        return Cell("" if value is None else str(value).lower())
    if isinstance(value, int | float):
        return number_cell(value)
    text = str(value)
    try:
        number = float(text)
    except ValueError:
        return Cell(text)
    return number_cell(int(text) if text.lstrip("-").isdigit() else number)


def number_cell(value: float | int) -> Cell:
    """Counts whole, others to four figures, `-` where nothing was measured."""
    if isinstance(value, int):
        return Cell(f"{value:,}", float(value))
    if not math.isfinite(value):
        return Cell("-" if math.isnan(value) else str(value))
    small = abs(value) < 1000.0  # noqa: PLR2004  (from there on, four figures hide whole seconds)
    return Cell(f"{value:,.4g}" if small else f"{value:,.0f}", value)


def text_cell(text: str) -> Cell:
    """A text that may begin with a number, like `4.20 ± 0.31`, which it is sorted by."""
    found = LEADING_NUMBER.match(text.replace(",", ""))
    return Cell(text, float(found.group()) if found else None)


ROLE_SYMBOLS = {
    "ours": "star", "composite": "circle", "published": "square", "linear_score": "triangle-up",
    "global_queue": "diamond", "reference": "x", "ablation": "cross",
}  # fmt: skip
MOST_POINTS = 400  # of one curve
MOST_CURVES = 24
NAME_LENGTH = 34  # longer names are cut on an axis; the hover text has all of it


def jct_figure(jct_s: Mapping[str, FloatArray], whose: Mapping[str, str]) -> Figure | None:
    """The share of jobs that took at most so long, by curve; None where no job has ended.

    Times (n,) are without NaN; `whose` has the scheduler of each curve.
    """
    curves = {name: np.sort(times) for name, times in jct_s.items() if len(times)}
    drawn = dict(list(curves.items())[:MOST_CURVES])
    if not drawn:
        return None
    data, longest_s = [], SHORTEST_S * 10
    for name, times_s in drawn.items():
        x_s, share = _curve(np.maximum(times_s, SHORTEST_S))
        longest_s = max(longest_s, float(times_s[-1]))
        data.append({
            "type": "scatter", "name": label(name), "meta": whose[name],
            "line": {"width": 2, "shape": "hv" if len(times_s) <= MOST_POINTS else "linear"},
            "mode": "lines" if len(times_s) > 1 else "markers",  # of one point there is no line
            "x": numbers(x_s), "y": numbers(share * 100.0, 5),
            "customdata": [time_text(value) for value in x_s.tolist()],
            "hovertemplate": "%{y:.1f} % within %{customdata}",
        })  # fmt: skip
    most = max(map(len, drawn.values()))
    notes = ["Further left and up is better."] if len(drawn) > 1 else []
    if most > MOST_POINTS:
        notes.append(f"Each curve runs through {MOST_POINTS} quantiles of up to {most:,} jobs.")
    if len(drawn) < len(curves):
        notes.append(f"The first {len(drawn)} of {len(curves)} curves.")
    if any(times_s[0] < SHORTEST_S for times_s in drawn.values()):
        notes.append(f"Times below {SHORTEST_S:g} s are drawn there.")
    layout = {
        "xaxis": {
            "type": "log", "tickvals": list(TICKS_S), "ticktext": list(TICKS_S.values()),
            "range": numbers(np.log10([SHORTEST_S, longest_s * 1.1])),
            "title": {"text": "job completion time (log scale)"},
        },
        "yaxis": {"range": [0, 101], "title": {"text": "share of jobs"}, "ticksuffix": " %"},
        "showlegend": len(drawn) > 1,
    }  # fmt: skip
    return Figure("Job completion times", data, layout, " ".join(notes))


def _curve(times_s: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Points of the distribution of ascending times: all of them, or quantiles dense at the end."""
    count = len(times_s)
    if count <= MOST_POINTS:
        return times_s, np.arange(1, count + 1) / count
    share = np.concatenate([
        np.linspace(0.0, 0.98, MOST_POINTS - 50, endpoint=False), np.linspace(0.98, 1.0, 50),
    ])  # fmt: skip
    return np.quantile(times_s, share), share


BEST_OF_ROLES = "Window 0, the best scheduler of each role."


def use_figure(
    timelines: Mapping[str, Timeline], whose: Mapping[str, str], *, of: str = BEST_OF_ROLES
) -> Figure | None:
    """Use of GPUs above the waiting jobs, over time; None without a timeline.

    `whose` has the scheduler of each; `of` says which they are where there are several.
    """
    if not timelines:
        return None
    length_s = max(float(each.time_s.max(initial=0.0)) for each in timelines.values())
    unit = axis_unit_for(length_s)
    data: list[dict[str, Any]] = []
    for name, timeline in timelines.items():
        time = numbers(timeline.time_s / unit.length_s)
        common = {"type": "scatter", "mode": "lines", "x": time, "name": label(name),
                  "legendgroup": label(name), "meta": whose[name],
                  "line": {"shape": "hv", "width": 1.5}}  # fmt: skip
        use = {"y": numbers(timeline.gpu_util_frac * 100.0, 4),
               "hovertemplate": "%{y:.1f} % busy"}  # fmt: skip
        queue = {"y": numbers(timeline.queue_jobs, 4), "yaxis": "y2",
                 "showlegend": False, "hovertemplate": "%{y:.1f} waiting"}  # fmt: skip
        data += [common | use, common | queue]
    layout = {
        "xaxis": {"title": {"text": f"time since the first submission [{unit.name}]"},
                  "anchor": "y2", "unifiedhovertitle": {"text": f"%{{x:.4~g}} {unit.name}"}},
        "yaxis": {"domain": [0.56, 1.0], "range": [0, 102], "ticksuffix": " %",
                  "title": {"text": "busy GPUs"}},
        "yaxis2": {"domain": [0.0, 0.44], "rangemode": "tozero", "title": {"text": "waiting jobs"}},
        "hovermode": "x unified",
        "showlegend": len(timelines) > 1,
    }  # fmt: skip
    bins = max(len(each.time_s) for each in timelines.values())
    note = f"Means over {bins} bins of equal length."
    if len(timelines) > 1:
        note = f"{note} {of}".strip()
    return Figure("Use and queue over time", data, layout, note)


def learning_figure(curve: LearningCurve, *, source: str = "") -> Figure:
    """Return of each iteration, and below it mean JCT on evaluation windows where there is one."""
    known = ~np.isnan(curve.eval_jct_mean_s)
    iteration = numbers(curve.iteration)
    data: list[dict[str, Any]] = [{
        "type": "scatter", "mode": "lines+markers", "name": "mean episode return", "x": iteration,
        "y": numbers(curve.return_mean), "line": {"color": COLOURS[0]}, "marker": {"size": 4},
        "connectgaps": True,  # no episode ended in some iterations
    }]  # fmt: skip
    layout: dict[str, Any] = {
        "xaxis": {"title": {"text": "training iteration"}},
        "yaxis": {"title": {"text": "return"}},
        "showlegend": False,
    }
    if known.any():
        jct_s = curve.eval_jct_mean_s[known]
        unit = unit_for(jct_s.tolist())
        data.append({
            "type": "scatter", "mode": "lines+markers", "name": "mean JCT", "yaxis": "y2",
            "x": numbers(curve.iteration[known]), "y": numbers(jct_s / unit.length_s),
            "line": {"color": COLOURS[1]}, "marker": {"size": 5},
        })  # fmt: skip
        layout["xaxis"]["anchor"] = "y2"
        layout["yaxis"]["domain"] = [0.56, 1.0]
        layout["yaxis2"] = {"domain": [0.0, 0.44], "title": {"text": f"mean JCT [{unit.name}]"}}
    note = "Below: mean JCT on evaluation windows, lower is better." if known.any() else ""
    return Figure("Learning curve", data, layout, f"{note} {source}".strip())


def playing_figure(curve: Sequence[tuple[int, float]], *, source: str = "") -> Figure:
    """Mean JCT on validation windows over a reference's, while weights are learned by playing.

    `curve` is (updates so far, the ratio) of each validation.
    """
    data = [{
        "type": "scatter", "mode": "lines+markers", "name": "learned",
        "x": [update for update, _ in curve], "y": numbers(ratio for _, ratio in curve),
        "line": {"color": COLOURS[1]}, "marker": {"size": 5},
        "hovertemplate": "update %{x}: %{y:.3f} times",
    }]  # fmt: skip
    layout = {
        "xaxis": {"title": {"text": "update"}, "rangemode": "tozero"},
        "yaxis": {"type": "log", "title": {"text": "mean JCT over the reference's (log scale)"}},
        "showlegend": False,
    }
    note = "On validation windows, which are not learned from; 1 is the reference."
    return Figure("Learning curve", data, layout, f"{note} {source}".strip())


def standings_figure(setting: Setting, *, confidence: float, opened: bool = True) -> Figure:
    """Mean JCT of each scheduler with its interval, the best at the top, a symbol a role."""
    found = [each for each in setting.standings if "jct_mean_s" in each.intervals]
    intervals = [each.intervals["jct_mean_s"] for each in found]
    unit = unit_for(interval.centre for interval in intervals)
    centre, low, high = (
        np.array([getattr(interval, name) for interval in intervals]) / unit.length_s
        for name in ("centre", "low", "high")
    )
    spread = bool(np.isfinite(low).any())
    data: list[dict[str, Any]] = []
    for role in dict.fromkeys(each.role for each in found):
        mine = [at for at, each in enumerate(found) if each.role == role]
        data.append({
            "type": "scatter", "mode": "markers", "name": label(role), "y": mine,
            "legendgroup": label(role), "showlegend": False, "x": numbers(centre[mine]),
            "marker": {"size": 9, "symbol": ROLE_SYMBOLS[role]},
            "meta": [found[at].scheduler for at in mine],
            "error_x": {
                "type": "data", "symmetric": False, "visible": spread,
                "array": numbers(np.nan_to_num(high - centre)[mine]),
                "arrayminus": numbers(np.nan_to_num(centre - low)[mine]),
                "thickness": 1.5, "width": 4, "color": GREY,
            },
            "customdata": [label(found[at].scheduler) for at in mine],
            "hovertemplate": f"%{{customdata}}<br>%{{x:.4g}} {unit.name}",
        })  # fmt: skip
    data += [{  # in a legend a mark has no scheduler's colour
        "type": "scatter", "mode": "markers", "name": each["name"], "x": [None], "y": [None],
        "legendgroup": each["name"], "marker": {**each["marker"], "color": GREY},
    } for each in data]  # fmt: skip
    furthest = float(np.nanmax([*centre, *high])) if found else 1.0
    layout = {
        "xaxis": {"title": {"text": f"mean JCT [{unit.name}]"}, "range": [0.0, 1.05 * furthest]},
        "yaxis": {
            "tickvals": list(range(len(found))),
            "ticktext": [label(name) for name in _cut([each.scheduler for each in found])],
            "range": [len(found) - 0.4, -0.6], "zeroline": False,
        },
        "showlegend": True, "hovermode": "closest",
    }  # fmt: skip
    note = f"Bars: {percent(confidence)} intervals." if spread else "One run each, so no intervals."
    height_px = 110 + 26 * max(len(found), 3)
    return Figure(
        f"Mean JCT: {setting.title}", data, layout, note, height_px, opened=opened,
        rows=[label(each.scheduler) for each in found],
    )  # fmt: skip


def _cut(names: Sequence[str]) -> list[str]:
    """The names, their middle left out where they are long, unless that makes some alike."""
    half = NAME_LENGTH // 2
    cut = [
        name if len(name) <= NAME_LENGTH else f"{name[:half]}…{name[1 - half :]}" for name in names
    ]
    return [
        short if cut.count(short) == 1 else name for name, short in zip(names, cut, strict=True)
    ]
