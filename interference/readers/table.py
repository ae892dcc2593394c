"""Columns of a measurement file as checked values, and errors that name file and line."""

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from interference.rows import Fault, RowFault
from sim.arrays import BoolArray, FloatArray, IntArray, Rows, TextArray, objects
from sim.errors import PhysicsError, nearest
from sim.text_files import quoted_rows, read_text

BLANKS = ("", "nan")
FLAGS = {"0": False, "1": True, "false": False, "true": True}
NEAR_MISS = 0.85  # likeness from which an unknown column is taken for a slip of the pen
LARGEST_WHOLE = 2**53  # beyond, a float loses ones


@dataclass(frozen=True)
class Table:
    """N rows of a comma-separated file as text."""

    path: Path
    columns: dict[str, list[str]]  # (N,) each, stripped
    lines: list[int]  # (N,) at which each row starts

    def __len__(self) -> int:
        """N."""
        return len(self.lines)

    def place(self, row: int) -> str:
        """File and line of a row."""
        return f"{self.path}:{self.lines[row]}"

    def texts(self, column: str, *, absent: str = "") -> TextArray:
        """(N,) texts; `absent` throughout where the file lacks the column."""
        return objects(self.columns.get(column, [absent] * len(self)))

    def numbers(self, column: str, *, absent: float = np.nan) -> FloatArray:
        """(N,) numbers, NaN where the field is empty; `absent` where the file lacks the column."""
        texts = self.columns.get(column)
        if texts is None:
            return np.full(len(self), absent)
        return np.array([self._number(column, row, text) for row, text in enumerate(texts)])

    def wholes(self, column: str, *, absent: int = 0, empty: int | None = None) -> IntArray:
        """(N,) whole numbers; `absent` where the file lacks the column, `empty` in empty fields.

        With `empty` None an empty field is a fault.
        """
        values = self.numbers(column, absent=absent)
        if empty is not None:
            values = np.where(np.isnan(values), empty, values)
        wrong = ~(np.isfinite(values) & (values == np.floor(values)))
        wrong |= np.abs(values) > LARGEST_WHOLE
        self.refuse(column, wrong, "expected a whole number")
        return values.astype(np.int64)

    def flags(self, column: str, *, absent: bool) -> BoolArray:
        """(N,) 0 or 1 as booleans; `absent` where the file lacks the column."""
        texts = self.columns.get(column)
        if texts is None:
            return np.full(len(self), absent, dtype=np.bool_)
        wrong = np.array([text.lower() not in FLAGS for text in texts], dtype=np.bool_)
        self.refuse(column, wrong, "expected 0 or 1")
        return np.array([FLAGS[text.lower()] for text in texts], dtype=np.bool_)

    def _number(self, column: str, row: int, text: str) -> float:
        try:
            return np.nan if text.lower() in BLANKS else float(text)
        except ValueError:
            raise PhysicsError(
                f"{self.place(row)}: {column} is {text!r}; expected a number"
            ) from None

    def refuse(self, column: str, wrong: BoolArray, fix: str) -> None:
        """Raise a PhysicsError for the first row that is `wrong`, if there is any."""
        if wrong.any():
            row = int(np.argmax(wrong))
            raise PhysicsError(
                f"{self.place(row)}: {column} is {self.columns[column][row]!r}; {fix}"
            )


@contextmanager
def faults_at(
    place: Callable[[int], str], more: Callable[[Fault], str] = lambda _: ""
) -> Iterator[None]:
    """Tell a fault of a row with its place in a file, and what `more` says of it."""
    try:
        yield
    except RowFault as error:
        fault = error.fault
        raise PhysicsError(f"{fault.told(place)}{more(fault)}") from error


def file_of(folder: Path | str, name: str) -> Path:
    """The file `name` below a folder of measurements."""
    path = Path(folder) / name
    if not path.is_file():
        raise PhysicsError(
            f"{path}: no such file; give the folder that holds {name}, not {str(folder)!r}"
        )
    return path


def header_of(path: Path) -> list[str]:
    """Names of the columns of a file; empty where the file is.

    Raises:
        PhysicsError: if it cannot be read.
    """
    _check_is_file(path)
    return next(_rows(path), (1, []))[1]


def read_table(path: Path, needed: Sequence[str], optional: Sequence[str] = ()) -> Table:
    """Read some columns of a plain or gzip file; PhysicsError names file, line and value."""
    _check_is_file(path)
    rows = _rows(path)
    _, header = next(rows, (1, []))
    if not header:
        raise PhysicsError(f"{path}: the file is empty; needed are the columns {', '.join(needed)}")
    _check_header(path, header, needed, optional)
    wanted = [name for name in (*needed, *optional) if name in header]
    index = [header.index(name) for name in wanted]
    table = Table(path, {name: [] for name in wanted}, [])
    for line, cells in rows:
        if len(cells) != len(header):
            raise PhysicsError(
                f"{path}:{line}: the row has {len(cells)} fields, the header {len(header)}; "
                "complete the row"
            )
        table.lines.append(line)
        for name, at in zip(wanted, index, strict=True):
            table.columns[name].append(cells[at])
    if not table.lines:
        raise PhysicsError(f"{path}: only a header and no row; add one row a measurement")
    return table


def _check_is_file(path: Path) -> None:
    if not path.is_file():
        what = "is a folder; name a file" if path.is_dir() else "no such file; check the name"
        raise PhysicsError(f"{path}: {what}")


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """First line and stripped fields of each row; blank lines are left out."""
    text = read_text(str(path), PhysicsError, fix="check that you may read it", at=":")
    for cells, line in quoted_rows(text, str(path), PhysicsError, at=":"):
        yield line, [cell.strip() for cell in cells]


def _check_header(
    path: Path, header: list[str], needed: Sequence[str], optional: Sequence[str]
) -> None:
    for name in (*needed, *optional):
        if header.count(name) > 1:
            raise PhysicsError(f"{path}:1: column {name!r} is there twice; rename one")
    others = [name for name in header if name not in (*needed, *optional)]
    for name in needed:
        if name not in header:
            raise PhysicsError(
                f"{path}:1: no column {name!r}{nearest(name, others)}; the file has "
                f"{', '.join(header)}"
            )
    # A misspelt optional column would otherwise pass as absent.
    absent = [name for name in optional if name not in header]
    for name in others:
        if near := difflib.get_close_matches(name.lower(), absent, n=1, cutoff=NEAR_MISS):
            raise PhysicsError(
                f"{path}:1: column {name!r} is not known; rename it to {near[0]!r}, or leave it out"
            )


@dataclass(frozen=True)
class Sides(Rows):
    """M directed sides of pairs: who ran beside whom, and which line of the file told it."""

    line: IntArray  # (M,) row of the file
    side: IntArray  # (M,) 0 where the victim is the line's first job, 1 where it is the second
    victim: TextArray  # (M,)
    aggressor: TextArray  # (M,)
    norm_speed: FloatArray  # (M,)
    measured: BoolArray  # (M,)


def both_sides(
    *,
    profiles: tuple[Sequence[str], Sequence[str]],
    speeds: tuple[FloatArray, FloatArray],
    measured: tuple[BoolArray, BoolArray],
) -> Sides:
    """Two sides a line, a then b; the lines stay in order."""
    (a, b), n = profiles, len(profiles[0])
    return Sides(
        line=np.repeat(np.arange(n), 2),
        side=np.tile([0, 1], n),
        victim=objects([name for pair in zip(a, b, strict=True) for name in pair]),
        aggressor=objects([name for pair in zip(b, a, strict=True) for name in pair]),
        norm_speed=np.stack(speeds, axis=1).ravel(),
        measured=np.stack(measured, axis=1).ravel(),
    )


def measured_once(sides: Sides, gpu_type: TextArray, split: TextArray) -> Sides:
    """The sides, but for those of lines that tell what an earlier line does, to the last digit.

    A file that lists every pair in both directions measured none twice.
    """
    told: dict[int, set[tuple[str, str, str]]] = {}
    columns = sides.line.tolist(), sides.victim, sides.aggressor, map(str, sides.norm_speed)
    for line, victim, aggressor, speed in zip(*columns, strict=True):
        told.setdefault(line, set()).add((victim, aggressor, speed))
    first = {
        (gpu_type[line], split[line], frozenset(told[line])): line for line in sorted(told)[::-1]
    }
    return sides.take(np.isin(sides.line, list(first.values())))


def pair_numbers(sides: Sides, gpu_type: TextArray, split: TextArray) -> IntArray:
    """(M,) group of each side: equal for (a, b) and (b, a) on one GPU type, numbered as they come.

    A pair that a file tells in two lines, one a direction, is one group all the same, unless the
    file puts the two into different splits.
    """
    number: dict[tuple[str, str, str, str], int] = {}
    groups = []
    for line, a, b in zip(sides.line.tolist(), sides.victim, sides.aggressor, strict=True):
        key = gpu_type[line], split[line], min(a, b), max(a, b)
        groups.append(number.setdefault(key, len(number)))
    return np.array(groups, dtype=np.int64)


def in_the_file(
    sides: Sides, columns: Mapping[str, Sequence[str]], solos: Path
) -> Callable[[Fault], str]:
    """What to add to a fault of these sides: the file's own column, and where solo profiles are.

    `columns`: column of the schema -> the file's, for victims that are first and second jobs.
    """

    def words(fault: Fault) -> str:
        if fault.column not in columns:
            return ""
        text = f" (column {columns[fault.column][sides.side[fault.row]]}"
        if fault.column in ("victim", "aggressors"):
            text += f"; runs alone are in {solos}"
        return f"{text})"

    return words


def profile_name(model: str, batch: int | None = None, *marks: str) -> str:
    """`model/batch@mark@mark`; a batch of None is left out, and so is an empty mark."""
    base = model if batch is None else f"{model}/{batch}"
    return "@".join([base, *(mark for mark in marks if mark)])
