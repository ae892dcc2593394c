"""The role of a reader, and what readers of CSV formats work on: columns with what is wrong."""

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray, TextArray, objects
from sim.errors import TraceError
from sim.traces import row_rules
from sim.traces.row_rules import Problem
from sim.traces.text_table import GivenColumns, TextTable
from sim.traces.trace import Trace, take

log = logging.getLogger(__name__)

LARGEST_AMOUNT = 1e9
LONGEST_QUOTE = 80
A = TypeVar("A", FloatArray, IntArray)
C = TypeVar("C", FloatArray, IntArray, TextArray)


@dataclass(frozen=True)
class Notes:
    """What a reader did to the rows of a file."""

    rows: int  # data rows (or objects) in the file
    skipped: int  # bad rows left out (strict=false only)
    unsorted: int  # rows that stood after a row of later submission
    left_out: Mapping[str, int] = field(default_factory=dict)  # reason -> good rows that are no job


class TraceReader(Protocol):
    """Reads one kind of file."""

    def read(
        self, *, path: str, columns: GivenColumns, name: str, strict: bool
    ) -> tuple[Trace, Notes]:
        """The trace of a file, sorted by submission, and what was done to its rows.

        Args:
            path: the file.
            columns: the reader's names of columns to the file's.
            name: name of the trace in reports.
            strict: whether a bad row is an error; if not, it is left out, counted and logged.

        Raises:
            TraceError: naming file, line, column, value and fix.
        """


class ColumnReader:
    """N rows of a text table; reading a column notes the rows that break its rules."""

    def __init__(self, table: TextTable, sieved: Mapping[str, int] | None = None) -> None:
        """Start with no row faulted.

        `sieved`: reason -> rows of the file that are no jobs and not in `table` any more.
        """
        self._table = table
        self._sieved = {reason: rows for reason, rows in (sieved or {}).items() if rows}
        self._problems: list[Problem] = []
        self._left_out: dict[str, BoolArray] = {}
        self._gang_keys: tuple[str, ...] = ()

    def __len__(self) -> int:
        """N."""
        return len(self._table.lines)

    @property
    def path(self) -> str:
        """The file."""
        return self._table.path

    @property
    def lines(self) -> Sequence[int]:
        """(N,) the line of the file at which each row starts."""
        return self._table.lines

    def has(self, key: str) -> bool:
        """Whether the file has the column."""
        return key in self._table.columns

    def given(self, key: str, read: Callable[..., C], **how: Any) -> C | None:
        """What `read`, one of the methods below, makes of a column; None: the file lacks it."""
        return read(key, **how) if self.has(key) else None

    def raw(self, key: str) -> list[str]:
        """(N,) texts, stripped; "" throughout where the file lacks the column."""
        return self._table.columns[key] if self.has(key) else [""] * len(self)

    def texts(self, key: str) -> TextArray:
        """(N,) texts, stripped; "" where the file lacks the column."""
        return objects(self.raw(key))

    def pairs(self, key: str, other: str) -> TextArray:
        """(N,) "text/other"; "" where the other column is empty."""
        both = zip(self.raw(key), self.raw(other), strict=True)
        return objects([f"{one}/{two}" if two else "" for one, two in both])

    def names(self, key: str) -> TextArray:
        """(N,) unique, non-empty names."""
        self.unique(key, self.raw(key))
        return self.texts(key)

    def unique(self, key: str, names: Sequence[str]) -> None:
        """Note rows whose name (made of `key` and other columns) is empty, or an earlier row's."""
        self._problems += row_rules.duplicates(key, names, self.lines)

    def times(self, key: str, *, blank_s: float | None = None) -> FloatArray:
        """(N,) seconds, 0 or more; an empty field is `blank_s`, or a fault if that is None."""
        return self._noted(row_rules.times(key, self.raw(key), blank_s=blank_s))

    def spans(self, key: str, form: str, *, blank_s: float | None = None) -> FloatArray:
        """(N,) seconds, from a form of `row_rules.DURATION_FORMATS`; blanks as for `times`."""
        return self._noted(row_rules.spans(key, self.raw(key), form, blank_s=blank_s))

    def timestamps(self, key: str, form: str | None = None) -> FloatArray:
        """(N,) seconds since the earliest row; ISO 8601, or a form of `strptime`."""
        return self._noted(row_rules.timestamps(key, self.raw(key), form))

    def moments(self, key: str) -> FloatArray:
        """(N,) seconds since 1970; NaN where the field is empty."""
        return self._noted(row_rules.moments(key, self.raw(key), blank_ok=True))

    def gangs(self, key: str, *, least: int = 1) -> IntArray:
        """(N,) whole numbers of GPUs from `least`."""
        self.gangs_from(key)
        values = self._noted(row_rules.gangs(key, self.raw(key), least=least))
        return np.clip(values, least, 2**31).astype(np.int64)

    def gangs_from(self, *keys: str) -> None:
        """Note the columns that tell how many GPUs a job has, for messages."""
        self._gang_keys = keys

    def amounts(self, key: str, *, blank: float) -> FloatArray:
        """(N,) numbers, 0 or more; an empty field is `blank`."""
        most = LARGEST_AMOUNT
        return self._noted(row_rules.amounts(key, self.raw(key), blank=blank, most=most))

    def counts(
        self, key: str, *, blank: int, least: int = 0, most: int = int(LARGEST_AMOUNT)
    ) -> IntArray:
        """(N,) whole numbers from `least` to `most`; an empty field is `blank`."""
        found = row_rules.counts(key, self.raw(key), blank=blank, least=least, most=most)
        return self._noted(found)

    def choices(
        self,
        key: str,
        meaning: Mapping[str, int],
        *,
        blank: int | None = None,
        first_word: bool = False,
    ) -> IntArray:
        """(N,) the meaning of words; an empty field is `blank`, or a fault if that is None.

        With `first_word`, what follows a blank in the field is not read.
        """
        texts = self.raw(key)
        if first_word:
            texts = [text.partition(" ")[0] for text in texts]
        return self._noted(row_rules.choices(key, texts, meaning, blank=blank))

    def flag(self, key: str, bad: BoolArray, rule: str) -> None:
        """Note rows that break a rule of the format; `rule` goes on after the value."""
        self._problems.append(Problem(key, bad, rule))

    def leave_out(self, rows: BoolArray, reason: str) -> None:
        """Leave out good rows that are no job for this simulator; they are counted."""
        self._left_out[reason] = rows

    def finish(self, trace: Trace, *, strict: bool) -> tuple[Trace, Notes]:
        """The usable jobs of a trace in file order, sorted by submission, and the notes.

        Raises:
            TraceError: the first fault, if `strict`; or if no job is left.
        """
        keep = self.good(strict)
        table = self._table
        skipped = table.rows - int(keep.sum())
        rows_read = table.rows + sum(self._sieved.values())
        left_out = dict(self._sieved)
        for reason, rows in self._left_out.items():
            if (rows & keep).any():
                left_out[reason] = int(np.sum(rows & keep))
                keep = keep & ~rows
        for reason, count in left_out.items():
            log.info("%s: %d rows left out: %s", table.path, count, reason)
        if not keep.any():
            raise nothing_usable(table.path, rows_read, left_out, strict)
        submit_s = trace.submit_s[keep]
        late = int(np.sum(submit_s < np.maximum.accumulate(submit_s)))
        order = np.flatnonzero(keep)[np.argsort(submit_s, kind="stable")]
        placed = replace(
            trace, line=np.array(self.lines, dtype=np.int64), file=str(table.path),
            gang_from=trace.gang_from or self._named(self._gang_keys),
        )  # fmt: skip
        return take(placed, order), Notes(rows_read, skipped, late, left_out)

    def good(self, strict: bool) -> BoolArray:
        """(N,) rows without a fault.

        Raises:
            TraceError: the first fault, if `strict`; otherwise faults are counted and logged.
        """
        nothing = np.zeros(len(self), dtype=np.bool_)
        bad: BoolArray = np.logical_or.reduce([nothing, *(each.bad for each in self._problems)])
        if bad.any():
            row = int(np.argmax(bad))
            message = self._told(row)
            if strict:
                raise TraceError(f"{message} (or skip such rows with workload.strict=false)")
            log.warning(
                "%d rows skipped, the first: %s; by rule: %s",
                int(bad.sum()), message, self._by_rule(),
            )  # fmt: skip
        return np.logical_not(bad)

    def _named(self, keys: Sequence[str]) -> str:
        names = [repr(self._table.names.get(key, key)) for key in keys if self.has(key)]
        return f"column {' or '.join(names)}" if names else ""

    def _told(self, row: int) -> str:
        problem = next(each for each in self._problems if each.bad[row])
        value = self.raw(problem.key)[row]
        column = self._table.names.get(problem.key, problem.key)
        return (
            f"{self._table.path}, line {self.lines[row]}, column '{column}': "
            f"{shown(value)} {problem.rule}"
        )

    def _by_rule(self) -> str:
        """How many rows each rule refuses; a row that breaks two counts in the first."""
        left = np.ones(len(self), dtype=np.bool_)
        number: Counter[str] = Counter()
        for problem in self._problems:
            number[f"{problem.key} {problem.rule.partition(';')[0]}"] += int(
                np.sum(problem.bad & left)
            )
            left &= ~problem.bad
        return ", ".join(f"{count} x {rule}" for rule, count in number.items() if count)

    def _noted(self, found: tuple[A, list[Problem]]) -> A:
        values, problems = found
        self._problems += problems
        return values


def nothing_usable(path: str, rows: int, left_out: Mapping[str, int], strict: bool) -> TraceError:
    """What to say of a file whose rows are all bad or no jobs."""
    why = "; ".join(f"{count} {reason}" for reason, count in left_out.items())
    return TraceError(
        f"{path}: none of its {rows} rows is usable"
        + (f" ({why})" if why else "")
        + ("" if strict else "; read it with workload.strict=true")
    )


def shown(value: object) -> str:
    """A value as messages quote it, cut where it is long."""
    text = repr(value)
    return text if len(text) <= LONGEST_QUOTE else f"{text[:LONGEST_QUOTE]}..."
