"""The answer: as values, as files and a page, and as a terminal shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuyard.advice.aims import AIMS
from gpuyard.advice.playing import ELSEWHERE, Played
from gpuyard.advice.sentences import (
    interval_of,
    ranked,
    ratio_of,
    runnable,
    scale_of,
    sentences,
    settings,
)
from gpuyard.evaluation.again import Again, Seen, drawn
from gpuyard.launch.errors import ConfigError
from gpuyard.pages.page import Cell, Figure, Page, Table, facts_of, label, write_page
from gpuyard.pages.sections import text_cell
from sim.errors import amount
from sim.files import write_atomically
from sim.report.figures import COLOURS, GREY, heading, new_figure, save_png, tidy
from sim.report.job_times import percent
from sim.report.run_folder import Record
from sim.report.table_text import TableText, rich_tables, write_markdown

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Group


MISSING = {  # aim -> why nobody has it
    "user_fairness": "no job names its user; map the column (workload.columns.user of a CSV)",
    "large_gang_wait_s": "no job is that large; set large_gang to fewer GPUs",
    "gpu_util_frac": "all jobs come at one time, so that there is no span to measure",
}


@dataclass(frozen=True)
class Advice:
    """What to take, for whoever runs the cluster."""

    frame: pd.DataFrame  # a row a scheduler, best first; docs/advise.md has its columns
    sentences: tuple[str, str, str]
    aim: str  # column of `frame` by which it is ranked
    confidence: float  # of the intervals
    left_out: tuple[str, ...]  # schedulers and jobs, with the reason and the key
    notes: tuple[str, ...]  # what the runs took for granted
    settings: str = ""  # a sentence: the words that play what the others say to take
    learned: Path | None = None  # weights of a policy for this cluster
    about_learned: str = ""  # a sentence on it: how it was learned, how it stands, why it is behind
    plays_learned: tuple[str, ...] = ()  # the commands that play it
    shown: tuple[Again, ...] = ()  # the best rows that can be run, for pictures of their runs

    @property
    def said(self) -> tuple[str, ...]:
        """The sentences, with those on how to play it and on what was learned."""
        return (*self.sentences, *filter(None, (self.settings, self.about_learned)))

    def __str__(self) -> str:
        """The sentences."""
        return "\n".join(self.said)

    def _repr_html_(self) -> str:
        """For notebooks: the sentences above the frame."""
        words = "".join(f"<p>{sentence}</p>" for sentence in self.said)
        table: str = self.frame.to_html(float_format="{:.4g}".format, na_rep="-")
        return words + table


def advice_of(
    rows: Sequence[Played],
    *,
    aim: str,
    confidence: float,
    left_out: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> Advice:
    """Rank the rows; ConfigError: no row has a value of the aim."""
    import pandas as pd

    done = [row for row in rows if not row.failed]
    failed = [f"{row.name}: {row.failed}" for row in rows if row.failed]
    if all(np.isnan(row.draws[aim][0]) for row in done):
        why = MISSING.get(aim, "; ".join(failed) or "no scheduler was played")
        raise ConfigError(f"aim is {aim}, of which no scheduler has a value: {why}")
    order = ranked(done, aim)
    best = next((row for row in order if runnable(row)), order[0])
    frame = pd.DataFrame([_cells(row, best, aim, confidence) for row in order])
    frame.insert(0, "rank", np.arange(1, len(order) + 1))
    return Advice(
        frame=frame,
        sentences=sentences(done, aim, confidence),
        settings=settings(done, aim),
        aim=aim,
        confidence=confidence,
        left_out=(*left_out, *failed),
        notes=tuple(notes),
    )


def _cells(row: Played, best: Played, aim: str, confidence: float) -> dict[str, Any]:
    """One row of the frame."""
    ratio = ratio_of(row.draws[aim], best.draws[aim])
    low, high = interval_of(ratio, confidence)
    cells: dict[str, Any] = {
        "scheduler": row.name,
        "composition": row.scheduler,
        "words": row.words,
        "information": row.information,
        "bound": row.information == "oracle",
        "needs": " ".join(row.needs),
        "preempts": row.preempts,
        "stops_per_job": row.stops_per_job,
        "ratio_to_best": float(ratio[0]),
        "ratio_low": low,
        "ratio_high": high,
    }
    for key in AIMS:
        ends = interval_of(row.draws[key], confidence)
        cells |= {key: float(row.draws[key][0]), f"{key}_low": ends[0], f"{key}_high": ends[1]}
    counts = {"jobs": row.jobs, "jobs_withdrawn": row.withdrawn, "users_unserved": row.unserved}
    return {**cells, **counts, "wall_s": row.seconds}


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
            f"{row['stops_per_job']:.2f}"
            if row["preempts"]
            else "-"
            if np.isnan(row["stops_per_job"])
            else "never",
            *(_number(row[key], scales[key]) for key in others),
        ]
        rows.append(tuple(cells))
    jobs = int(frame["jobs"].max())
    title = f"{amount(jobs, 'job')}, ranked by {AIMS[aim].words}"
    return TableText(tuple(headers), ((title, tuple(rows)),), _note(advice))


def _unit(unit: str) -> str:
    return f" [{unit.strip()}]" if unit.strip() else ""


def _number(value: float, scale: tuple[float, str, str]) -> str:
    return "-" if np.isnan(value) else f"{value * scale[0]:{scale[2]}}"


def _with_ends(value: float, ends: Sequence[float], scale: tuple[float, str, str]) -> str:
    if np.isnan(value) or np.isnan(ends).any():
        return _number(value, scale)
    low, high = (_number(end, scale) for end in ends)
    return f"{_number(value, scale)} [{low}, {high}]"


def _note(advice: Advice) -> str:
    parts = [
        f"In brackets: {percent(advice.confidence)} intervals of a bootstrap over stretches of the "
        "submissions, the same for every row. To the best: the ratio to the first row that a "
        "cluster can run; it is chosen on these very jobs, which flatters it. Fairness: Jain's "
        "index of users' mean slowdowns, 1 is equal."
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
            f"Jobs withdrawn before they were done ({int(gone.min()):,} to {int(gone.max()):,}), "
            f"by users or as a parent did not complete, are in no mean."
        )
    unserved = advice.frame[advice.frame["users_unserved"] > 0]
    if len(unserved):
        counts = zip(unserved["scheduler"], unserved["users_unserved"], strict=True)
        users = ", ".join(f"{name} {count}" for name, count in counts)
        parts.append(f"Users of whom no job finished are not in fairness either: {users}.")
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
    axes.set_xlabel(f"{AIMS[advice.aim].words}{_unit(unit)}, {percent(advice.confidence)} interval")
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


ROW_PX, FRAME_PX = 24, 90
BOUND_COLOUR, ROW_COLOUR = "#9aa5b1", "#2f7ebc"
LINE_COLOUR = "#c46210"  # stands out from both, on a white and on a dark ground


def write_advice_page(
    folder: Path, advice: Advice, record: Record, seen: Sequence[Seen] = ()
) -> Path:
    """Write the page beside the files of an answer, all of which are there.

    `seen` are runs of some rows, which are shown whole.
    """
    said = [sentence.replace("`", "") for sentence in advice.said]
    answer = Table("The answer", ("in words",), tuple((Cell(each),) for each in said))
    page = Page(
        title="Which scheduler suits this cluster",
        subtitle=said[0],
        facts=facts_of(record),
        assumed=(*advice.notes, *(f"left out: {words}" for words in advice.left_out)),
        sections=(answer, _bars(advice), _table(advice), *drawn(seen)),
    )
    return write_page(folder, page)


def _table(advice: Advice) -> Table:
    text = table_of(advice)
    ((title, rows),) = text.settings
    cells = tuple(tuple(map(text_cell, row)) for row in rows)
    return Table(title, text.headers, cells, note=text.note)


def _bars(advice: Advice) -> Figure:
    """The aim of every row, the best at the top; bounds, which nobody can run, in grey."""
    frame, aim = advice.frame, advice.aim
    factor, unit, _ = scale_of(frame[aim].dropna().tolist(), aim)
    shown = frame[frame[aim].notna()]
    values = shown[aim] * factor
    data: list[dict[str, Any]] = [{
        "type": "bar", "orientation": "h", "y": list(range(len(shown))), "x": values.tolist(),
        "customdata": [label(name) for name in shown["scheduler"]],
        "hovertemplate": "%{customdata}: %{x:.4g}<extra></extra>",
        "error_x": {
            "type": "data", "symmetric": False, "color": LINE_COLOUR,
            "array": (shown[f"{aim}_high"] * factor - values).fillna(0.0).tolist(),
            "arrayminus": (values - shown[f"{aim}_low"] * factor).fillna(0.0).tolist(),
        },
        "marker": {"color": [BOUND_COLOUR if each else ROW_COLOUR for each in shown["bound"]]},
    }]  # fmt: skip
    layout = {
        "xaxis": {"title": {"text": f"{AIMS[aim].words}{unit and f' [{unit.strip()}]'}"}},
        "yaxis": {  # a narrow page cuts the names
            "tickvals": list(range(len(shown))),
            "ticktext": [label(name) for name in shown["scheduler"]],
            "range": [len(shown) - 0.4, -0.6],
        },
        "showlegend": False,
    }
    note = f"Lines: {percent(advice.confidence)} intervals. Grey: knows all durations, a bound."
    height = FRAME_PX + ROW_PX * len(shown)
    return Figure("Ranked", data, layout, note=note, height_px=height, wide=True)
