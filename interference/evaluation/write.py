"""The files of a report, each there whole or not at all."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import norm

from interference.evaluation.error_table import (
    by_victim_model,
    csv_blocks,
    csv_of,
    json_blocks,
    markdown_blocks,
    worst_rows,
)
from interference.evaluation.judge import HeldOut, Judged
from interference.evaluation.score_file import HELD_OUT_PAIRS, Results
from interference.fit import LEARNED
from interference.rows import SoloProfiles
from sim.arrays import FloatArray
from sim.files import forget, write_atomically
from sim.report.figures import COLOURS, GREY, heading, line_look, new_figure, save_png, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


LEAST_PAIRS = 4  # fewer make no map


@dataclass(frozen=True)
class PairGrid:
    """P profiles, those of one model side by side; NaN where no pair was judged."""

    profiles: tuple[str, ...]  # (P,)
    models: tuple[str, ...]  # (P,)
    measured: FloatArray  # (P, P) normalised speed [victim, aggressor]
    predicted: FloatArray  # (P, P)


def grids(held: HeldOut, solos: SoloProfiles) -> dict[str, PairGrid]:
    """GPU type -> grid of its pairs; rows with no or several aggressors are left out.

    Where a pair was judged more than once its cell has the means.
    """
    single = np.array([len(others) == 1 for others in held.rows.aggressors], dtype=np.bool_)
    found = held.take(single).by_type()
    return {kind: _grid(part, solos) for kind, part in found.items()
            if len(part.rows) >= LEAST_PAIRS}  # fmt: skip


def _grid(held: HeldOut, solos: SoloProfiles) -> PairGrid:
    rows = held.rows
    model = dict(zip(solos.keys(), solos.model, strict=True))
    source, kind = rows.source[0], rows.gpu_type[0]
    names = set(rows.victim) | {name for (name,) in rows.aggressors}
    order = sorted(names, key=lambda name: (model[source, kind, name], _natural(name)))
    at = {name: place for place, name in enumerate(order)}
    cell = (
        np.array([at[name] for name in rows.victim]),
        np.array([at[name] for (name,) in rows.aggressors]),
    )
    return PairGrid(
        tuple(order),
        tuple(model[source, kind, name] for name in order),
        _means(cell, rows.norm_speed, len(order)),
        _means(cell, held.told.norm_speed, len(order)),
    )


def _means(cell: tuple[np.ndarray, np.ndarray], values: FloatArray, size: int) -> FloatArray:
    total, count = np.zeros((2, size, size))
    np.add.at(total, cell, values)
    np.add.at(count, cell, 1.0)
    return np.where(count > 0, total / np.maximum(count, 1.0), np.nan)


def _natural(profile: str) -> tuple[tuple[int, int, str], ...]:
    """Numbers in a name by size, so that 16 comes before 128."""
    parts = re.findall(r"\d+|\D", f"{profile}/")
    return tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts)


MISSING = "#CFCFCF"
MOST_LABELS = 80  # profiles; of more only the models are named
CELL_IN, LEAST_IN = 0.125, 3.2
LETTER_IN = 0.052  # of a label
WITHIN = 0.95  # share of the errors whose colours differ; one outlier would pale all others


def heat_map(grid: PairGrid, *, title: str, path: Path) -> None:
    """Draw three maps side by side; a cell without a judged pair is grey.

    Args:
        grid: pairs of one GPU type.
        title: what was predicted, by which model.
        path: PNG to write.
    """
    side_in = max(CELL_IN * min(len(grid.profiles), MOST_LABELS), LEAST_IN)
    label_in = LETTER_IN * max(map(len, grid.profiles))
    figure = new_figure(3.0 * (side_in + 0.7) + label_in, side_in + label_in + 1.3)
    panels = figure.subplots(1, 3, sharey=True)
    error = grid.predicted - grid.measured
    both = np.stack([grid.measured, grid.predicted])
    low, high = float(np.nanmin(both)), float(np.nanmax(both))
    reach = max(float(np.nanquantile(np.abs(error), WITHIN)), 1e-3)
    told = ((grid.measured, "measured"), (grid.predicted, "predicted"))
    for axes, (values, name) in zip(panels, told, strict=False):
        _draw(figure, axes, grid, values, ("viridis", low, high), name)
    mean = float(np.nanmean(np.abs(error)))
    _draw(figure, panels[2], grid, error, ("RdBu", -reach, reach), "predicted - measured")
    heading(panels[2], f"predicted - measured, mean size {mean:.3f}")
    panels[0].set_ylabel("victim, whose normalised speed is shown")
    figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold")
    save_png(figure, path)


def _draw(
    figure: Figure,
    axes: Axes,
    grid: PairGrid,
    values: FloatArray,
    look: tuple[str, float, float],
    name: str,
) -> None:
    """One map; `look` is colour map, lowest and highest value."""
    from matplotlib import colormaps

    colours, low, high = look
    shades = colormaps[colours].with_extremes(bad=MISSING)
    image = axes.imshow(values, cmap=shades, vmin=low, vmax=high, interpolation="nearest")
    heading(axes, name)
    axes.set_xlabel("aggressor")
    _label(axes, grid)
    beyond = float(np.nanmax(np.abs(values))) > high
    bar = figure.colorbar(
        image, ax=axes, fraction=0.046, pad=0.02, extend="both" if beyond else "neither"
    )
    bar.ax.tick_params(labelsize=8)


def _label(axes: Axes, grid: PairGrid) -> None:
    """Names of profiles, or of models at the middle of theirs; lines between models."""
    size = len(grid.profiles)
    ends = [i for i in range(1, size) if grid.models[i] != grid.models[i - 1]]
    places, names = list(map(float, range(size))), list(grid.profiles)
    if size > MOST_LABELS:
        edges = [0, *ends, size]
        places = [(low + high - 1) / 2 for low, high in pairwise(edges)]
        names = [grid.models[low] for low in edges[:-1]]
    font = 7.0 if size <= MOST_LABELS // 2 else 6.0
    axes.set_xticks(places, names, rotation=90, fontsize=font)
    axes.set_yticks(places, names, fontsize=font)
    axes.tick_params(length=0)
    for end in ends:
        axes.axhline(end - 0.5, color="white", linewidth=0.8)
        axes.axvline(end - 0.5, color="white", linewidth=0.8)


BINS = 12
LEAST_IN_BIN = 5


def residuals(splits: Sequence[tuple[str, HeldOut]], *, title: str, path: Path) -> None:
    """Draw a panel a split: a dot a row, coloured by GPU type, and the mean error in black.

    Args:
        splits: name and predictions of each.
        title: of which data set and model.
        path: PNG to write.
    """
    figure = new_figure(4.4 * len(splits) + 0.6, 4.4)
    panels = figure.subplots(1, len(splits), sharey=True, squeeze=False)[0]
    kinds = sorted({kind for _, held in splits for kind in held.rows.gpu_type})
    for axes, (split, held) in zip(panels, splits, strict=True):
        _panel(axes, held, kinds)
        heading(axes, f"{split} ({len(held.rows)} rows)")
    panels[0].set_ylabel("predicted - measured")
    _save(figure, title, path, columns=6)


def _save(figure: Figure, title: str, path: Path, *, columns: int) -> None:
    """Panels under one title; what is labelled in any of them is in one legend below."""
    marks = {mark.get_label(): mark
             for axes in figure.axes for mark in (*axes.collections, *axes.lines)
             if not str(mark.get_label()).startswith("_")}  # fmt: skip
    figure.legend(marks.values(), list(map(str, marks)), loc="outside lower center",
                  ncols=columns, fontsize=9, frameon=False)  # fmt: skip
    figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold")
    save_png(figure, path)


def _panel(axes: Axes, held: HeldOut, kinds: Sequence[str]) -> None:
    told = held.told.norm_speed
    error = told - held.rows.norm_speed
    for place, kind in enumerate(kinds):
        here = held.rows.gpu_type == kind
        axes.scatter(told[here], error[here], s=7, alpha=0.45, linewidths=0.0, label=kind,
                     color=COLOURS[place % len(COLOURS)])  # fmt: skip
    axes.axhline(0.0, color="#606060", linewidth=0.8)
    edges = np.unique(np.quantile(told, np.linspace(0.0, 1.0, BINS + 1)))
    bins = np.digitize(told, edges[1:-1])
    full = [b for b in np.unique(bins) if (bins == b).sum() >= LEAST_IN_BIN]
    axes.plot(
        [told[bins == b].mean() for b in full], [error[bins == b].mean() for b in full],
        color="black", marker="o", markersize=3, linewidth=1.4, label="mean of the dots around",
    )  # fmt: skip
    axes.set_xlabel("predicted normalised speed")
    tidy(axes, grid="both")


LEVELS = np.arange(10, 96, 5) / 100.0
OWN_SPREADS = 0.5  # share of rows with a spread of their own from which a model is drawn


def reliability(judged: Judged, *, title: str, path: Path) -> None:
    """Draw a panel a split and a line a model whose spread tells rows apart.

    Models with one spread for all rows of a fit are left out: theirs is no claim about a row.

    Args:
        judged: split -> model -> predictions.
        title: of which data set.
        path: PNG to write.
    """
    figure = new_figure(4.2 * len(judged) + 1.0, 4.6)
    panels = figure.subplots(1, len(judged), sharey=True, squeeze=False)[0]
    names = [LEARNED, *(name for name in next(iter(judged.values())) if name != LEARNED)]
    drawn = [name for name in names if any(_drawn(by, name) for by in judged.values())]
    places = {name: place for place, name in enumerate(drawn)}
    for axes, (split, by_model) in zip(panels, judged.items(), strict=True):
        _levels(axes, by_model, places)
        heading(axes, split)
    panels[0].set_ylabel("truths inside the interval")
    _save(figure, title, path, columns=max(2, 2 * len(judged)))


def covered(held: HeldOut) -> FloatArray:
    """(L,) share of truths inside the central interval of each of LEVELS, for normal errors."""
    error = np.abs(held.told.norm_speed - held.rows.norm_speed) / held.told.sd
    half = norm.ppf((1.0 + LEVELS) / 2.0)
    return np.asarray((error[:, None] <= half).mean(axis=0))


def tells_rows_apart(held: HeldOut) -> bool:
    """Whether the spread is each row's own, not one number a fit and GPU type."""
    return len(np.unique(held.told.sd)) > OWN_SPREADS * len(held.rows)


def _drawn(by_model: Mapping[str, HeldOut], name: str) -> bool:
    return name in by_model and tells_rows_apart(by_model[name])


def _levels(axes: Axes, by_model: Mapping[str, HeldOut], places: Mapping[str, int]) -> None:
    axes.plot([0, 1], [0, 1], color=GREY, linewidth=1.0, linestyle=":", label="ideal")
    for name, place in places.items():
        if _drawn(by_model, name):
            look = line_look(place) | {"linewidth": 2.6 if name == LEARNED else 1.3}
            axes.plot(LEVELS, covered(by_model[name]), label=name, **look)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("nominal level of the interval")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda share, _: f"{share:.0%}")
    tidy(axes, grid="both")


FILES = (
    "errors.json", "error_table.md", "error_table.csv", "worst.csv", "worst_by_model.csv",
    "model_card.md", "model.json",
)  # fmt: skip
OF_BEFORE = ("memory_fit.json",)  # that earlier versions wrote
FIGURES = ("heat_*.png", "reliability_*.png", "residuals_*.png")


def remove_report(folder: Path) -> None:
    """Forget an earlier report in this folder."""
    drawn = [path.name for pattern in FIGURES for path in folder.glob(pattern)]
    forget(folder, (*FILES, *OF_BEFORE, *drawn))


def write_tables(results: Results, folder: Path) -> None:
    """Errors as JSON, page and sheet; what the model is worst at."""
    texts = {
        "errors.json": json_blocks(results),
        "error_table.md": markdown_blocks(results),
        "error_table.csv": csv_blocks(results),
        "worst.csv": csv_of(worst_rows(results)),
        "worst_by_model.csv": csv_of(by_victim_model(results)),
    }
    for name, text in texts.items():
        write_atomically(folder / name, text.encode())


def write_figures(results: Results, folder: Path) -> None:
    """Maps of pairs (held-out ones and those of files), reliability and residuals by data set."""
    for name, judged in results.judged.items():
        drawn = results.drawn(name)
        _maps(results, name, folder)
        residuals(
            list(results.of_drawn(name)),
            title=f"{name}: errors of {drawn}",
            path=folder / f"residuals_{_plain(name)}.png",
        )
        if any(tells_rows_apart(held) for by in judged.values() for held in by.values()):
            path = folder / f"reliability_{_plain(name)}.png"
            reliability(judged, title=f"{name}: intervals against truths", path=path)


def _maps(results: Results, data_set: str, folder: Path) -> None:
    for split, held in results.of_drawn(data_set):
        if split != HELD_OUT_PAIRS and not results.is_of_files(data_set, split):
            continue  # rows of other folds are the same pairs, some of them twice
        for kind, grid in grids(held, results.solos[data_set]).items():
            heat_map(
                grid,
                title=f"{data_set}, {kind}: {results.drawn(data_set)} on the split {split}",
                path=folder / f"heat_{_plain(f'{data_set}_{kind}_{split}')}.png",
            )


def _plain(name: str) -> str:
    """Letters and digits of a name, for a file."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", name).strip("_")
