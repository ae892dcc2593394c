"""Which column of the user's file holds what: checks a mapping against a header."""

import difflib
from collections.abc import Iterable, Mapping

from sim.errors import TraceError

REQUIRED = ("job_id", "num_gpus", "duration_s")
SUBMIT = ("submit_s", "submit_time")
OPTIONAL = ("user", "vc")


def nearest(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` for the closest of `known`, or nothing."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean '{close[0]}'?" if close else ""


def checked_columns(columns: Mapping[str, str | None]) -> dict[str, str]:
    """The mapping without its nulls.

    Raises:
        TraceError: if a key is unknown or missing, or both or neither submit key is given.
    """
    known = (*REQUIRED, *SUBMIT, *OPTIONAL)
    for key in columns:
        if key not in known:
            raise TraceError(
                f"workload.columns.{key} is not a key{nearest(key, known)}; "
                f"keys: {', '.join(known)}"
            )
    given = {key: str(name) for key, name in columns.items() if name is not None}
    for key in REQUIRED:
        if key not in given:
            raise TraceError(f"workload.columns.{key} is missing; name the file's column for it")
    if len([key for key in SUBMIT if key in given]) != 1:
        raise TraceError(
            "workload.columns needs either submit_s (numbers, seconds) or submit_time "
            "(timestamps); set the other to null"
        )
    return given


def positions(columns: Mapping[str, str], header: list[str], path: str) -> dict[str, int]:
    """Field index of each mapped key in `header`.

    Raises:
        TraceError: if a column is absent or appears twice.
    """
    found: dict[str, int] = {}
    for key, name in columns.items():
        count = header.count(name)
        if count == 0:
            raise TraceError(_absent(key, name, header, path))
        if count > 1:
            raise TraceError(
                f"{path}, line 1: column '{name}' (for {key}) appears {count} times; rename one"
            )
        found[key] = header.index(name)
    return found


def _absent(key: str, name: str, header: list[str], path: str) -> str:
    message = (
        f"{path}, line 1: no column '{name}' for {key}{nearest(name, header)}; "
        f"the file has: {', '.join(header)}; set workload.columns.{key}=NAME"
    )
    if key == "submit_s":
        message += (
            " (for timestamps workload.columns.submit_s=null workload.columns.submit_time=NAME)"
        )
    if len(header) == 1 and any(mark in header[0] for mark in ";\t|"):
        message += "; fields must be separated by commas"
    return message
