"""The page of a comparison: what `evaluate`, `compare` and `reproduce` leave."""

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gpuyard.pages.page import (
    Figure,
    Page,
    Table,
    facts_of,
    label,
    numbers,
    sections_of,
    write_page,
)
from gpuyard.pages.sections import (
    BEST_OF_ROLES,
    comparison_tables,
    csv_table,
    jct_figure,
    learning_figure,
    markdown_tables,
    metrics_table,
    playing_figure,
    standings_figure,
    text_cell,
    use_figure,
)
from sim.arrays import FloatArray
from sim.errors import amount
from sim.files import LABEL_COLUMNS, ComparisonRow, physics_words, read_comparison_csv, with_windows
from sim.report.comparison_report import (
    LinePoint,
    Sweep,
    lines_of,
    sweep_of,
    sweep_rows,
    sweep_title,
)
from sim.report.figure_studies import read_learning_curve
from sim.report.job_times import percent
from sim.report.run_folder import METRICS_FILE, RECORD, Record, read_metrics
from sim.report.standings import Setting, beside_agents, standings
from sim.report.timeline import Timeline

MOST_FIGURES = 12  # settings with a figure of their own
TIMELINE = ("time_s", "gpu_util_frac", "queue_jobs")
OPENED = 3  # settings that are not folded
COMPARISON, CURVE = "comparison.csv", "learning_curve.csv"
PLAYED = "curve.csv"  # of a search by playing
CURVES, VIEWS = "curves.json", "views.json"  # of a reproduction
RESULT = "page.md"  # of a reproduction: the tables of its page of results


def write_comparison_page(
    folder: Path,
    rows: Sequence[ComparisonRow],
    record: Record,
    *,
    ours: str | None,
    confidence: float,
    whose: Mapping[str, str] | None = None,
    jct_s: Mapping[str, FloatArray] | None = None,
    timelines: Mapping[str, Timeline] | None = None,
    timelines_of: str = BEST_OF_ROLES,
    first: Sequence[Table | Figure] = (),
    more: Sequence[Table | Figure] = (),
    figures_opened: int | None = None,
) -> Path:
    """Write report.html beside the files of a comparison, all of which are there.

    Args:
        folder: of the comparison.
        rows: one a run.
        record: of the program, with what its runs assumed.
        ours: scheduler that is divided by the others; None for no ratio.
        confidence: of the intervals.
        whose: curve -> its scheduler.
        jct_s: curve -> completion times (n,) without NaN.
        timelines: curve -> use and queue over time.
        timelines_of: a sentence on whose they are.
        first: sections above the comparison, which is folded then and stands below the figures.
        more: sections at the end.
        figures_opened: settings whose figure is not folded; None: as many as tables.
    """
    settings = standings(beside_agents(rows), ours=ours, confidence=confidence)
    opened = 0 if first else OPENED
    tables = comparison_tables(settings, ours=ours, confidence=confidence, opened=opened)
    shown = opened if figures_opened is None else figures_opened
    two = (
        jct_figure(jct_s or {}, whose or {}),
        use_figure(timelines or {}, whose or {}, of=timelines_of),
    )
    drawn: list[Table | Figure] = [each for each in two if each is not None]
    means = _standings(settings, confidence, shown)
    compared = [*drawn, *means, *tables] if first else [*tables, *means, *drawn]
    page = Page(
        title=_title(settings, record),
        subtitle=_subtitle(settings, rows),
        facts=facts_of(record, seeds=[row.labels.seed for row in rows]),
        assumed=(*record.assumed, *_shared_physics(rows)),
        sections=(*first, *compared, *more),
    )
    return write_page(folder, page)


def write_folder_page(
    folder: Path, record: Record, config: Mapping[str, Any], *, title: str = ""
) -> Path:
    """Write report.html from the tables of a folder alone: those that end in .csv.

    A `comparison.csv` becomes tables with intervals, for which `ours` and `confidence` of `config`
    are read; the other files are shown as they are, below the tables of `page.md`, and folded
    where anything else stands first.
    """
    compared = _is_of_schedulers(folder / COMPARISON)
    shown = {CURVE, PLAYED, *([COMPARISON] if compared else [])}
    result = markdown_tables(folder / RESULT, "Result")  # it comes first; the others are folded
    tables = [
        csv_table(path, path.stem.replace("_", " ").capitalize(), opened=not (result or compared))
        for path in sorted(folder.glob("*.csv"))
        if path.name not in shown
    ]
    found: list[Table | Figure] = [*filter(None, tables), *curve_of(folder, "")]
    # A program may have learned more since it began.
    told = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    assumed = tuple(map(str, told.get("assumed", ())))
    named = replace(record, program=title or record.program, assumed=assumed)
    path = folder / VIEWS
    views = sections_of(path.read_text(encoding="utf-8")) if path.is_file() else []
    if not compared:
        if (folder / METRICS_FILE).is_file():
            found.append(metrics_table(read_metrics(folder), _whose(told)))
        page = Page(
            title=_capital(named.program), subtitle="", facts=facts_of(record),
            assumed=named.assumed, sections=(*result, *found, *_curve_figures(folder), *views),
        )  # fmt: skip
        return write_page(folder, page)
    rows = read_comparison_csv(folder / COMPARISON)
    ours = config.get("ours") or next(
        (row.labels.scheduler for row in rows if row.labels.role == "ours"), None
    )
    known = {row.labels.scheduler for row in rows}
    drawn: list[Table | Figure] = [*result, *_curve_figures(folder), *views]
    return write_comparison_page(
        folder, rows, named, ours=ours if ours in known else None,
        confidence=config["confidence"], first=drawn, more=found,
        figures_opened=OPENED + 1,
    )  # fmt: skip


def _whose(told: Mapping[str, Any]) -> str:
    """Which run a record is of, where it names a part of a trace; "" where it does not."""
    if told.get("part") is None:
        return ""
    return f"Of {told['scheduler']}, {told['part']} window {told['window']}. "


def _is_of_schedulers(path: Path) -> bool:
    """Whether `comparison.csv` has a row a run of a scheduler; plans have columns of their own."""
    if not path.is_file():
        return False
    with path.open(encoding="utf-8") as file:
        return file.readline().startswith(f"{LABEL_COLUMNS[0]},{LABEL_COLUMNS[1]},")


def _curve_figures(folder: Path) -> list[Figure]:
    """Completion times, use and queue of each setting of a reproduction; the first is open."""
    path, found = folder / CURVES, []
    settings = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
    for at, setting in enumerate(settings[:MOST_FIGURES]):
        most = max(each["windows"] for each in setting["curves"])
        curves = {with_windows(each["name"], each["windows"], most): each
                  for each in setting["curves"]}  # fmt: skip
        # Files of earlier versions name no scheduler.
        whose = {name: each.get("scheduler", each["name"]) for name, each in curves.items()}
        lines = {
            name: Timeline(*(np.array(each[key], dtype=np.float64) for key in TIMELINE))
            for name, each in curves.items()
            if TIMELINE[0] in each
        }
        left_out = setting.get("of", len(curves)) - len(curves)
        others = f" Not drawn: {amount(left_out, 'other scheduler')}." * (left_out > 0)
        drawn = [
            (jct_figure({name: np.array(each["jct_s"]) for name, each in curves.items()}, whose),
             f"{amount(most, 'window')}, 100 quantiles of each. Left and up is better.{others}"),
            (use_figure(lines, whose), "Window 0, means over equal stretches of each run."),
        ]  # fmt: skip
        found += [
            replace(figure, title=f"{figure.title}: {setting['title']}", note=note, opened=at == 0)
            for figure, note in drawn
            if figure is not None
        ]
    return found


def curve_of(folder: Path, source: str) -> list[Figure]:
    """The learning curve in a folder, if there is one; `source`: whose it is."""
    path = folder / CURVE
    if path.is_file():
        return [learning_figure(read_learning_curve(path), source=source)]
    if (folder / PLAYED).is_file():
        with (folder / PLAYED).open(newline="", encoding="utf-8") as file:
            rows = csv.DictReader(file)
            points = [(int(row["update"]), float(row["to_reference"])) for row in rows]
        return [playing_figure(points, source=source)]
    return []


def curve_of_checkpoint(checkpoint: object) -> list[Figure]:
    """The learning curve beside the folder of a policy, if the training's folder is still there."""
    if checkpoint is None or not Path(str(checkpoint)).is_dir():
        return []
    return curve_of(Path(str(checkpoint)).parent, f"The training of {Path(str(checkpoint))}.")


def _standings(settings: Sequence[Setting], confidence: float, opened: int) -> list[Figure]:
    figures = [
        standings_figure(setting, confidence=confidence, opened=at < opened)
        for at, setting in enumerate(settings[:MOST_FIGURES])
        if any("jct_mean_s" in each.intervals for each in setting.standings)
    ]
    if len(settings) > MOST_FIGURES and figures:
        note = f"Figures of the first {MOST_FIGURES} of {len(settings)} settings; all have tables."
        figures[-1] = replace(figures[-1], note=f"{figures[-1].note} {note}")
    return figures


def _shared_physics(rows: Sequence[ComparisonRow]) -> list[str]:
    """Physics and load that all runs share; titles of tables tell the others."""
    words = [physics_words(row.labels.physics, row.labels.load) for row in rows]
    return [each for each in words[0] if all(each in others for others in words)]


def _title(settings: Sequence[Setting], record: Record) -> str:
    schedulers = len({each.scheduler for setting in settings for each in setting.standings})
    return f"{_capital(record.program)}: {amount(schedulers, 'scheduler')}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _subtitle(settings: Sequence[Setting], rows: Sequence[ComparisonRow]) -> str:
    if len(settings) == 1:
        return f"{settings[0].title}; {amount(len(rows), 'run')}"
    return f"{len(settings)} settings; {amount(len(rows), 'run')}"


BAND = 0.13  # opacity of an interval


def sweep_sections(
    rows: Sequence[ComparisonRow], *, confidence: float
) -> tuple[Table | Figure, ...]:
    """The table of a terminal, schedulers down and swept values across, and the same drawn.

    Nothing where nothing was swept.
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


def _figure(sweep: Sweep, confidence: float) -> Figure | None:
    found = lines_of(sweep)
    if found is None:
        return None
    data: list[dict[str, Any]] = []
    for at, (line, given) in enumerate(found.points.items()):
        name = label(", ".join(line))
        common = {"name": name, "legendgroup": name, "meta": line[0]}  # a line and its band
        # No time is below 0, though the interval of few runs may reach there.
        points = [(x, centre, max(low, 0.0), high) for x, centre, low, high in given]
        draw = partial(_points, words=found.words, aside=found.apart(at)) if found.words else _line
        data += [common | trace for trace in draw(points, sweep.unit.name)]
    spread = any("fill" in trace or "error_y" in trace for trace in data)
    ticks = {"tickvals": list(range(len(found.words))), "ticktext": [*map(label, found.words)]}
    layout = {
        "xaxis": {"title": {"text": label(found.key)}, **(ticks if found.words else {})},
        "yaxis": {"title": {"text": f"mean JCT [{sweep.unit.name}]"}, "rangemode": "tozero"},
        "showlegend": True,
    }
    drawn = "Lines" if found.words else "Bands"
    note = "Lower is better." + f" {drawn}: {percent(confidence)} intervals." * spread
    return Figure(f"Mean JCT over {found.key}", data, layout, note)


def _points(
    points: Sequence[LinePoint], unit: str, *, words: Sequence[str], aside: float
) -> list[dict[str, Any]]:
    """Points over words, and their intervals where there are some."""
    x, centre, low, high = np.array(points).T
    trace = {
        "type": "scatter", "mode": "markers", "x": numbers(x + aside), "y": numbers(centre),
        "marker": {"size": 9},
        "customdata": [label(words[int(at)]) for at in x],
        "hovertemplate": f"%{{customdata}}: %{{y:.4g}} {unit}",
    }  # fmt: skip
    if np.isfinite(low).any() and np.any(low < high):
        trace["error_y"] = {
            "type": "data", "symmetric": False, "array": numbers(np.nan_to_num(high - centre)),
            "arrayminus": numbers(np.nan_to_num(centre - low)),
        }  # fmt: skip
    return [trace]


def _line(points: Sequence[LinePoint], unit: str) -> list[dict[str, Any]]:
    """The line, and behind it its interval where there is one."""
    x, centre, low, high = map(numbers, zip(*points, strict=True))
    line = {
        "type": "scatter", "mode": "lines+markers", "x": x, "y": centre, "line": {"width": 2},
        "marker": {"size": 6}, "hovertemplate": f"%{{y:.4g}} {unit}",
    }  # fmt: skip
    if None in low or None in high or low == high:
        return [line]
    band = {
        "type": "scatter", "mode": "lines", "x": [*x, *reversed(x)], "y": [*high, *reversed(low)],
        "fill": "toself", "opacity": BAND, "line": {"width": 0}, "hoverinfo": "skip",
        "showlegend": False,
    }  # fmt: skip
    return [band, line]
