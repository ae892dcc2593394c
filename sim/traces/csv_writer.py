"""A trace as the text of a CSV file that the reader takes back."""

import csv
import io
from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np

from sim.arrays import IntArray
from sim.traces.csv_reader import NUMBERS, OUTCOMES, SEPARATOR, TEXTS
from sim.traces.trace import Trace

COLUMNS = ("job_id", "submit_s", "num_gpus", "duration_s", "user", "vc")
MORE = tuple(name for name in (*TEXTS, *NUMBERS) if name not in COLUMNS)


def trace_csv(trace: Trace) -> str:
    """Header and one row a job; numbers are written so that they read back the same.

    Optional columns are written where the trace has them, under the reader's own names.
    """
    columns = dict(_columns(trace))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue()


def _columns(trace: Trace) -> Iterator[tuple[str, Iterable[str]]]:
    for name in (*COLUMNS, *MORE):
        column = getattr(trace, name)
        if column is not None:
            yield name, map(_cell, column.tolist())
    if trace.outcome is not None:
        words = {code: word for word, code in OUTCOMES.items()}
        yield "outcome", [words[code] for code in trace.outcome.tolist()]
    if trace.attempts is not None:
        points = list(map(_cell, trace.attempts.fail_at_s.tolist()))
        yield "attempts", _lists(trace.attempts.first, points)
    if trace.precedence is not None:
        names = [str(trace.job_id[row]) for row in trace.precedence.parents]
        yield "parents", _lists(trace.precedence.first, names)
        yield "workflow", [_workflow(number) for number in trace.precedence.workflow.tolist()]


def _lists(first: IntArray, entries: list[str]) -> list[str]:
    return [SEPARATOR.join(entries[begin:end]) for begin, end in pairwise(first)]


def _workflow(number: int) -> str:
    return "" if number < 0 else f"w{number}"


def _cell(value: str | float | int) -> str:
    if isinstance(value, float):
        if not np.isfinite(value):
            return ""  # the reader's word for never, and for not known
        return repr(int(value) if value.is_integer() else value)
    return str(value)
