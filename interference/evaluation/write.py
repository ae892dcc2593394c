"""The files of a report, each there whole or not at all."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import norm

from interference.evaluation.card import by_victim_model, error_lines, error_text, worst_rows
from interference.evaluation.score_file import Results
from interference.fit import LEARNED
from sim.arrays import FloatArray
from sim.files import forget, write_atomically
from sim.report.figures import GREY, heading, line_look, new_figure, save_png, tidy
from sim.report.table_text import write_markdown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from pandas import DataFrame


LEAST_PAIRS = 4  # fewer make no map


@dataclass(frozen=True)
class PairGrid:
    """P profiles, those of one model side by side; NaN where no pair was judged."""

    profiles: tuple[str, ...]  # (P,)
    models: tuple[str, ...]  # (P,)
    measured: FloatArray  # (P, P) normalised speed [victim, aggressor]
    predicted: FloatArray  # (P, P)


def grids(held: DataFrame) -> dict[str, PairGrid]:
    """GPU type -> grid of its pairs; rows with no or several aggressors are left out.

    Where a pair was judged more than once its cell has the means.
    """
    pairs = held[held.aggressors.str.len() == 1]
    return {str(gpu_type): _grid(part) for gpu_type, part in pairs.groupby("gpu_type")
            if len(part) >= LEAST_PAIRS}  # fmt: skip


def _grid(pairs: DataFrame) -> PairGrid:
    beside = pairs.aggressors.str[0]
    models = dict(zip(beside, pairs.models.str[1], strict=True))
    models |= dict(zip(pairs.victim, pairs.models.str[0], strict=True))
    order = sorted(models, key=lambda name: (models[name], _natural(name)))
    cells = pairs.groupby([pairs.victim, beside])[["measured", "predicted"]].mean()
    measured, predicted = (
        cells[name].unstack().reindex(index=order, columns=order).to_numpy() for name in cells
    )
    return PairGrid(tuple(order), tuple(models[name] for name in order), measured, predicted)


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
    """Draw three maps of the pairs of a GPU type side by side as PNG; without a pair: grey."""
    side_in = max(CELL_IN * min(len(grid.profiles), MOST_LABELS), LEAST_IN)
    label_in = LETTER_IN * max(map(len, grid.profiles))
    figure = new_figure(3.0 * (side_in + 0.7) + label_in, side_in + label_in + 1.3)
    panels = figure.subplots(1, 3, sharey=True)
    error = grid.predicted - grid.measured
    both = np.stack([grid.measured, grid.predicted])
    low, high = float(np.nanmin(both)), float(np.nanmax(both))
    reach = max(float(np.nanquantile(np.abs(error), WITHIN)), 1e-3)
    maps = ((grid.measured, "measured"), (grid.predicted, "predicted"))
    for axes, (values, name) in zip(panels, maps, strict=False):
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


LEVELS = np.arange(10, 96, 5) / 100.0
OWN_SPREADS = 0.5  # share of rows with a spread of their own from which a model is drawn


def reliability(judged: DataFrame, *, title: str, path: Path) -> None:
    """Draw a panel a split and a line a model whose spread tells rows apart, as PNG.

    Models with one spread for all rows of a fit are left out: theirs is no claim about a row.
    """
    splits = judged.split.unique()
    figure = new_figure(4.2 * len(splits) + 1.0, 4.6)
    panels = figure.subplots(1, len(splits), sharey=True, squeeze=False)[0]
    by_model = judged.groupby(["split", "model"], sort=False)
    drawn = {
        (str(split), str(name)): held for (split, name), held in by_model if tells_rows_apart(held)
    }
    names = dict.fromkeys(sorted((name for _, name in drawn), key=lambda name: name != LEARNED))
    places = {name: place for place, name in enumerate(names)}
    for axes, split in zip(panels, splits, strict=True):
        _levels(axes, {name: held for (of, name), held in drawn.items() if of == split}, places)
        heading(axes, split)
    panels[0].set_ylabel("truths inside the interval")
    marks = {mark.get_label(): mark for axes in panels for mark in axes.lines}
    figure.legend(marks.values(), list(map(str, marks)), loc="outside lower center",
                  ncols=max(2, 2 * len(splits)), fontsize=9, frameon=False)  # fmt: skip
    figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold")
    save_png(figure, path)


def covered(held: DataFrame) -> FloatArray:
    """(L,) share of truths inside the central interval of each of LEVELS, for normal errors."""
    error = ((held.predicted - held.measured).abs() / held.sd).to_numpy()
    half = norm.ppf((1.0 + LEVELS) / 2.0)
    return np.asarray((error[:, None] <= half).mean(axis=0))


def tells_rows_apart(held: DataFrame) -> bool:
    """Whether the spread is each row's own, not one number a fit and GPU type."""
    return bool(held.sd.nunique() > OWN_SPREADS * len(held))


def _levels(axes: Axes, by_model: dict[str, DataFrame], places: dict[str, int]) -> None:
    axes.plot([0, 1], [0, 1], color=GREY, linewidth=1.0, linestyle=":", label="ideal")
    for name, held in by_model.items():
        look = line_look(places[name]) | {"linewidth": 2.6 if name == LEARNED else 1.3}
        axes.plot(LEVELS, covered(held), label=name, **look)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("nominal level of the interval")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda share, _: f"{share:.0%}")
    tidy(axes, grid="both")


FILES = (
    "error_table.md", "error_table.csv", "worst.csv", "worst_by_model.csv", "model_card.md",
    "model.json",
)  # fmt: skip
FIGURES = ("heat_*.png", "reliability_*.png", "residuals_*.png")
OF_BEFORE = ("memory_fit.json", "errors.json")  # that earlier versions wrote, as residuals


def remove_report(folder: Path) -> None:
    """Forget an earlier report in this folder."""
    drawn = [path.name for pattern in FIGURES for path in folder.glob(pattern)]
    forget(folder, (*FILES, *OF_BEFORE, *drawn))


def write_tables(results: Results, folder: Path) -> None:
    """Errors as page and sheet; what the model is worst at."""
    write_markdown(folder / "error_table.md", error_text(results), texts=1)
    sheets = {
        "error_table.csv": error_lines(results),
        "worst.csv": worst_rows(results).round(6),
        "worst_by_model.csv": by_victim_model(results).round(6),
    }
    for name, lines in sheets.items():
        write_atomically(folder / name, lines.to_csv(index=False).encode())


def write_figures(results: Results, folder: Path) -> None:
    """Maps of pairs (held-out ones and those of files) and reliability by data set."""
    for (name, split), held in results.of_pairs().groupby(["data_set", "split"], sort=False):
        for gpu_type, grid in grids(held).items():
            heat_map(
                grid,
                title=f"{name}, {gpu_type}: {results.drawn} on the split {split}",
                path=folder / f"heat_{_plain(f'{name}_{gpu_type}_{split}')}.png",
            )
    for name, judged in results.predictions.groupby("data_set", sort=False):
        if any(tells_rows_apart(held) for _, held in judged.groupby(["split", "model"])):
            path = folder / f"reliability_{_plain(str(name))}.png"
            reliability(judged, title=f"{name!s}: intervals against truths", path=path)


def _plain(name: str) -> str:
    """Letters and digits of a name, for a file."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", name).strip("_")
