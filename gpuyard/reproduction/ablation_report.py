"""Table and figure of the ablations: every arm over the whole, paired by window and seed."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Group
from rich.table import Table

from sim.arrays import FloatArray
from sim.report.arms import SeedArm, seed_arms
from sim.report.atomic import csv_text, write_atomically
from sim.report.comparison import ComparisonRow, write_comparison_csv
from sim.report.figures import heading, line_look, new_figure, save_png, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes


METRIC = "jct_mean_s"
HOUR_S = 3600.0
COLUMNS = ("arm", "seeds", "windows", "mean_jct_h", "ratio", "low", "high", "ratio_by_seed")


@dataclass(frozen=True)
class Trained:
    """One policy."""

    arm: str
    seed: int
    folder: Path  # of the training

    @property
    def name(self) -> str:
        """In results."""
        return f"{self.arm} #{self.seed}"


def write_report(
    folder: Path,
    rows: Sequence[ComparisonRow],
    trained: Sequence[Trained],
    *,
    title: str,
    whole: str,
    confidence: float,
) -> Group:
    """Write comparison.csv, ablations.csv and .md, learning_curves.png; return what is printed."""
    write_comparison_csv(folder / "comparison.csv", rows)
    arms = seed_arms(_by_arm(rows, trained), whole=whole, confidence=confidence)
    write_atomically(folder / "ablations.csv", _csv(arms).encode())
    table = _table(arms, whole, confidence)
    text = "\n".join([f"# {title}", "", *_markdown(table), ""])
    write_atomically(folder / "ablations.md", text.encode())
    curves_figure(_curves(trained), folder / "learning_curves.png")
    return Group(table)


def _by_arm(rows: Sequence[ComparisonRow], trained: Sequence[Trained]) -> dict[str, FloatArray]:
    """(seeds, windows) mean JCTs of every arm, then of every scheduler not trained here."""
    by_window: dict[str, dict[int, float]] = {}
    for row in rows:
        found = by_window.setdefault(row.labels.scheduler, {})
        found[int(row.labels.window or 0)] = float(row.metrics[METRIC])
    names: dict[str, list[str]] = {}
    for each in trained:
        names.setdefault(each.arm, []).append(each.name)
    ours = {name for arm in names.values() for name in arm}
    names |= {name: [name] for name in by_window if name not in ours}
    return {
        arm: np.array([[by_window[name][w] for w in sorted(by_window[name])] for name in of_arm])
        for arm, of_arm in names.items()
    }


def _csv(arms: Sequence[SeedArm]) -> str:
    lines = []
    for each in arms:
        numbers = [each.jct_s / HOUR_S, each.ratio.centre, each.ratio.low, each.ratio.high]
        by_seed = " ".join(f"{ratio:.3f}" for ratio in each.by_seed)
        lines.append([each.arm, each.seeds, each.ratio.count, *numbers, by_seed])
    return csv_text(COLUMNS, lines)


def _table(arms: Sequence[SeedArm], whole: str, confidence: float) -> Table:
    table = Table(
        "arm", "mean JCT [h]", f"over {whole} [{confidence:.0%} over windows]", "by seed",
        title="Mean JCT of each arm over the whole",
    )  # fmt: skip
    for each in arms:
        ratio = f"{each.ratio.centre:.3f} [{each.ratio.low:.3f}, {each.ratio.high:.3f}]"
        by_seed = " ".join(f"{one:.3f}" for one in each.by_seed)
        shown = ("", "") if each.arm == whole else (ratio, by_seed)
        table.add_row(each.arm, f"{each.jct_s / HOUR_S:.2f}", *shown)
    return table


def _markdown(table: Table) -> list[str]:
    cells = [[str(column.header), *map(str, column.cells)] for column in table.columns]
    lines = ["| " + " | ".join(row) + " |" for row in zip(*cells, strict=True)]
    rule = "| :-- |" + " --: |" * (len(cells) - 1)
    return [lines[0], rule, *lines[1:]]


Curve = tuple[FloatArray, FloatArray]  # (n,) agent steps, (n,) mean JCT on validation windows, s


def _curves(trained: Sequence[Trained]) -> dict[str, list[Curve]]:
    """The learning curves of every arm, one a seed."""
    found: dict[str, list[Curve]] = {}
    for each in trained:
        path = each.folder / "learning_curve.csv"
        with path.open(newline="", encoding="utf-8") as file:
            judged = [row for row in csv.DictReader(file) if row["eval_jct_mean_s"]]
        steps = np.array([float(row["agent_steps"] or 0.0) for row in judged])
        jct_s = np.array([float(row["eval_jct_mean_s"]) for row in judged])
        found.setdefault(each.arm, []).append((steps, jct_s))
    return found


def curves_figure(curves: Mapping[str, Sequence[Curve]], path: Path) -> None:
    """Mean JCT on validation windows by agent steps: a line an arm, the mean over its seeds.

    The legend is in the order in which the lines end.
    """
    figure = new_figure(9.0, 5.0)
    axes: Axes = figure.subplots()
    for place, (arm, seeds) in enumerate(curves.items()):
        points = min(len(steps) for steps, _ in seeds)
        steps = np.mean([steps[:points] for steps, _ in seeds], axis=0)
        logs = np.mean([np.log(jct_s[:points] / HOUR_S) for _, jct_s in seeds], axis=0)
        axes.plot(steps / 1000.0, np.exp(logs), **line_look(place), marker=".", label=arm)
    axes.set_yscale("log")
    for tell in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
        tell("{x:g}")
    ends = sorted(axes.lines, key=lambda line: -float(np.asarray(line.get_ydata())[-1]))
    axes.set_xlabel("agent steps of PPO, thousands")
    axes.set_ylabel("mean JCT on validation windows [h]")
    axes.legend(handles=ends, fontsize=8.5, frameon=False, loc="center left",
                bbox_to_anchor=(1.0, 0.5))  # fmt: skip
    heading(axes, "Learning without a part: lower is better")
    tidy(axes, grid="y")
    save_png(figure, path)
