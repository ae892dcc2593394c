"""Which column of the user's file holds what: checks a mapping against a header."""

import difflib
from collections.abc import Iterable, Mapping, Sequence

from sim.errors import TraceError

DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|", "blank": " "}
Columns = Mapping[str, str | Sequence[str]]  # our name -> the file's, or several to be joined
GivenColumns = Mapping[str, str | Sequence[str] | None]  # null: not in the file


def nearest(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` for the closest of `known`, or nothing."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean '{close[0]}'?" if close else ""


def checked_columns(
    columns: GivenColumns, *, required: Sequence[str], optional: Sequence[str]
) -> dict[str, str | Sequence[str]]:
    """The mapping without its nulls.

    Raises:
        TraceError: if a key is unknown or a required one is missing.
    """
    known = (*required, *optional)
    for key in columns:
        if key not in known:
            raise TraceError(
                f"workload.columns.{key} is not a key{nearest(key, known)}; "
                f"keys: {', '.join(known)}"
            )
    given = {key: _name(key, name) for key, name in columns.items() if name is not None}
    for key in required:
        if key not in given:
            raise TraceError(f"workload.columns.{key} is missing; name the file's column for it")
    return given


def checked_delimiter(given: str) -> str:
    """The sign that `given`, a sign or a word of DELIMITERS, means.

    Raises:
        TraceError: it is neither.
    """
    sign = DELIMITERS.get(given, given)
    if len(sign) != 1 or sign in '\r\n"':
        raise TraceError(
            f"workload.reader.delimiter is {given!r}; give one sign, or one of "
            f"{', '.join(DELIMITERS)}"
        )
    return sign


def check_either(given: Mapping[str, object], first: str, second: str, what: str) -> None:
    """Raise a TraceError unless exactly one of two keys is given."""
    if (first in given) == (second in given):
        raise TraceError(
            f"workload.columns needs either {first} or {second} ({what}); set the other to null"
        )


def _name(key: str, name: object) -> str | Sequence[str]:
    if isinstance(name, list | tuple) and name and all(isinstance(one, str) for one in name):
        return [str(one) for one in name]
    if isinstance(name, list | tuple | dict):
        raise TraceError(
            f"workload.columns.{key} is {name}; give the name of a column, or a list of names to "
            f"be joined"
        )
    return str(name)


def positions(
    columns: Columns, header: list[str], path: str, delimiter: str = ","
) -> dict[str, list[int]]:
    """Field indices of each mapped key in `header`, which `delimiter` divides.

    Raises:
        TraceError: if a column is absent or appears twice.
    """
    return {
        key: [
            _position(key, name, header, path, delimiter)
            for name in ([names] if isinstance(names, str) else names)
        ]
        for key, names in columns.items()
    }


def _position(key: str, name: str, header: list[str], path: str, delimiter: str) -> int:
    count = header.count(name)
    if count == 0:
        raise TraceError(_absent(key, name, header, path, delimiter))
    if count > 1:
        raise TraceError(
            f"{path}, line 1: column '{name}' (for {key}) appears {count} times; rename one"
        )
    return header.index(name)


def _absent(key: str, name: str, header: list[str], path: str, delimiter: str) -> str:
    message = (
        f"{path}, line 1: no column '{name}' for {key}{nearest(name, header)}; "
        f"the file has: {', '.join(header)}; set workload.columns.{key}=NAME"
    )
    if key == "submit_s":
        message += " (for timestamps workload.columns.submit_time=NAME)"
    other = next((word for word, mark in DELIMITERS.items() if mark in header[0]), None)
    if len(header) == 1 and other is not None:
        wanted = next((f"{word}s" for word, mark in DELIMITERS.items() if mark == delimiter), "")
        message += (
            f"; fields must be separated by {wanted or repr(delimiter)} (workload=csv and sacct "
            f"take workload.reader.delimiter={other})"
        )
    return message
