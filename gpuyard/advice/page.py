"""`report.html` of an answer: the sentences, the table, the aim of every row with its interval."""

from pathlib import Path
from typing import Any

from gpuyard.advice.aims import AIMS
from gpuyard.advice.answer import Advice
from gpuyard.advice.report import table_of
from gpuyard.advice.sentences import scale_of
from gpuyard.pages.page import Cell, Figure, Page, Table, facts_of, label, write_page
from sim.report.run_folder import Record

ROW_PX, FRAME_PX = 24, 90
BOUND_COLOUR, ROW_COLOUR = "#9aa5b1", "#2f7ebc"
LINE_COLOUR = "#c46210"  # stands out from both, on a white and on a dark ground


def write_advice_page(folder: Path, advice: Advice, record: Record) -> Path:
    """Write the page beside the files of an answer, all of which are there."""
    best = advice.frame.iloc[0]["scheduler"]
    page = Page(
        title="Which scheduler suits this cluster",
        subtitle=f"ranked by {AIMS[advice.aim].words}; {best} is first",
        facts=facts_of(record),
        assumed=(*advice.notes, *(f"left out: {words}" for words in advice.left_out)),
        sections=(_answer(advice), _bars(advice), _table(advice)),
    )
    return write_page(folder, page)


def _answer(advice: Advice) -> Table:
    rows = tuple((Cell(sentence),) for sentence in advice.said)
    return Table("The answer", ("in words",), rows)


def _table(advice: Advice) -> Table:
    text = table_of(advice)
    ((title, rows),) = text.settings
    cells = tuple(tuple(_cell(cell) for cell in row) for row in rows)
    return Table(title, text.headers, cells, note=text.note)


def _cell(text: str) -> Cell:
    """The cell, sorted by the number that it begins with."""
    try:
        return Cell(text, float(text.partition(" ")[0].replace(",", "")))
    except ValueError:
        return Cell(text)


def _bars(advice: Advice) -> Figure:
    """The aim of every row, the best at the top; bounds, which nobody can run, in grey."""
    frame, aim = advice.frame, advice.aim
    factor, unit, _ = scale_of(frame[aim].dropna().tolist(), aim)
    shown = frame[frame[aim].notna()]
    values = shown[aim] * factor
    data: list[dict[str, Any]] = [
        {
            "type": "bar",
            "orientation": "h",
            "y": list(range(len(shown))),
            "customdata": [label(name) for name in shown["scheduler"]],
            "hovertemplate": "%{customdata}: %{x:.4g}<extra></extra>",
            "x": values.tolist(),
            "error_x": {
                "type": "data",
                "symmetric": False,
                "array": (shown[f"{aim}_high"] * factor - values).fillna(0.0).tolist(),
                "arrayminus": (values - shown[f"{aim}_low"] * factor).fillna(0.0).tolist(),
                "color": LINE_COLOUR,
            },
            "marker": {"color": [BOUND_COLOUR if each else ROW_COLOUR for each in shown["bound"]]},
        }
    ]
    layout = {
        "xaxis": {"title": {"text": f"{AIMS[aim].words}{unit and f' [{unit.strip()}]'}"}},
        "yaxis": {  # a narrow page cuts the names
            "tickvals": list(range(len(shown))),
            "ticktext": [label(name) for name in shown["scheduler"]],
            "range": [len(shown) - 0.4, -0.6],
        },
        "showlegend": False,
    }
    note = f"Lines: {advice.confidence:.0%} intervals. Grey: knows all durations, a bound."
    height = FRAME_PX + ROW_PX * len(shown)
    return Figure("Ranked", data, layout, note=note, height_px=height, wide=True)
