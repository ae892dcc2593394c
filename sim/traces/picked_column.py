"""One column of a trace at some of its rows, whatever the kind of column."""

from typing import Any

import numpy as np

from sim.arrays import IntArray
from sim.traces.ragged import owners, picked, starts
from sim.traits import Attempts, Precedence


def picked_column(column: Any, rows: IntArray) -> Any:
    """A column at `rows`; whatever is no column (a name, None) as it is."""
    if isinstance(column, Attempts):
        first, entries = picked(column.first, rows)
        return Attempts(first, column.fail_at_s[entries])
    if isinstance(column, Precedence):
        return _linked(column, rows)
    return column[rows] if isinstance(column, np.ndarray) else column


def _linked(links: Precedence, rows: IntArray) -> Precedence:
    """Parents as positions in `rows`; those outside it are left out."""
    first, entries = picked(links.first, rows)
    new_row = np.full(len(links.workflow), -1)
    new_row[rows] = np.arange(len(rows))
    parents = new_row[links.parents[entries]]
    kept = parents >= 0
    lengths = np.bincount(owners(first)[kept], minlength=len(rows))
    return Precedence(starts(lengths), parents[kept], links.workflow[rows])
