"""Tables and figures of searches for plans of DAGs."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Group

from gpuyard.evaluation.again import write_views
from gpuyard.pages.comparison_page import VIEWS
from gpuyard.pages.page import Figure, label, numbers
from gpuyard.reproduction.node import PAGE_FILE
from gpuyard.reproduction.runs import rank_rows, write_frame
from sim.arrays import FloatArray
from sim.files import known_cells, write_atomically
from sim.report.figure_studies import rank_figure
from sim.report.figures import GREY, heading, line_look, new_figure, save_png, tidy
from sim.report.job_times import mean_interval
from sim.report.significance import Ranking, ranking
from sim.report.table_text import TableText, markdown, markdown_table, rich_tables

PLANS, RATIO, PROGRESS = (
    "plans judged",
    "best makespan over HEFT's, mean",
    "Searches at equal budget",
)
Progress = Mapping[str, tuple[FloatArray, FloatArray]]  # method -> plans judged (n,), ratio (n,)


def progress_of(rows: Sequence[Mapping[str, Any]], methods: Sequence[str]) -> Progress:
    """The best makespan over HEFT's, mean over problems, while a search judges plans."""
    found = {}
    for method in methods:
        mine = [row for row in rows if row["method"] == method]
        judged = max((row["judged"] for row in mine), default=0)
        if judged > 1:
            curve = np.mean([np.array(row["history_s"]) / row["heft_s"] for row in mine], axis=0)
            found[method] = np.linspace(1 / len(curve), 1, len(curve)) * judged, curve
    return found


def progress_figure(progress: Progress) -> Figure:
    """The same for a page."""
    data = [{
        "type": "scatter", "mode": "lines", "name": label(method),
        "meta": method, "x": numbers(plans), "y": numbers(ratio), "line": {"width": 2},
        "hovertemplate": "%{y:.3f} after %{x:.0f} plans",
    } for method, (plans, ratio) in progress.items()]  # fmt: skip
    layout = {
        "xaxis": {"title": {"text": PLANS}, "rangemode": "tozero"},
        "yaxis": {"title": {"text": f"{RATIO} (log scale)"}, "type": "log"},
        "showlegend": True,
    }
    return Figure(PROGRESS, data, layout, "Lower is better; 1 is HEFT's plan.")


def draw_progress(progress: Progress, *, ours: str, path: Path) -> None:
    """The same as PNG."""
    figure = new_figure(8.0, 4.5)
    axes = figure.subplots()
    for place, (method, (plans, ratio)) in enumerate(progress.items()):
        look = line_look(place) | ({"linewidth": 3.0} if method == ours else {})
        axes.plot(plans, ratio, label=method, **look)
    axes.axhline(1.0, color=GREY, linewidth=1)
    axes.set_yscale("log")
    for axis_part in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
        axis_part(lambda value, _: f"{value:.3g}")
    axes.set_xlabel(PLANS)
    axes.set_ylabel(RATIO)
    heading(axes, PROGRESS)
    tidy(axes, grid="both")
    axes.legend(fontsize=8, frameon=False, loc="upper right")
    save_png(figure, path)


RESULT_FILES = (
    "comparison.csv", "standings.csv", "reductions.csv", "ranks.csv", "report.md", "ranks.png",
    "progress.png", PAGE_FILE, VIEWS,
)  # fmt: skip
PUBLISHED = (
    "Published, mean share of the makespan saved: 8 to 16 % against the best learned rival "
    "(Alibaba), 2 to 8 % on synthetic DAGs; against the weakest 46 to 56 %, at most 66.56 %."
)
ALL = "all"

Row = Mapping[str, Any]
Table = list[dict[str, Any]]


def write_dag_report(
    folder: Path,
    settings: Mapping[str, Any],
    rows: Sequence[Row],
    *,
    confidence: float,
    level: float,
) -> Group:
    """Write every file that there is something for; return the tables to be printed."""
    ours, methods, title = settings["ours"], list(settings["methods"]), settings["title"]
    columns = [key for key in rows[0] if key != "history_s"]
    write_frame(folder / "comparison.csv", rows, columns)
    standing = standings(rows, methods)
    saved = reductions(rows, ours=ours, confidence=confidence)
    write_frame(folder / "standings.csv", standing)
    if saved:
        write_frame(folder / "reductions.csv", saved)
    found = _ranked(rows, methods, level)
    if found is not None:
        write_frame(folder / "ranks.csv", rank_rows(found))
        rank_figure(found, path=folder / "ranks.png", over="DAGs", ours=ours)
    progress = progress_of(rows, methods)
    if progress:
        draw_progress(progress, ours=ours, path=folder / "progress.png")
        write_views(folder, [progress_figure(progress)])
    notes = _notes(saved, found, settings)
    whole = [row for row in saved if row["family"] == ALL]
    text = [f"# {title}", "", *(f"{note}\n" for note in notes)]
    text += [markdown(_text("Makespan over HEFT's", standing))]
    shown = [rich_tables(_text(f"{title}: makespan over HEFT's", standing))]
    if saved:
        text += [markdown(_text(f"Saved by {ours}, share of the rival's makespan", saved))]
        shown += [rich_tables(_text("share of a rival's makespan saved", whole, " ".join(notes)))]
    write_atomically(folder / "report.md", "\n".join(text).encode())
    write_atomically(folder / PAGE_FILE, page_tables(standing[-2], whole, settings).encode())
    return Group(*shown)


def standings(rows: Sequence[Row], methods: Sequence[str]) -> Table:
    """For each family: mean makespan over HEFT's by method, and CPU seconds of a search."""
    table = []
    for family in _families(rows):
        mine = [row for row in rows if family in (ALL, row["family"])]
        entry: dict[str, Any] = {"family": family, "problems": len({r["problem"] for r in mine})}
        for method in methods:
            ratios = [r["makespan_s"] / r["heft_s"] for r in mine if r["method"] == method]
            entry[method] = round(float(np.mean(ratios)), 4)
        table.append(entry)
    cpu: dict[str, Any] = {"family": "CPU s a search", "problems": table[-1]["problems"]}
    for method in methods:
        spent = [row["cpu_s"] for row in rows if row["method"] == method]
        cpu[method] = round(float(np.mean(spent)), 3)
    return [*table, cpu]


def reductions(rows: Sequence[Row], *, ours: str, confidence: float) -> Table:
    """Family and rival -> mean, interval over DAGs, worst and best of 1 - ours / theirs.

    A DAG's problems, which differ in the network alone, are one value: they are not independent.
    """
    by = {(row["problem"], row["method"]): row for row in rows}
    rivals = [method for method in dict.fromkeys(r["method"] for r in rows) if method != ours]
    table = []
    for family in _families(rows):
        problems = [r["problem"] for r in rows if r["method"] == ours]
        problems = [p for p in problems if family in (ALL, by[p, ours]["family"])]
        for rival in rivals:
            pairs = [(by[p, ours]["makespan_s"], by[p, rival]["makespan_s"]) for p in problems]
            saved = np.array([1.0 - mine / theirs for mine, theirs in pairs])
            by_dag = _by_dag(saved[:, None], [by[p, ours] for p in problems])
            interval = mean_interval(by_dag[:, 0], confidence)
            table.append({
                "family": family, "rival": rival, "problems": len(pairs), "dags": len(by_dag),
                "mean": _share(interval.centre), "low": _share(interval.low),
                "high": _share(interval.high), "worst": _share(saved.min()),
                "best": _share(saved.max()),
                "mean_s_ours": round(float(np.mean([mine for mine, _ in pairs])), 4),
                "mean_s_rival": round(float(np.mean([theirs for _, theirs in pairs])), 4),
            })  # fmt: skip
    return table


def _share(value: float) -> float:
    """Rounded, and never -0."""
    return round(float(value), 4) + 0.0


def page_tables(standing: Row, saved: Table, settings: Mapping[str, Any]) -> str:
    """The tables of a page of results, over all problems: of HEFT and the best (learned) rivals."""
    ours, methods = settings["ours"], list(settings["methods"])
    ratios = [f"{standing[name]:.3g}" for name in methods]
    lines = markdown_table(["makespan over HEFT's", *(f"`{name}`" for name in methods)],
                           [["mean", *ratios]])  # fmt: skip
    entries = {row["rival"]: row for row in sorted(saved, key=lambda row: float(row["mean"]))}
    learned = next((name for name in entries if name in settings["learned"]), "heft")
    rows = [
        [f"`{name}`", _row_text(entries[name]).removeprefix("mean ")]
        for name in dict.fromkeys((learned, "heft", *[*entries][:1]))
        if name in entries
    ]
    if rows:
        lines += ["", *markdown_table([f"saved by `{ours}`", "of the makespan"], rows)]
    return "\n".join([*lines, ""])


def _families(rows: Sequence[Row]) -> list[str]:
    return [*dict.fromkeys(row["family"] for row in rows), ALL]


def _ranked(rows: Sequence[Row], methods: Sequence[str], level: float) -> Ranking | None:
    """Ranks over DAGs, by makespan over HEFT's; None where there are too few for a test."""
    by = {(row["problem"], row["method"]): row for row in rows}
    alone = [row for row in rows if row["method"] == methods[0]]
    ratios = [[by[row["problem"], m]["makespan_s"] / row["heft_s"] for m in methods]
              for row in alone]  # fmt: skip
    return ranking(methods, _by_dag(np.array(ratios), alone), level=level)


def _by_dag(values: FloatArray, problems: Sequence[Row]) -> FloatArray:
    """(D, k) means over the problems of each DAG, of (N, k) by problem."""
    dags = [row["dag"] for row in problems]
    return np.array([values[[each == dag for each in dags]].mean(0) for dag in dict.fromkeys(dags)])


def _notes(saved: Table, found: Ranking | None, settings: Mapping[str, Any]) -> list[str]:
    """The claim beside what was measured, and the ranks."""
    overall = {entry["rival"]: entry for entry in saved if entry["family"] == ALL}
    learned = [overall[name] for name in settings["learned"] if name in overall]
    notes = [PUBLISHED]
    if learned:
        best = min(learned, key=lambda entry: entry["mean"])
        notes.append(f"Here, against the best learned rival ({best['rival']}): {_row_text(best)}.")
    if overall:
        weakest = max(overall.values(), key=lambda entry: entry["mean"])
        notes.append(f"Here, against the weakest rival ({weakest['rival']}): {_row_text(weakest)}.")
    if found is not None:
        ranks = ", ".join(f"{name} {rank:.2f}" for name, rank in found.rank_of.items())
        notes.append(
            f"Mean ranks over {found.blocks} DAGs: {ranks}. Friedman p = {found.friedman_p:.2g}; "
            f"Nemenyi's critical difference at {found.level:g} is {found.critical_difference:.2f}."
        )
    return notes


def _row_text(entry: Mapping[str, Any]) -> str:
    """Without an interval where there is one problem."""
    low, high = 100 * entry["low"], 100 * entry["high"]
    interval = "" if math.isnan(low) else f" [{low:z.1f}, {high:z.1f}]"
    return (
        f"mean {100 * entry['mean']:z.1f} %{interval}, worst "
        f"{100 * entry['worst']:z.1f} %, best {100 * entry['best']:z.1f} %"
    )


def _text(title: str, table: Table, note: str = "") -> TableText:
    rows = tuple(tuple(map(str, known_cells(row.values()))) for row in table)
    return TableText(tuple(table[0]), ((title, rows),), note)
