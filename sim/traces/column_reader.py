"""The role of a reader, and what readers of CSV formats work on: columns with what is wrong."""

import logging
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, tzinfo
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray, TextArray, objects, plain_number
from sim.errors import TraceError, amount
from sim.text_files import NO_TIME, clock_s, moment, since_1970_s, wall_clock
from sim.traces.text_table import Columns, GivenColumns, TextTable, checked_columns, read_text_table
from sim.traces.trace import Trace, take

log = logging.getLogger(__name__)

LONGEST_S = 1e11  # over 3,000 years: surely another unit
LARGEST_GANG = 1e9
BLANKS = ("", "nan", "none", "null")
CLOCK_CHANGE_S = 3600.0  # local times jump back by this once a year
UNITS_S = {"milliseconds": 1e-3, "seconds": 1.0, "minutes": 60.0, "hours": 3600.0}
CLOCK_FORMAT = "clock"
DURATION_FORMATS = (*UNITS_S, CLOCK_FORMAT)
LARGEST_AMOUNT = 1e9
LONGEST_QUOTE = 80
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


@dataclass(frozen=True)
class Problem:
    """Rows that break one rule."""

    key: str  # our name of the column
    bad: BoolArray  # (N,)
    rule: str  # "is ...; do ...": rows are counted by what is before the ;


class ColumnReader:
    """N rows of a text table; reading a column notes the rows that break its rules."""

    def __init__(self, table: TextTable, strict: bool) -> None:
        """Start with no row faulted; `strict`: whether a bad row is an error."""
        self.table, self.path, self.strict = table, table.path, strict
        self.lines: Sequence[int] = table.lines  # (N,) of the file, at which each row starts
        self._problems: list[Problem] = []
        self._named_rows: dict[str, Sequence[str]] = {}  # names that must be unique
        self._left_out: dict[str, BoolArray] = {}
        self._gang_keys: tuple[str, ...] = ()
        self._zero: datetime | None = None  # wall clock from which submissions count
        self._first: datetime | None = None  # wall clock that was read; all have a zone, or none
        self._zone: tzinfo | None = None  # its own

    def __len__(self) -> int:
        """N."""
        return len(self.lines)

    def has(self, key: str) -> bool:
        """Whether the file has the column."""
        return key in self.table.columns

    def given(self, key: str, read: Callable[..., C], **how: Any) -> C | None:
        """What `read`, one of the methods below, makes of a column; None: the file lacks it."""
        return read(key, **how) if self.has(key) else None

    def raw(self, key: str) -> list[str]:
        """(N,) texts, stripped; "" throughout where the file lacks the column."""
        return self.table.columns[key] if self.has(key) else [""] * len(self)

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
        self.flag(key, _mask(not name for name in names), "is empty; every job needs a name")
        self._named_rows[key] = names

    def _flag_twins(self) -> None:
        """Note, before all else, rows whose name an earlier row has that is kept."""
        good = np.flatnonzero(~self._bad()).tolist()
        for key, names in self._named_rows.items():
            first = {names[row]: row for row in reversed(good)}
            again = _mask(first.get(name, row) < row for row, name in enumerate(names))
            if again.any():
                line = self.lines[first[names[int(np.argmax(again))]]]
                rule = f"is the job of an earlier row again; give it a name unlike line {line}'s"
                self._problems.insert(0, Problem(key, again, rule))

    def times(self, key: str, *, blank_s: float | None = None, unit_s: float = 1.0) -> FloatArray:
        """(N,) seconds, 0 or more; an empty field is `blank_s`, or a fault if that is None."""
        given = self._given(key, blank_s is not None)
        values = self._numbers(key, given) * unit_s
        self.flag(key, values < 0, "is negative; times in seconds must be 0 or more")
        rule = "is over 3,000 years; if the column is in milliseconds, divide it by 1000"
        self.flag(key, values > LONGEST_S, rule)
        return values if blank_s is None else np.where(given, values, blank_s)

    def spans(self, key: str, form: str, *, blank_s: float | None = None) -> FloatArray:
        """(N,) seconds, from a form of DURATION_FORMATS; blanks as for `times`."""
        if form != CLOCK_FORMAT:
            return self.times(key, blank_s=blank_s, unit_s=UNITS_S[form])
        texts, given = self.raw(key), self._given(key, blank_s is not None)
        read = {text: clock_s(text) for text in dict.fromkeys(texts)}
        found = [read[text] for text in texts]
        values = np.array([0.0 if value is None else value for value in found], dtype=np.float64)
        unreadable = _mask(value is None for value in found)
        self.flag(key, unreadable & given, "is no duration such as 01:30:00 or 2-01:30:00")
        self.flag(key, values > LONGEST_S, "is over 3,000 years; check the column")
        return np.where(given, values, 0.0 if blank_s is None else blank_s)

    def timestamps(self, key: str, form: str | None = None) -> FloatArray:
        """(N,) seconds since the earliest readable row of wall-clock times.

        Times are ISO 8601, in a `form` of `datetime.strptime`, or numbers in a unit of UNITS_S.
        Those without a zone are taken as they stand (no summer time); those with a zone are exact.
        """
        before = len(self._problems)
        if form in UNITS_S:
            seconds = self.times(key, unit_s=UNITS_S[form])
        else:
            seconds = self.moments(key, blank_ok=False, form=form)
        counted = self.from_earliest(seconds, ~self._bad(before))
        self._zero = None if form in UNITS_S else self._zero
        return counted

    def from_earliest(self, at_s: FloatArray, usable: BoolArray) -> FloatArray:
        """(N,) seconds since the earliest usable of some `moments`, which becomes second 0."""
        if not usable.any():
            return at_s
        first_s = float(at_s[usable].min())
        self._zero = wall_clock(first_s, self._zone)
        return at_s - first_s

    def moments(self, key: str, *, blank_ok: bool = True, form: str | None = None) -> FloatArray:
        """(N,) seconds since 1970 of ISO 8601, or of a form of `strptime`; NaN: NO_TIME."""
        given, texts = self._given(key, blank_ok, NO_TIME), self.raw(key)
        found = [moment(text, form) for text in texts]
        unreadable = _mask(each is None for each in found)
        aware = _mask(each is not None and each.tzinfo is not None for each in found)
        self._first = self._first or next((each for each in found if each is not None), None)
        self._zone = None if self._first is None else self._first.tzinfo
        fix = "; map a column of seconds as workload.columns.submit_s instead"
        rule = f"is not a timestamp such as 2020-03-18 04:01:39{fix * (key == 'submit_time')}"
        if form is not None:
            rule = f"is not in the form {form!r}; correct workload.reader.time_format"
        self.flag(key, unreadable & given, rule)
        rule = "has a time zone where the file's first time has none, or the reverse; use one form"
        self.flag(key, ~unreadable & (aware != (self._zone is not None)), rule)
        at_s = [0.0 if each is None else since_1970_s(each) for each in found]
        return np.where(given, np.array(at_s, dtype=np.float64), np.nan)

    def gangs(self, key: str) -> IntArray:
        """(N,) whole numbers of GPUs from 1."""
        self.gangs_from(key)
        values = self._numbers(key, self._given(key, False))
        self.flag(key, (values > 0) & (values != np.floor(values)),
                  "is a fraction of GPUs; whole GPUs only, round requests up")  # fmt: skip
        self.flag(key, values < 1, "is below 1; leave out jobs that use no GPU")
        self.flag(key, values > LARGEST_GANG, "is no plausible number of GPUs; check the column")
        return np.clip(values, 1, 2**31).astype(np.int64)

    def gangs_from(self, *keys: str) -> None:
        """Note the columns that tell how many GPUs a job has, for messages."""
        self._gang_keys = keys

    def amounts(self, key: str, *, blank: float) -> FloatArray:
        """(N,) numbers, 0 or more; an empty field (or "nan", as data frames write it) is `blank`.

        NaN in `blank` is a value like any other: the caller tells rows without an amount by it.
        """
        given, most = _mask(text.lower() not in BLANKS for text in self.raw(key)), LARGEST_AMOUNT
        values = self._numbers(key, given)
        self.flag(key, values < 0, "is negative; it must be 0 or more")
        self.flag(key, values > most, f"is above {most:g}, which is not plausible; check the unit")
        return np.where(given, np.clip(values, 0.0, most), blank)

    def counts(
        self, key: str, *, blank: int, least: int = 0, most: int = int(LARGEST_AMOUNT)
    ) -> IntArray:
        """(N,) whole numbers from `least` to `most`; an empty field is `blank`."""
        before, given = len(self._problems), self._given(key, True)
        values = self._numbers(key, given)
        outside = (values < least) | (values > most) | (values != np.floor(values))
        self.flag(key, given & outside, f"is no whole number from {least} to {most}")
        return np.where(given & ~self._bad(before), values, blank).astype(np.int64)

    def choices(
        self, key: str, meaning: Mapping[str, int], *, blank: int | None = None,
        first_word: bool = False,
    ) -> IntArray:  # fmt: skip
        """(N,) the meaning of words, upper or lower case.

        An empty field is `blank`, or a fault if that is None. With `first_word`, what follows a
        blank in the field is not read.
        """
        known = {word.lower(): value for word, value in meaning.items()}
        if blank is not None:
            known[""] = blank
        texts = [text.partition(" ")[0] if first_word else text for text in self.raw(key)]
        codes = [known.get(text.lower()) for text in texts]
        unknown = _mask(code is None for code in codes)
        self.flag(key, unknown, f"is unknown; known are {', '.join(meaning)}")
        return np.array([0 if code is None else code for code in codes], dtype=np.int64)

    def _given(self, key: str, blank_ok: bool, empty: Sequence[str] = ("",)) -> BoolArray:
        """(N,) False where an `empty` field is allowed and the field is one."""
        return _mask(not blank_ok or text not in empty for text in self.raw(key))

    def _numbers(self, key: str, given: BoolArray) -> FloatArray:
        """(N,) numbers, 1 where there is none (so that no other rule fires as well)."""
        parsed = [plain_number(text) for text in self.raw(key)]
        unreadable = _mask(value is None for value in parsed)
        values = np.array([1.0 if value is None else value for value in parsed])
        finite = np.isfinite(values)
        empty = _mask(text == "" for text in self.raw(key))
        self.flag(key, empty & given, "is empty; give a number or leave the row out")
        rule = "is not a number; write it plainly, like 3600 or 3600.5"
        self.flag(key, unreadable & given, rule)
        rule = "is not a finite number; give a value or leave the row out"
        self.flag(key, ~finite & given, rule)
        return np.where(finite & given, values, 1.0)

    def _bad(self, before: int = 0) -> BoolArray:
        """(N,) rows that break a rule noted after the first `before` ones."""
        bad = np.zeros(len(self), dtype=np.bool_)
        for each in self._problems[before:]:
            bad |= each.bad
        return bad

    def flag(self, key: str, bad: BoolArray, rule: str) -> None:
        """Note rows that break a rule of the format; `rule` goes on after the value."""
        self._problems.append(Problem(key, bad, rule))

    def leave_out(self, rows: BoolArray, reason: str) -> None:
        """Leave out good rows that are no job for this simulator; they are counted."""
        self._left_out[reason] = rows

    def finish(self, trace: Trace) -> tuple[Trace, Notes]:
        """The usable jobs of a trace in file order, sorted by submission, and the notes.

        Raises:
            TraceError: the first fault, if strict; or if no job is left.
        """
        keep = self.good()
        table = self.table
        left_out = dict(table.left_out)
        skipped = table.rows - sum(left_out.values()) - int(keep.sum())
        for reason, rows in self._left_out.items():
            if (rows & keep).any():
                left_out[reason] = int(np.sum(rows & keep))
                keep = keep & ~rows
        for reason, count in left_out.items():
            log.info("%s: %s left out: %s", table.path, amount(count, "row"), reason)
        if not keep.any():
            raise nothing_usable(table.path, table.rows, left_out, self.strict)
        submit_s = trace.submit_s[keep]
        late = int(np.sum(submit_s < np.maximum.accumulate(submit_s)))
        order = np.flatnonzero(keep)[np.argsort(submit_s, kind="stable")]
        placed = replace(
            trace, line=np.array(self.lines, dtype=np.int64), file=str(table.path),
            gang_from=trace.gang_from or self._named(self._gang_keys), zero=self._zero,
        )  # fmt: skip
        return take(placed, order), Notes(table.rows, skipped, late, left_out)

    def good(self) -> BoolArray:
        """(N,) rows without a fault; if strict, TraceError tells the first, else all are logged."""
        self._flag_twins()
        bad = self._bad()
        if bad.any():
            row = int(np.argmax(bad))
            message = self._fault(row)
            if self.strict:
                raise TraceError(f"{message} (or skip such rows with workload.strict=false)")
            log.warning(
                "%s skipped, the first: %s; by rule: %s",
                amount(int(bad.sum()), "row"), message, self._by_rule(),
            )  # fmt: skip
        return np.logical_not(bad)

    def _named(self, keys: Sequence[str]) -> str:
        names = [repr(self.table.names.get(key, key)) for key in keys if self.has(key)]
        return f"column {' or '.join(names)}" if names else ""

    def _fault(self, row: int) -> str:
        problem = next(each for each in self._problems if each.bad[row])
        value = self.raw(problem.key)[row]
        column = self.table.names.get(problem.key, problem.key)
        return (
            f"{self.table.path}, line {self.lines[row]}, column '{column}': "
            f"{shown(value)} {problem.rule}"
        )

    def _by_rule(self) -> str:
        """How many rows each rule refuses; a row that breaks two counts in the first."""
        left = np.ones(len(self), dtype=np.bool_)
        number: Counter[str] = Counter()
        for problem in self._problems:
            rule = problem.rule.partition(";")[0]
            number[f"{problem.key} {rule}"] += int(np.sum(problem.bad & left))
            left &= ~problem.bad
        return ", ".join(f"{count} x {rule}" for rule, count in number.items() if count)


class TableReader(ABC):
    """Reads a file of one table; a subclass says what its columns and rows are."""

    required: ClassVar[Sequence[str]]  # our names of columns
    optional: ClassVar[Sequence[str]]
    header: Sequence[str] | None = None  # names of the columns of a file without a header row

    def read(
        self, *, path: str, columns: GivenColumns, name: str, strict: bool
    ) -> tuple[Trace, Notes]:
        """The trace of a file; arguments and errors as `TraceReader` says."""
        wanted = checked_columns(columns, required=self.required, optional=self.optional)
        reader = self._rows(path, wanted, strict)
        return reader.finish(self._trace(reader, name))

    def _rows(self, path: str, wanted: Columns, strict: bool) -> ColumnReader:
        table = read_text_table(path, wanted, strict=strict, header=self.header)
        return ColumnReader(self._sieved(table), strict)

    def _sieved(self, table: TextTable) -> TextTable:
        """The rows that may be jobs."""
        return table

    @abstractmethod
    def _trace(self, reader: ColumnReader, name: str) -> Trace:
        """The rows as a trace in file order."""


def _mask(values: Iterable[bool]) -> BoolArray:
    return np.array(list(values), dtype=np.bool_)


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
