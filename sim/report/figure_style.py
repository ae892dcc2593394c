"""One look for all figures: colours that colour-blind readers can tell apart, few lines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sim.report.atomic import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito, "Color universal design", 2008; without yellow, which white paper swallows.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
STROKES = ("-", "--", ":", "-.")
GREY = "#8A8A8A"
DOTS_PER_INCH = 150
USE_MAP = "Blues"  # matplotlib's colour map for shares: white is idle
# Jobs of a Gantt chart: light enough for dark numbers, neighbours differ in hue and lightness.
JOB_COLOURS = (
    "#7FB3D5", "#F0A868", "#76C7A5", "#E2A9C7", "#F2D16B", "#A9D5F0", "#C9A98C", "#B3B7E8",
    "#9CCB6B", "#E88F86", "#8FD3D1", "#C4C4C4",
)  # fmt: skip


ROLE_COLOURS = {
    "ours": COLOURS[1],
    "composite": COLOURS[0],
    "published": COLOURS[2],
    "linear_score": COLOURS[3],
    "global_queue": COLOURS[5],
    "reference": GREY,
    "ablation": COLOURS[4],
}
SHADES = ((1.0, 0.0), (0.6, 1.0), (0.62, 0.0))  # as it is, lighter, darker: (share, the rest of)
WIDTHS = (1.8, 1.0, 2.8)
Run = tuple[str, str]  # (scheduler, role)


def colours_of(runs: Iterable[Run]) -> dict[Run, str]:
    """A colour a scheduler, in all figures of a comparison: a shade of its role's."""
    found: dict[Run, str] = {}
    taken: dict[str, int] = defaultdict(int)
    for scheduler, role in sorted(set(runs)):
        plain = scheduler.partition(" [")[0], role  # without what was swept
        if plain not in found:
            found[plain] = _shade(ROLE_COLOURS[role], taken[role])
            taken[role] += 1
        found[scheduler, role] = found[plain]
    return found


def _shade(colour: str, place: int) -> str:
    share, other = SHADES[place % len(SHADES)]
    parts = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return "#" + "".join(f"{round(share * p + (1 - share) * other * 255):02X}" for p in parts)


def looks(lines: Mapping[str, Run]) -> dict[str, dict[str, Any]]:
    """Line -> its scheduler's colour, and a stroke of its own among lines of one role."""
    colours = colours_of(lines.values())
    taken: dict[str, int] = defaultdict(int)
    found = {}
    for name in sorted(lines):
        role = lines[name][1]
        place, taken[role] = taken[role], taken[role] + 1
        width = WIDTHS[place // len(STROKES) % len(WIDTHS)]
        found[name] = {"color": colours[lines[name]], "linewidth": width,
                       "linestyle": STROKES[place % len(STROKES)]}  # fmt: skip
    return found


def line_look(place: int) -> dict[str, Any]:
    """Colour and stroke of the line at this place; no two of the first 28 are alike."""
    return {
        "color": COLOURS[place % len(COLOURS)],
        "linestyle": STROKES[place // len(COLOURS) % len(STROKES)],
        "linewidth": 1.8,
    }


def new_figure(width_in: float, height_in: float) -> Figure:
    """An empty figure outside pyplot: no window, no global state."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width_in, height_in), layout="constrained")


def tidy(axes: Axes, *, grid: str) -> None:
    """Only the axes that carry numbers, and light grid lines along `grid` ("x", "y" or "both")."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, axis=grid, color="#E4E4E4", linewidth=0.8)  # type: ignore[arg-type]
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=9)


def heading(axes: Axes, text: str) -> None:
    """A title at the left, above the axes."""
    axes.set_title(text, loc="left", fontsize=11, fontweight="bold")


def save_png(figure: Figure, path: Path) -> None:
    """Write the figure as PNG, whole or not at all."""
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=DOTS_PER_INCH)
    write_atomically(path, buffer.getvalue())
