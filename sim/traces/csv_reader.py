"""Reads a job trace from a CSV file: one row a job, columns named by a mapping."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sim.arrays import BoolArray, TextArray
from sim.errors import TraceError
from sim.traces.column_map import checked_columns, positions
from sim.traces.row_rules import Problem, duplicates, gangs, times, timestamps
from sim.traces.select import take
from sim.traces.text_table import TextTable, read_text_table
from sim.traces.trace import Trace

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Notes:
    """What the reader did to the file's rows."""

    rows: int  # data rows in the file
    skipped: int  # bad rows left out (strict=false only)
    unsorted: int  # rows that stood after a row of later submission


def read_csv(
    *, path: str, columns: Mapping[str, str | None], name: str, strict: bool
) -> tuple[Trace, Notes]:
    """Read a plain or gzip CSV file (comma, UTF-8, header row) into a trace.

    Args:
        path: the file.
        columns: our names to the file's: job_id, num_gpus, duration_s (seconds) and one of
            submit_s (seconds) or submit_time (ISO 8601, counted from the earliest row) are
            required; user and vc are optional. A null value means "not in the file".
        name: name of the trace in reports.
        strict: whether a bad row is an error; if not, it is left out, counted and logged.

    Returns:
        The trace, stably sorted by submission, and what was done to the rows.

    Raises:
        TraceError: naming file, line, column, value and fix.
    """
    wanted = checked_columns(columns)
    table = read_text_table(path)
    place = positions(wanted, table.header, path)
    rows = len(table.rows)
    table = _whole_rows(table, strict)
    trace, problems = _columns(table, place, name)
    keep = _usable(table, place, problems, wanted, strict)
    skipped = rows - int(keep.sum())
    if skipped == rows:
        raise TraceError(f"{path}: none of its {rows} rows is usable; read it with strict=true")
    submit_s = trace.submit_s[keep]
    late = int(np.sum(submit_s < np.maximum.accumulate(submit_s)))
    order = np.flatnonzero(keep)[np.argsort(submit_s, kind="stable")]
    return take(trace, order), Notes(rows=rows, skipped=skipped, unsorted=late)


def _whole_rows(table: TextTable, strict: bool) -> TextTable:
    """The rows that have as many fields as the header."""
    width = len(table.header)
    broken = [row for row, fields in enumerate(table.rows) if len(fields) != width]
    if not broken:
        return table
    first = broken[0]
    what = "cut off" if len(table.rows[first]) < width else "too long"
    message = (
        f"{table.path}, line {table.lines[first]}: the row is {what}: {len(table.rows[first])} "
        f"fields, the header has {width}; complete the row, or skip such rows with "
        f"workload.strict=false"
    )
    if strict:
        raise TraceError(message)
    log.warning("%d rows skipped, the first: %s", len(broken), message)
    out = set(broken)
    kept = [row for row in range(len(table.rows)) if row not in out]
    if not kept:
        raise TraceError(f"{table.path}: no row has the {width} fields of the header")
    return replace(table, rows=[table.rows[r] for r in kept], lines=[table.lines[r] for r in kept])


def _columns(table: TextTable, place: Mapping[str, int], name: str) -> tuple[Trace, list[Problem]]:
    """The rows as a trace in file order, and every rule's bad rows."""
    submit_key = "submit_s" if "submit_s" in place else "submit_time"
    read_submit = times if submit_key == "submit_s" else timestamps
    job_id = _texts(table, place["job_id"])
    submit_s, submit_bad = read_submit(submit_key, _raw(table, place[submit_key]))
    num_gpus, gang_bad = gangs("num_gpus", _raw(table, place["num_gpus"]))
    duration_s, duration_bad = times("duration_s", _raw(table, place["duration_s"]))
    blank = [""] * len(table.rows)
    trace = Trace(
        name=name,
        job_id=_objects(job_id),
        submit_s=submit_s,
        num_gpus=np.clip(num_gpus, 1, 2**31).astype(np.int64),
        duration_s=duration_s,
        user=_objects(_texts(table, place["user"]) if "user" in place else blank),
        vc=_objects(_texts(table, place["vc"]) if "vc" in place else blank),
    )
    names = duplicates("job_id", job_id, table.lines)
    return trace, [*submit_bad, *gang_bad, *duration_bad, *names]


def _usable(
    table: TextTable,
    place: Mapping[str, int],
    problems: Sequence[Problem],
    wanted: Mapping[str, str],
    strict: bool,
) -> BoolArray:
    """(N,) rows without a problem; in strict mode the first problem is raised."""
    bad: BoolArray = np.logical_or.reduce([problem.bad for problem in problems])
    if bad.any():
        row = int(np.argmax(bad))
        problem = next(each for each in problems if each.bad[row])
        value = table.rows[row][place[problem.key]]
        message = (
            f"{table.path}, line {table.lines[row]}, column '{wanted[problem.key]}': "
            f"{value!r} {problem.rule}"
        )
        if strict:
            raise TraceError(f"{message} (or skip such rows with workload.strict=false)")
        log.warning("%d rows skipped, the first: %s", int(bad.sum()), message)
    return np.logical_not(bad)


def _raw(table: TextTable, index: int) -> list[str]:
    return [fields[index] for fields in table.rows]


def _texts(table: TextTable, index: int) -> list[str]:
    return [fields[index].strip() for fields in table.rows]


def _objects(texts: Sequence[str]) -> TextArray:
    column: TextArray = np.empty(len(texts), dtype=np.object_)
    column[:] = texts
    return column
