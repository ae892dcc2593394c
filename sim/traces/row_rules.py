"""Rules that every row of a trace obeys, checked over whole columns at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from sim.arrays import BoolArray, FloatArray

LONGEST_S = 1e11  # over 3,000 years: surely another unit
LARGEST_GANG = 1e9
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Problem:
    """Rows that break one rule."""

    key: str  # our name of the column
    bad: BoolArray  # (N,)
    rule: str  # "is ...; do ..."


def times(key: str, texts: Sequence[str]) -> tuple[FloatArray, list[Problem]]:
    """(N,) seconds of a column of numbers, with the rows that are no usable time."""
    values, problems = _numbers(key, texts)
    problems += [
        Problem(key, values < 0, "is negative; times in seconds must be 0 or more"),
        Problem(key, values > LONGEST_S,
                "is over 3,000 years; if the column is in milliseconds, divide it by 1000"),
    ]  # fmt: skip
    return values, problems


def gangs(key: str, texts: Sequence[str]) -> tuple[FloatArray, list[Problem]]:
    """(N,) gang sizes as floats, with the rows that are no whole number of GPUs."""
    values, problems = _numbers(key, texts)
    problems += [
        Problem(key, (values > 0) & (values != np.floor(values)),
                "is a fraction of GPUs; whole GPUs only, round requests up"),
        Problem(key, values < 1, "is below 1; leave out jobs that use no GPU"),
        Problem(key, values > LARGEST_GANG, "is no plausible number of GPUs; check the column"),
    ]  # fmt: skip
    return values, problems


def timestamps(key: str, texts: Sequence[str]) -> tuple[FloatArray, list[Problem]]:
    """(N,) seconds since the earliest readable row of ISO 8601 wall-clock times.

    Times without a zone are taken as they stand (no summer time); times with a zone are exact.
    """
    moments = [_moment(text) for text in texts]
    unreadable = np.array([moment is None for moment in moments])
    aware = np.array([m is not None and m.tzinfo is not None for m in moments])
    first_aware = bool(aware[np.argmin(unreadable)]) if len(aware) else False
    seconds = np.array([_seconds(moment) for moment in moments])
    if not unreadable.all():
        seconds -= seconds[~unreadable].min()
    return seconds, [
        Problem(key, unreadable,
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


def _numbers(key: str, texts: Sequence[str]) -> tuple[FloatArray, list[Problem]]:
    """(N,) numbers, 1 where there is none (so that no other rule fires as well)."""
    unreadable = np.zeros(len(texts), dtype=np.bool_)
    try:
        values = np.array([float(text) for text in texts], dtype=np.float64)
    except ValueError:
        parsed = [_float(text) for text in texts]
        unreadable = np.array([value is None for value in parsed])
        values = np.array([1.0 if value is None else value for value in parsed])
    finite = np.isfinite(values)
    return np.where(finite, values, 1.0), [
        Problem(key, unreadable, "is not a number; write it plainly, like 3600 or 3600.5"),
        Problem(key, ~finite, "is not a finite number; give a value or leave the row out"),
    ]


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _moment(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text.strip())
    except ValueError:
        return None


def _seconds(moment: datetime | None) -> float:
    if moment is None:
        return 0.0
    zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return (zoned - EPOCH).total_seconds()
