"""Figures of schedulers, and one look for all figures.

Colours that colour-blind readers can tell apart, few lines. Of schedulers: mean JCT with intervals,
its distribution, use and queue over time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sim.arrays import FloatArray
from sim.files import ReportError, apart_from_swept, write_atomically
from sim.report.job_times import percent
from sim.report.standings import Setting, Standing
from sim.report.table_text import decimals_of
from sim.report.timeline import Timeline
from sim.times import DAYS, HOURS, MINUTES, TimeUnit, axis_unit_for, time_text, unit_for

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# Okabe and Ito, "Color universal design", 2008; without yellow, which white paper swallows.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
STROKES: tuple[Any, ...] = ("-", "--", ":", "-.", (0, (8, 2)), (0, (5, 1, 1, 1, 1, 1)))
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
        plain = apart_from_swept(scheduler)[0], role
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
    """Colour and stroke of the line at this place; no two of the first 42 are alike."""
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


_FAR = 8.0  # times the best: beyond, dots on a logarithmic axis tell more than bars
_PANELS_A_ROW = 2
_ROOM = 1.6  # length of the axis in longest bars, if no interval needs more
_MOST_ROOM = 4.0  # beyond it, intervals are cut
_UNLABELLED = 0.86  # of the axis; the rest is for the label of the longest


def jct_bars(settings: Sequence[Setting], *, path: Path, confidence: float) -> None:
    """Draw one bar a scheduler, shortest on top, coloured by role; one panel a setting; as PNG."""
    columns = min(len(settings), _PANELS_A_ROW)
    rows = -(-len(settings) // columns)
    most = max(len(setting.standings) for setting in settings)
    figure = new_figure(8.0 if columns == 1 else 7.0 * columns, rows * (1.6 + 0.32 * most))
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    colours = colours_of((s.scheduler, s.role) for each in settings for s in each.standings)
    for axes, setting in zip(panels, settings, strict=False):
        _draw(axes, setting, confidence, colours)
    for axes in panels[len(settings) :]:
        axes.set_visible(False)
    roles = {s.role for setting in settings for s in setting.standings}
    shown = [role for role in ROLE_COLOURS if role in roles]
    if len(shown) > 1:
        from matplotlib.patches import Patch

        handles = [Patch(color=ROLE_COLOURS[r], label=r.replace("_", " ")) for r in shown]
        figure.legend(
            handles=handles, loc="outside lower center", ncols=len(handles), fontsize=9,
            frameon=False,
        )  # fmt: skip
    save_png(figure, path)


def _draw(axes: Axes, setting: Setting, confidence: float, colours: Mapping[Run, str]) -> None:
    known = [s for s in setting.standings if "jct_mean_s" in s.intervals]
    unit = unit_for(s.intervals["jct_mean_s"].centre for s in known)
    centres = [s.intervals["jct_mean_s"].centre / unit.length_s for s in known]
    best, longest = min(centres, default=0.0), max(centres, default=0.0)
    far = best > 0.0 and longest > _FAR * best
    axes.set_yticks(range(len(known)), [s.scheduler for s in known])
    axes.invert_yaxis()
    if far:
        axes.set_xscale("log")
        axes.set_xlim(best / _ROOM, longest * _ROOM**2)
    else:
        ends = [s.intervals["jct_mean_s"].high / unit.length_s / _UNLABELLED for s in known]
        room = np.nanmax([_ROOM * longest, *ends])
        axes.set_xlim(0, min(room, _MOST_ROOM * longest) or 1.0)
    scale = " (log scale)" if far else ""
    axes.set_xlabel(f"mean JCT [{unit.name}]{scale}, {percent(confidence)} interval")
    for place, standing in enumerate(known):
        _bar(axes, place, standing, unit, colours[standing.scheduler, standing.role])
    heading(axes, _two_lines(setting.title))
    tidy(axes, grid="x")
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)


def _two_lines(title: str) -> str:
    """The title broken at its middle comma, to fit above a panel."""
    parts = title.split(", ")
    half = len(parts) // 2
    return ", ".join(parts[:half]) + ",\n" + ", ".join(parts[half:])


def _bar(axes: Axes, place: int, standing: Standing, unit: TimeUnit, colour: str) -> None:
    """A bar, or a dot where the axis has no 0; the interval's far end is cut by an arrow."""
    interval = standing.intervals["jct_mean_s"]
    centre = interval.centre / unit.length_s
    low, high = interval.low / unit.length_s, interval.high / unit.length_s
    dots, (left, right) = axes.get_xscale() == "log", axes.get_xlim()
    if dots:
        axes.plot(centre, place, "o", color=colour, markersize=9)
    else:
        axes.barh(place, centre, color=colour, height=0.68)
    end = centre
    if not np.isnan(low):
        most = right / _ROOM**0.5 if dots else right * _UNLABELLED
        end = max(min(high, most), centre)
        axes.hlines(place, max(low, left), end, color="#222222", linewidth=1.4)
        if high > 1.001 * end:  # the axis ends at the longest interval, but for rounding
            axes.plot(end, place, ">", color="#222222", markersize=5)
    axes.annotate(
        f"   {centre:.{decimals_of(centre)}f}", (end, place), va="center", fontsize=9,
        fontweight="bold" if standing.role == "ours" else "normal",
    )  # fmt: skip


SHORTEST_S = 1.0  # a logarithmic axis has no 0; shorter jobs are drawn here
_MOST_INSIDE = 8  # a longer legend would cover the curves
_LONG_NAME = 26  # two longer ones do not stand side by side
TICKS_S = {
    1.0: "1 s", 10.0: "10 s", MINUTES.length_s: "1 min", 10 * MINUTES.length_s: "10 min",
    HOURS.length_s: "1 h", 10 * HOURS.length_s: "10 h", 4 * DAYS.length_s: "4 d",
    40 * DAYS.length_s: "40 d",
}  # fmt: skip


def jct_cdf(
    jct_s: Mapping[str, FloatArray], *, path: Path, runs: Mapping[str, Run] | None = None
) -> None:
    """Draw the share of jobs that took at most so long, on a logarithmic axis, as PNG.

    `jct_s` are completion times (n,) without NaN by curve; `runs` their schedulers and roles, for
    colours that other figures have too. ReportError: a scheduler without a finished job, or none.
    """
    if not jct_s or not all(len(times) for times in jct_s.values()):
        empty = [name for name, times in jct_s.items() if not len(times)]
        raise ReportError(f"no finished jobs to draw in {path.name}: {', '.join(empty) or 'none'}")
    below = len(jct_s) > _MOST_INSIDE
    columns = 1 if max(map(len, jct_s)) > _LONG_NAME else 2
    figure = new_figure(7.5, 4.6 + (0.2 / columns * len(jct_s) if below else 0.0))
    axes = figure.subplots()
    known = {} if runs is None else looks(runs)
    for place, name in enumerate(sorted(jct_s, key=lambda name: float(np.mean(jct_s[name])))):
        times = np.sort(np.maximum(jct_s[name], SHORTEST_S))
        share = np.arange(1, len(times) + 1) / len(times)
        label = f"{name}  (mean {time_text(float(np.mean(jct_s[name])))})"
        axes.step(times, share, where="post", label=label, **known.get(name, line_look(place)))
    _dress(axes, max(float(times.max()) for times in jct_s.values()))
    text: dict[str, Any] = {"fontsize": 8.5, "handlelength": 4.0}  # strokes tell lines apart
    if below:
        figure.legend(loc="outside lower center", ncols=columns, frameon=False, **text)
    else:
        axes.legend(loc="best", framealpha=0.9, edgecolor="none", **text)
    save_png(figure, path)


def _dress(axes: Axes, longest_s: float) -> None:
    axes.set_xscale("log")
    axes.set_xticks(list(TICKS_S), list(TICKS_S.values()))
    axes.set_xticks([], minor=True)
    axes.set_xlim(SHORTEST_S, max(longest_s, 10 * SHORTEST_S) * 1.1)
    axes.set_ylim(0, 1.01)
    axes.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    axes.set_xlabel("job completion time (log scale)")
    axes.set_ylabel("share of jobs done within it")
    heading(axes, "Job completion times: further left and up is better")
    tidy(axes, grid="both")


MOST_SCHEDULERS = 4  # more lines than this cannot be told apart where they cross
_UTILISATION_BINS = 100


def utilisation_queue(
    timelines: Mapping[str, Timeline],
    *,
    path: Path,
    runs: Mapping[str, Run] | None = None,
    of: str = "",
) -> None:
    """Draw utilisation above and waiting jobs below, on one time axis, as PNG.

    The first four timelines are drawn, so put those that matter first; `runs` as in `jct_cdf`;
    `of`: which of several runs the lines are of. ReportError: there are none.
    """
    if not timelines:
        raise ReportError(f"no runs to draw in {path.name}; give at least one")
    shown = dict(list(timelines.items())[:MOST_SCHEDULERS])
    last_s = max(float(line.time_s[-1]) for line in shown.values())
    unit = axis_unit_for(last_s)
    figure = new_figure(8.5, 5.4)
    above, below = figure.subplots(2, 1, sharex=True)
    known = {} if runs is None else looks(runs)
    for place, (name, line) in enumerate(shown.items()):
        time = line.time_s / unit.length_s
        look = {**known.get(name, line_look(place)), "linewidth": 1.3}
        above.step(*_coarser(time, line.gpu_util_frac), where="post", label=name, **look)
        below.step(time, line.queue_jobs, where="post", **look)
    _dress_figure_utilisation(above, below, unit, of)
    below.set_xlim(0, last_s / unit.length_s or 1.0)
    figure.legend(loc="outside lower center", ncols=2, fontsize=9, frameon=False)
    if len(timelines) > len(shown):
        below.annotate(
            f"{len(shown)} of {len(timelines)} schedulers shown", (1, 1), xycoords="axes fraction",
            ha="right", va="top", fontsize=8,
        )  # fmt: skip
    save_png(figure, path)


def _coarser(time: FloatArray, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Means over whole groups of bins: busy GPUs flicker too fast for lines that cross."""
    group = max(len(values) // _UTILISATION_BINS, 1)
    starts = np.arange(0, len(values), group)
    sizes = np.diff(np.append(starts, len(values)))
    means: FloatArray = np.add.reduceat(values, starts) / sizes
    return time[starts], means


def _dress_figure_utilisation(above: Axes, below: Axes, unit: TimeUnit, of: str) -> None:
    above.set_ylim(0, 1.02)
    above.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    above.set_ylabel("GPUs with a tenant")
    heading(above, ", ".join(filter(None, ("GPU utilisation", of))))
    below.set_ylim(bottom=0)
    below.set_ylabel("waiting jobs")
    below.set_xlabel(f"time since the first submission [{unit.name}]")
    heading(below, "Queue length")
    tidy(above, grid="y")
    tidy(below, grid="y")
