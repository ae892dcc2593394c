"""The CSV file of a training run: one line an iteration."""

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sim.arrays import FloatArray
from sim.report.errors import ReportError

_NEEDED = ("iteration", "return_mean")


@dataclass(frozen=True)
class LearningCurve:
    """N iterations."""

    iteration: FloatArray  # (N,)
    return_mean: FloatArray  # (N,) mean episode return; NaN where no episode ended
    eval_jct_mean_s: FloatArray  # (N,) mean JCT on evaluation windows; NaN where not evaluated


def read_learning_curve(path: Path) -> LearningCurve:
    """Read columns `iteration`, `return_mean` and, if it is there, `eval_jct_mean_s`.

    Other columns are passed over; an empty cell is NaN.

    Raises:
        ReportError: a column is missing, a cell is no number, or there is no line.
    """
    with path.open(newline="", encoding="utf-8") as file:
        lines = csv.DictReader(file)
        missing = [name for name in _NEEDED if name not in (lines.fieldnames or ())]
        if missing:
            raise ReportError(f"{path}, line 1: column {missing[0]!r} is missing")
        rows = [
            [
                _number(path, lines.line_num, name, row.get(name))
                for name in (*_NEEDED, "eval_jct_mean_s")
            ]
            for row in lines
        ]
    if not rows:
        raise ReportError(f"{path}: holds no iteration; train for at least one")
    return LearningCurve(*np.array(rows).T)


def _number(path: Path, line: int, column: str, text: str | None) -> float:
    try:
        return float(text) if text else float("nan")
    except ValueError:
        raise ReportError(f"{path}, line {line}: {column} is {text!r}; not a number") from None
