"""Figure: normalised speed of every victim beside every aggressor: measured, predicted, error."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from interference.report.pair_grid import PairGrid
from sim.arrays import FloatArray
from sim.report.figure_style import heading, new_figure, save_png

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
