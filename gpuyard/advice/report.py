"""The files of an answer, and what a terminal shows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuyard.advice.aims import AIMS
from gpuyard.advice.answer import Advice
from gpuyard.advice.playing import ELSEWHERE
from gpuyard.advice.sentences import scale_of
from sim.report.atomic import write_atomically
from sim.report.figure_style import COLOURS, GREY, heading, new_figure, save_png, tidy
from sim.report.table_text import TableText, rich_tables, write_markdown

if TYPE_CHECKING:
    from rich.console import Group

CSV, MARKDOWN, FIGURE = "advice.csv", "advice.md", "advice.png"
FILES = (CSV, MARKDOWN, FIGURE)
DURATIONS = {  # information -> what is known of durations, in a cell
    "none": "nothing", "limit": "time limits", "predicted": "history", "oracle": "all (a bound)",
}  # fmt: skip
HEADERS = {  # narrow
    "jct_mean_s": "mean JCT", "jct_p95_s": "p95 JCT", "large_gang_wait_s": "wait, large",
    "user_fairness": "fairness", "gpu_util_frac": "GPU use", "lost_gpu_h": "lost",
}  # fmt: skip
FAR = 8.0  # times the least: beyond, a logarithmic axis with dots tells more than bars
BOUND = " °"


def write_advice(folder: Path, advice: Advice) -> None:
    """Write advice.csv, advice.md and advice.png."""
    write_atomically(folder / CSV, advice.frame.to_csv(index=False).encode())
    parts = ["# Advice", *advice.said, *map("Left out: {}.".format, advice.left_out)]
    assumed = [f"Assumed: {'; '.join(advice.notes)}."] if advice.notes else []
    write_markdown(folder / MARKDOWN, table_of(advice), first="\n\n".join([*parts, *assumed, ""]))
    bars(advice, folder / FIGURE)


def printed(advice: Advice) -> Group:
    """The table for a terminal."""
    return rich_tables(table_of(advice))


def table_of(advice: Advice) -> TableText:
    """The cells of the table, a row a scheduler."""
    frame, aim = advice.frame, advice.aim
    others = [key for key in AIMS if key != aim and frame[key].notna().any()]
    scales = {key: scale_of(frame[key].dropna().tolist(), key) for key in (aim, *others)}
    headers = [
        "scheduler", "durations", "models", f"{HEADERS[aim]}{_unit(scales[aim][1])}", "to the best",
        "stops a job", *(f"{HEADERS[key]}{_unit(scales[key][1])}" for key in others),
    ]  # fmt: skip
    rows = []
    for row in frame.to_dict("records"):
        ends = (row[f"{aim}_low"], row[f"{aim}_high"])
        cells = [
            row["scheduler"] + (BOUND if row["bound"] else ""),
            DURATIONS.get(row["information"], "-"),
            "yes" if row["needs"] else "-" if row["information"] == "-" else "no",
            _with_ends(row[aim], ends, scales[aim]),
            _with_ends(row["ratio_to_best"], (row["ratio_low"], row["ratio_high"]), (1, "", ".2f")),
            f"{row['stops_per_job']:.2f}" if row["preempts"] else _none_or_unknown(row),
            *(_number(row[key], scales[key]) for key in others),
        ]
        rows.append(tuple(cells))
    jobs = int(frame["jobs"].max())
    title = f"{jobs:,} jobs, ranked by {AIMS[aim].words}"
    return TableText(tuple(headers), ((title, tuple(rows)),), _note(advice))


def _unit(unit: str) -> str:
    return f" [{unit.strip()}]" if unit.strip() else ""


def _none_or_unknown(row: dict[Any, Any]) -> str:
    return "-" if np.isnan(row["stops_per_job"]) else "never"


def _number(value: float, scale: tuple[float, str, str]) -> str:
    return "-" if np.isnan(value) else f"{value * scale[0]:{scale[2]}}"


def _with_ends(value: float, ends: Sequence[float], scale: tuple[float, str, str]) -> str:
    if np.isnan(value) or np.isnan(ends).any():
        return _number(value, scale)
    low, high = (_number(end, scale) for end in ends)
    return f"{_number(value, scale)} [{low}, {high}]"


def _note(advice: Advice) -> str:
    parts = [
        f"In brackets: {advice.confidence:.0%} intervals of a bootstrap over stretches of the "
        "submissions, the same for every row. To the best: the ratio to the first row that a "
        "cluster can run. Fairness: Jain's index of users' mean slowdowns, 1 is equal.",
    ]
    if advice.frame["bound"].any():
        parts.append(f"{BOUND.strip()} knows all durations: a bound, nobody can run it.")
    if (advice.frame["scheduler"] == ELSEWHERE).any():
        parts.append(
            "What happened was in a larger cluster: more GPUs ran at once than there are here."
        )
    gone = advice.frame["jobs_withdrawn"]
    if gone.any():
        parts.append(
            f"Jobs whose users gave up before they began ({int(gone.min()):,} to "
            f"{int(gone.max()):,}) are in no mean."
        )
    return " ".join(parts)


def bars(advice: Advice, path: Path) -> None:
    """A bar a scheduler, best on top: without preemption, with it, bounds and what happened."""
    from matplotlib.patches import Patch

    frame = advice.frame[advice.frame[advice.aim].notna()]
    values = frame[advice.aim].tolist()
    factor, unit, form = scale_of(values, advice.aim)
    figure = new_figure(8.0, 1.6 + 0.3 * len(frame))
    axes = figure.subplots()
    shown = [value * factor for value in values]
    least = min(shown)
    far = least > 0 and max(shown) > FAR * least
    kinds = [_kind(row) for row in frame.to_dict("records")]
    for place, (value, kind) in enumerate(zip(shown, kinds, strict=True)):
        if far:
            axes.plot(value, place, "o", color=KINDS[kind], markersize=8)
        else:
            axes.barh(place, value, color=KINDS[kind], height=0.68)
    ends = frame[[f"{advice.aim}_low", f"{advice.aim}_high"]].to_numpy(float) * factor
    for place, (low, high) in enumerate(ends):
        if not np.isnan([low, high]).any():
            axes.hlines(place, low, high, color="#222222", linewidth=1.4)
        right = np.nanmax([high, shown[place]])
        axes.annotate(f"   {shown[place]:{form}}", (right, place), va="center", fontsize=9)
    axes.set_xscale("log" if far else "linear")
    axes.margins(x=0.15)
    axes.set_yticks(range(len(frame)), frame["scheduler"].tolist())
    axes.invert_yaxis()
    axes.set_xlabel(f"{AIMS[advice.aim].words}{_unit(unit)}, {advice.confidence:.0%} interval")
    heading(axes, f"ranked by {AIMS[advice.aim].words}")
    tidy(axes, grid="x")
    handles = [Patch(color=KINDS[kind], label=kind) for kind in KINDS if kind in kinds]
    figure.legend(handles=handles, loc="outside lower center", ncols=4, fontsize=9, frameon=False)
    save_png(figure, path)


KINDS = {
    "never preempts": COLOURS[0],
    "preempts": COLOURS[1],
    "knows all durations": GREY,
    "what happened": COLOURS[6],
}


def _kind(row: dict[Any, Any]) -> str:
    if row["information"] == "-":
        return "what happened"
    if row["bound"]:
        return "knows all durations"
    return "preempts" if row["preempts"] else "never preempts"
