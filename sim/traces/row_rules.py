"""Rules that every row of a trace obeys, checked over whole columns at once."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray

LONGEST_S = 1e11  # over 3,000 years: surely another unit
LARGEST_GANG = 1e9
BLANKS = ("", "nan", "none", "null")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
CLOCK = re.compile(r"(?:(?:(\d{1,6})-)?(\d{1,7}):)?(\d{1,7}):(\d\d(?:\.\d+)?)", re.ASCII)
UNITS_S = {"milliseconds": 1e-3, "seconds": 1.0, "minutes": 60.0, "hours": 3600.0}
CLOCK_FORMAT = "clock"
DURATION_FORMATS = (*UNITS_S, CLOCK_FORMAT)


@dataclass(frozen=True)
class Problem:
    """Rows that break one rule."""

    key: str  # our name of the column
    bad: BoolArray  # (N,)
    rule: str  # "is ...; do ..."


def times(
    key: str, texts: Sequence[str], *, blank_s: float | None = None, unit_s: float = 1.0
) -> tuple[FloatArray, list[Problem]]:
    """(N,) seconds of a column of numbers in `unit_s`, with the rows that are no usable time.

    An empty field is `blank_s` where that is given, and no number otherwise.
    """
    given = _given(texts, blank_s is not None)
    values, problems = _numbers(key, texts, given)
    values = values * unit_s
    problems += [
        Problem(key, values < 0, "is negative; times in seconds must be 0 or more"),
        Problem(key, values > LONGEST_S,
                "is over 3,000 years; if the column is in milliseconds, divide it by 1000"),
    ]  # fmt: skip
    return (values if blank_s is None else np.where(given, values, blank_s)), problems


def spans(
    key: str, texts: Sequence[str], form: str, *, blank_s: float | None = None
) -> tuple[FloatArray, list[Problem]]:
    """(N,) seconds of a column in one of DURATION_FORMATS; blanks and faults as for `times`."""
    if form != CLOCK_FORMAT:
        return times(key, texts, blank_s=blank_s, unit_s=UNITS_S[form])
    read = {text: clock_s(text) for text in dict.fromkeys(texts)}
    found = [read[text] for text in texts]
    unreadable = np.array([value is None for value in found], dtype=np.bool_)
    given = _given(texts, blank_s is not None)
    values = np.array([0.0 if value is None else value for value in found], dtype=np.float64)
    return np.where(given, values, blank_s if blank_s is not None else 0.0), [
        Problem(key, unreadable & given, "is no duration such as 01:30:00 or 2-01:30:00"),
        Problem(key, values > LONGEST_S, "is over 3,000 years; check the column"),
    ]


def clock_s(text: str) -> float | None:
    """Seconds of `[[D-]HH:]MM:SS`; None for another form."""
    match = CLOCK.fullmatch(text)
    if match is None:
        return None
    days, hours, minutes, seconds = (
        0.0 if part is None else float(part) for part in match.groups()
    )
    return ((days * 24.0 + hours) * 60.0 + minutes) * 60.0 + seconds


def gangs(key: str, texts: Sequence[str], *, least: int = 1) -> tuple[FloatArray, list[Problem]]:
    """(N,) gang sizes as floats, with the rows that are no whole number of GPUs from `least`."""
    values, problems = _numbers(key, texts, _given(texts, False))
    problems += [
        Problem(key, (values > 0) & (values != np.floor(values)),
                "is a fraction of GPUs; whole GPUs only, round requests up"),
        Problem(key, values < least, f"is below {least}; leave out jobs that use no GPU"),
        Problem(key, values > LARGEST_GANG, "is no plausible number of GPUs; check the column"),
    ]  # fmt: skip
    return values, problems


def amounts(
    key: str, texts: Sequence[str], *, blank: float, most: float
) -> tuple[FloatArray, list[Problem]]:
    """(N,) numbers from 0 to `most`; an empty field (or "nan", as data frames write it) is `blank`.

    NaN in `blank` is a value like any other: the caller tells rows without an amount by it.
    """
    given = np.array([text.lower() not in BLANKS for text in texts], dtype=np.bool_)
    values, problems = _numbers(key, texts, given)
    problems += [
        Problem(key, values < 0, "is negative; it must be 0 or more"),
        Problem(key, values > most, f"is above {most:g}, which is not plausible; check the unit"),
    ]
    return np.where(given, np.clip(values, 0.0, most), blank), problems


def counts(
    key: str, texts: Sequence[str], *, blank: int, least: int, most: int
) -> tuple[IntArray, list[Problem]]:
    """(N,) whole numbers from `least` to `most`; an empty field is `blank`."""
    given = _given(texts, True)
    values, problems = _numbers(key, texts, given)
    rule = f"is no whole number from {least} to {most}"
    outside = (values < least) | (values > most) | (values != np.floor(values))
    problems.append(Problem(key, given & outside, rule))
    bad = np.logical_or.reduce([problem.bad for problem in problems])
    return np.where(given & ~bad, values, blank).astype(np.int64), problems


def choices(
    key: str, texts: Sequence[str], meaning: Mapping[str, int], *, blank: int | None = None
) -> tuple[IntArray, list[Problem]]:
    """(N,) what each word means, upper or lower case; an empty field is `blank` where given."""
    known = {word.lower(): value for word, value in meaning.items()}
    if blank is not None:
        known[""] = blank
    codes = [known.get(text.lower()) for text in texts]
    values = np.array([0 if code is None else code for code in codes], dtype=np.int64)
    unknown = np.array([code is None for code in codes], dtype=np.bool_)
    return values, [Problem(key, unknown, f"is unknown; known are {', '.join(meaning)}")]


def timestamps(
    key: str, texts: Sequence[str], form: str | None = None
) -> tuple[FloatArray, list[Problem]]:
    """(N,) seconds since the earliest readable row of wall-clock times.

    Times are ISO 8601, in a `form` of `datetime.strptime`, or numbers in a unit of UNITS_S. Those
    without a zone are taken as they stand (no summer time); those with a zone are exact.
    """
    if form in UNITS_S:
        seconds, problems = times(key, texts, unit_s=UNITS_S[form])
    else:
        seconds, problems = moments(key, texts, blank_ok=False, form=form)
    readable = ~np.logical_or.reduce([problem.bad for problem in problems])
    if readable.any():
        seconds -= seconds[readable].min()
    return seconds, problems


def moments(
    key: str, texts: Sequence[str], *, blank_ok: bool, form: str | None = None
) -> tuple[FloatArray, list[Problem]]:
    """(N,) seconds since 1970 of timestamps (0 for a bad one); NaN for an allowed empty field."""
    given = _given(texts, blank_ok)
    found = [moment(text) if form is None else _formed(text, form) for text in texts]
    unreadable = np.array([m is None for m in found], dtype=np.bool_)
    aware = np.array([m is not None and m.tzinfo is not None for m in found], dtype=np.bool_)
    first_aware = bool(aware[np.argmin(unreadable)]) if len(aware) else False
    seconds = np.array([_seconds(m) for m in found], dtype=np.float64)
    return np.where(given, seconds, np.nan), [
        Problem(key, unreadable & given,
                "is not a timestamp such as 2020-03-18 04:01:39; map a column of seconds "
                "as workload.columns.submit_s instead"),
        Problem(key, ~unreadable & (aware != first_aware),
                "has a time zone where the first row has none, or the reverse; use one form"),
    ]  # fmt: skip


def duplicates(key: str, texts: Sequence[str], lines: Sequence[int]) -> list[Problem]:
    """Rows without a name, and rows whose name an earlier row has."""
    empty = Problem(key, np.array([not text for text in texts]), "is empty; every job needs a name")
    first: dict[str, int] = {}
    if len(set(texts)) == len(texts):
        return [empty]
    repeated = np.zeros(len(texts), dtype=np.bool_)
    rule = ""
    for row, text in enumerate(texts):
        if text in first:
            repeated[row] = True
            rule = rule or f"is the job of line {lines[first[text]]} again; names must be unique"
        first.setdefault(text, row)
    return [empty, Problem(key, repeated, rule)]


def _given(texts: Sequence[str], blank_ok: bool) -> BoolArray:
    """(N,) False where an empty field is allowed and the field is empty."""
    if not blank_ok:
        return np.ones(len(texts), dtype=np.bool_)
    return np.array([text != "" for text in texts], dtype=np.bool_)


def _numbers(key: str, texts: Sequence[str], given: BoolArray) -> tuple[FloatArray, list[Problem]]:
    """(N,) numbers, 1 where there is none (so that no other rule fires as well)."""
    unreadable = np.zeros(len(texts), dtype=np.bool_)
    try:
        values = np.array([float(text) for text in texts], dtype=np.float64)
    except ValueError:
        parsed = [_float(text) for text in texts]
        unreadable = np.array([value is None for value in parsed], dtype=np.bool_)
        values = np.array([1.0 if value is None else value for value in parsed])
    finite = np.isfinite(values)
    return np.where(finite & given, values, 1.0), [
        Problem(key, unreadable & given, "is not a number; write it plainly, like 3600 or 3600.5"),
        Problem(key, ~finite & given, "is not a finite number; give a value or leave the row out"),
    ]


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def moment(text: str) -> datetime | None:
    """A timestamp in ISO 8601, or in the form 2023/7/15 02:19 of spreadsheets."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        pass
    form = "%Y/%m/%d %H:%M" if text.count(":") == 1 else "%Y/%m/%d %H:%M:%S"
    return _formed(text, form)


def _formed(text: str, form: str) -> datetime | None:
    """A timestamp in a form of `strptime`."""
    try:
        return datetime.strptime(text, form)
    except ValueError:
        return None


def _seconds(moment: datetime | None) -> float:
    if moment is None:
        return 0.0
    zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return (zoned - EPOCH).total_seconds()
