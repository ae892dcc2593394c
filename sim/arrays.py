"""Array type aliases, and tables of arrays; shapes stand in comments beside each field."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Self, TypeVar

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Integers = npt.NDArray[np.integer[Any]]  # of any width, where there are millions
BoolArray = npt.NDArray[np.bool_]
TextArray = npt.NDArray[np.object_]
RowArray = npt.NDArray[np.void]  # structured

T = TypeVar("T", bound=np.generic)


class Rows:
    """Dataclass of equally long columns."""

    def take(self, rows: Any) -> Self:
        """The rows at `rows` (positions or a mask), in that order."""
        return type(self)(*(getattr(self, each.name)[rows] for each in fields(self)))  # type: ignore[arg-type]

    def __len__(self) -> int:
        """How many rows."""
        return len(getattr(self, fields(self)[0].name))  # type: ignore[arg-type]


def read_only(array: npt.NDArray[T]) -> npt.NDArray[T]:
    """A view of `array` that cannot be written through."""
    view = array.view()
    view.flags.writeable = False
    return view


def objects(values: Sequence[object]) -> TextArray:
    """(N,) any values, such as texts or tuples, as an array of objects."""
    return np.fromiter(values, dtype=np.object_, count=len(values))


def plain_number(text: str) -> float | None:
    """As `float`, but None for no number, for 12_3, which is an id, and digits of other scripts."""
    try:
        return float(text) if "_" not in text and text.isascii() else None
    except ValueError:
        return None


def distinct_rows(columns: Sequence[IntArray]) -> tuple[IntArray, IntArray]:
    """(K, C) distinct rows of C columns (n,), in order, and (n,) which of them each row is.

    As `np.unique(axis=0)`, column by column: a sixth of its time for 100,000 rows.
    """
    row_of = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        values, place = np.unique(column, return_inverse=True)
        if len(values) > 1:
            row_of = np.unique(row_of * len(values) + place, return_inverse=True)[1]
    first = np.unique(row_of, return_index=True)[1]
    return np.stack(columns, axis=1)[first], row_of
