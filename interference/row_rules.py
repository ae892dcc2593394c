"""Rules for columns of a table: the rows that break one, and what to say of the first."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sim.arrays import BoolArray, FloatArray, IntArray, TextArray
from sim.errors import PhysicsError, nearest

JOIN = "+"  # between the names of aggressors in a file


@dataclass(frozen=True)
class Fault:
    """One value that breaks a rule."""

    row: int
    column: str
    value: object
    fix: str

    def __str__(self) -> str:
        """Column, value and fix."""
        return f"{self.column} is {self.value!r}; {self.fix}"


class RowFault(PhysicsError):
    """A row of a table breaks a rule; readers tell it again with file and line."""

    def __init__(self, table: str, fault: Fault) -> None:
        """Keep the fault for the reader that knows the line."""
        super().__init__(f"{table} row {fault.row}: {fault}")
        self.fault = fault


def raise_first(table: str, faults: Iterable[Fault | None]) -> None:
    """Raise a RowFault for the fault of the earliest row, if there is any."""
    found = [fault for fault in faults if fault is not None]
    if found:
        raise RowFault(table, min(found, key=lambda fault: fault.row))


def check_columns(table: str, columns: dict[str, tuple[npt.NDArray[np.generic], type]]) -> None:
    """Raise a PhysicsError unless all columns are (N,) arrays of their types."""
    rows = None
    for name, (column, kind) in columns.items():
        if not isinstance(column, np.ndarray) or column.ndim != 1 or column.dtype != kind:
            what = (
                f"{column.dtype} {column.shape}"
                if isinstance(column, np.ndarray)
                else type(column).__name__
            )
            raise PhysicsError(
                f"{table}: column {name} is {what}; give a numpy array (N,) of {kind.__name__}"
            )
        rows = len(column) if rows is None else rows
        if len(column) != rows:
            raise PhysicsError(
                f"{table}: column {name} has {len(column)} rows; the first has {rows}"
            )


def where(
    column: str, values: Sequence[object] | npt.NDArray[np.generic], bad: BoolArray, fix: str
) -> Fault | None:
    """The first bad row as a fault."""
    if not bad.any():
        return None
    row = int(np.argmax(bad))
    value = values[row]
    return Fault(row, column, value.item() if isinstance(value, np.generic) else value, fix)


def names(column: str, values: TextArray, *, blank: bool = False) -> Fault | None:
    """Texts that a file gives back: printable, no blanks around; empty only where allowed."""
    bad = bad_names(values, blank=blank)
    return where(column, values, bad, "give a printable text without blanks around it")


def profiles(column: str, values: TextArray) -> Fault | None:
    """Names of profiles, which can be joined by `JOIN`."""
    fix = f"a profile's name must not hold {JOIN!r}, which joins aggressors in files"
    return names(column, values) or where(column, values, bad_profiles(values), fix)


def bad_names(values: TextArray, *, blank: bool = False) -> BoolArray:
    """(N,) whether a value is no name."""
    wrong = {value for value in set(values) if not _is_name(value, blank)}
    return np.array([value in wrong for value in values], dtype=np.bool_)


def bad_profiles(values: TextArray) -> BoolArray:
    """(N,) whether a value holds `JOIN`."""
    return np.array([JOIN in str(value) for value in values], dtype=np.bool_)


def choice(column: str, values: TextArray, known: Sequence[str]) -> Fault | None:
    """One of a few words."""
    bad = np.array([value not in known for value in values], dtype=np.bool_)
    fault = where(column, values, bad, "")
    hint = "" if fault is None else nearest(fault.value, known)
    return where(column, values, bad, f"known are {', '.join(known)}{hint}")


def fraction(column: str, values: FloatArray) -> Fault | None:
    """0..1, or NaN where unknown; a value above 1 was probably given in percent."""
    return where(column, values, values > 1.0, "utilisation is in percent; give 0..1") or where(
        column, values, values < 0.0, "give 0..1, or nothing where unknown"
    )


def positive(column: str, values: FloatArray) -> Fault | None:
    """Above 0 and finite, or NaN where unknown."""
    bad = (values <= 0.0) | np.isinf(values)
    return where(column, values, bad, "give a number above 0, or nothing where unknown")


def at_least_zero(column: str, values: FloatArray) -> Fault | None:
    """0 or more and finite, or NaN where unknown."""
    bad = (values < 0.0) | np.isinf(values)
    return where(column, values, bad, "give 0 or more, or nothing where unknown")


def at_least(column: str, values: IntArray, least: int) -> Fault | None:
    """Whole numbers from `least` on."""
    return where(column, values, values < least, f"give a whole number of {least} or more")


def _is_name(value: object, blank: bool) -> bool:
    if not isinstance(value, str) or value != value.strip() or not value.isprintable():
        return False
    return blank or value != ""
