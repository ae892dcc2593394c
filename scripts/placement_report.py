"""Table, csv and figure of predicted against measured placements."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.table import Table

from sim.physics.placement_check import Prediction
from sim.physics.placement_fit import step_errors
from sim.physics.sharing_check import LawErrors
from sim.report.atomic import write_atomically
from sim.report.figure_style import COLOURS, GREY, new_figure, save_png, tidy

Row = dict[str, str | int | float]
SHOWN = ("none", "links")  # models in the figure


def error_rows(found: Sequence[Prediction], *, by_app: bool) -> list[Row]:
    """Errors by source, GPU type, split and model, and by application where asked."""
    groups: dict[tuple[str, ...], list[Prediction]] = {}
    for each in found:
        app = each.step.app if by_app else "all"
        key = (each.step.source, each.step.gpu_type, app, each.split, each.model)
        groups.setdefault(key, []).append(each)
    return [_row(key, groups[key]) for key in groups]


def _row(key: tuple[str, ...], group: Sequence[Prediction]) -> Row:
    errors = step_errors(
        measured_s=np.array([each.step.step_s for each in group]),
        predicted_s=np.array([each.predicted_s for each in group]),
        alone_s=np.array([each.alone_s for each in group]),
    )
    named: Row = dict(zip(("source", "gpu_type", "app", "split", "model"), key, strict=True))
    fitted_mib = float(np.median([each.num_bytes for each in group])) / 2**20
    return named | {
        "rows": errors.rows,
        "mape_frac": round(errors.mape_frac, 4),
        "bias_frac": round(errors.bias_frac, 4),
        "r2_log": round(errors.r2_log, 4),
        "r2_slowdown": round(errors.r2_slowdown, 4),
        "fitted_mib": round(fitted_mib, 1) if key[2] != "all" else "",
    }


def law_rows(laws: Sequence[LawErrors]) -> list[Row]:
    """Errors of the laws of sharing."""
    return [
        {"law": each.law, "rows": each.rows, "mape_frac": round(each.mape_frac, 4),
         "r2": round(each.r2, 4)}
        for each in laws
    ]  # fmt: skip


def error_table(rows: Sequence[Row]) -> Table:
    """Errors of step times on the terminal."""
    kept = [{k: row[k] for k in row if k not in {"app", "fitted_mib"}} for row in rows]
    return plain_table(kept, "step time on held-out placements")


def plain_table(rows: Sequence[Row], title: str) -> Table:
    """All columns of the rows on the terminal."""
    table = Table(*rows[0], title=title, title_justify="left")
    for row in rows:
        table.add_row(*(str(value) for value in row.values()))
    return table


def write_errors(path: Path, rows: Sequence[Row]) -> None:
    """The rows as csv."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_atomically(path, text.getvalue().encode())


def write_figure(path: Path, found: Sequence[Prediction]) -> None:
    """Predicted against measured slow-down over the smallest placement, one panel a GPU type."""
    shown = [each for each in found if each.split == "folds" and np.isfinite(each.alone_s)]
    panels = list(dict.fromkeys((each.step.source, each.step.gpu_type) for each in shown))
    columns = 3
    figure = new_figure(10.0, 3.2 * -(-len(panels) // columns))
    for place, panel in enumerate(panels):
        axes = figure.add_subplot(-(-len(panels) // columns), columns, place + 1)
        mine = [each for each in shown if (each.step.source, each.step.gpu_type) == panel]
        for model, colour in zip(SHOWN, COLOURS[1::-1], strict=True):
            rows = [each for each in mine if each.model == model]
            measured = [each.step.step_s / each.alone_s for each in rows]
            axes.plot(measured, [each.predicted_s / each.alone_s for each in rows], ".",
                      color=colour, markersize=2.5, label=model, rasterized=True)  # fmt: skip
        low, high = axes.get_xlim()
        axes.plot([low, high], [low, high], color=GREY, linewidth=0.8)
        axes.set_title(f"{panel[0]}: {panel[1]}", loc="left", fontsize=9)
        axes.set_xlabel("measured slow-down")
        axes.set_ylabel("predicted")
        axes.legend(frameon=False, fontsize=7, markerscale=4)
        tidy(axes, grid="both")
    save_png(figure, path)
