"""Which setting of each baseline did best on validation windows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sim.metrics.timeline import Interval, ratio_interval
from sim.report.atomic import csv_text
from sim.report.league import METRIC, LeagueRun, Place
from sim.report.table_text import markdown_table, ratio_text

if TYPE_CHECKING:
    from rich.table import Table

COLUMNS = ("baseline", "setting", "best", "ratio", "ratio_low", "ratio_high", "jct_mean_s", "runs")
HEADERS = ("baseline", "setting", "mean JCT [h]", "over the best")


@dataclass(frozen=True)
class TuningRow:
    """One setting of one baseline."""

    baseline: str
    setting: str
    ratio: Interval | None  # paired mean JCT over that of the best setting; None for the best
    jct_s: float  # arithmetic mean over runs
    runs: int


def tuning_rows(runs: Sequence[LeagueRun], *, between: str, confidence: float) -> list[TuningRow]:
    """Baselines in order of appearance, the settings of each by their geometric mean JCT.

    A geometric mean over cells and windows: every cell counts alike, however long its jobs are.

    Args:
        runs: of schedulers named `baseline<between>setting`; all ran at the same places.
        between: what separates the two.
        confidence: of the intervals.
    """
    times: dict[str, dict[str, dict[Place, float]]] = defaultdict(lambda: defaultdict(dict))
    for run in runs:
        baseline, _, setting = run.row.labels.scheduler.partition(between)
        times[baseline][setting][run.place] = float(run.row.metrics[METRIC])
    rows = []
    for baseline, settings in times.items():
        mean = {key: float(np.mean(np.log(list(v.values())))) for key, v in settings.items()}
        order = sorted(settings, key=mean.__getitem__)  # equal ones as in the file
        best = settings[order[0]]
        for setting in order:
            found = settings[setting]
            ratio = ratio_interval([found[p] for p in best], list(best.values()), confidence)
            rows.append(
                TuningRow(
                    baseline=baseline,
                    setting=setting,
                    ratio=None if setting == order[0] else ratio,
                    jct_s=float(np.mean(list(found.values()))),
                    runs=len(found),
                )
            )
    return rows


def tuning_csv(rows: Sequence[TuningRow]) -> bytes:
    """The bytes of `tuned.csv`."""
    lines = []
    for row in rows:
        ratio = row.ratio or Interval(1.0, 1.0, 1.0, row.runs)
        numbers = [repr(float(v)) for v in (ratio.centre, ratio.low, ratio.high, row.jct_s)]
        lines.append([row.baseline, row.setting, int(row.ratio is None), *numbers, row.runs])
    return csv_text(COLUMNS, lines).encode()


def tuning_markdown(rows: Sequence[TuningRow]) -> str:
    """The same as a table for people."""
    return "\n".join(markdown_table(HEADERS, map(_cells, rows), texts=2)) + "\n"


def tuning_table(rows: Sequence[TuningRow]) -> Table:
    """The same for a terminal."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    table = Table(*HEADERS, box=box.SIMPLE_HEAD)
    for row in rows:
        table.add_row(*map(escape, _cells(row)), style="bold" if row.ratio is None else "")
    return table


def _cells(row: TuningRow) -> tuple[str, str, str, str]:
    ratio = "best" if row.ratio is None else ratio_text(row.ratio)
    return row.baseline, row.setting, f"{row.jct_s / 3600.0:.3g}", ratio
