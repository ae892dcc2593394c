"""Columns of a table as text, with the line each row starts at, before any meaning."""

import csv
import io
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sim.arrays import BoolArray
from sim.errors import TraceError
from sim.traces.column_map import Columns, positions
from sim.traces.text_file import read_text

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Layout:
    """How a line is cut into fields."""

    delimiter: str = ","  # one sign; "": any run of blanks and tabs
    quoted: bool = True  # False: a quotation mark is a sign like any other
    comment: str = ""  # lines that begin with it are no rows; "": all are


CSV = Layout()


@dataclass(frozen=True)
class TextTable:
    """N rows of some columns of a file; blank lines are left out."""

    path: str
    names: Mapping[str, str]  # our name of each column -> the file's
    columns: Mapping[str, list[str]]  # our name -> (N,) fields, stripped
    lines: list[int]  # (N,) 1-based line at which the row starts
    rows: int  # in the file, with those of another length (strict=false only)
    unread: Sequence[str]  # names of its other columns

    def only(self, kept: BoolArray) -> "TextTable":
        """The rows where `kept` (N,) is True, as if the file had no others."""
        rows = [row for row, keep in enumerate(kept.tolist()) if keep]
        return replace(
            self,
            columns={key: [texts[row] for row in rows] for key, texts in self.columns.items()},
            lines=[self.lines[row] for row in rows],
            rows=self.rows - (len(self.lines) - len(rows)),
        )


Row = tuple[list[str], int]  # fields and the line they start at


@dataclass
class _Broken:
    """Rows of another length than the header."""

    count: int = 0
    first: str = ""
    fix_of_long: str = ""


@dataclass
class _Gathered:
    columns: dict[str, list[str]]
    lines: list[int] = field(default_factory=list)
    broken: _Broken = field(default_factory=_Broken)


def read_text_table(
    path: str,
    wanted: Columns | Callable[[Sequence[str]], Columns],
    *,
    strict: bool,
    header: Sequence[str] | None = None,
    layout: Layout = CSV,
) -> TextTable:
    """Read the wanted columns of a plain or gzip file of UTF-8 text.

    Args:
        path: the file.
        wanted: our name of a column to the file's, or what makes that of the file's names; several
            names are joined with "/".
        strict: whether a row of another length than the header is an error; if not, such rows are
            left out, counted and logged.
        header: names of the columns of a file without a header row; None: its first row names them.
        layout: how lines are cut into fields.

    Raises:
        TraceError: if the file cannot be read, unpacked, decoded or split, lacks a column, or holds
            no rows.
    """
    text = read_text(path)
    rows = _quoted_rows(text, path, layout) if layout.quoted else _plain_rows(text, layout)
    names = list(header) if header is not None else _header(rows, path)
    chosen = wanted(names) if callable(wanted) else wanted
    place = positions(chosen, names, path, layout.delimiter)
    got = _gather(rows, path, place, names, strict, layout)
    total = len(got.lines) + got.broken.count
    if total == 0 and header is not None:
        raise TraceError(f"{path}: the file is empty; it needs one row a job")
    if total == 0:
        raise TraceError(f"{path}: only a header row and no job; add one row a job")
    if not got.lines:
        raise TraceError(
            f"{path}: no row has the {len(names)} fields of the header; {got.broken.first}"
        )
    if got.broken.count:
        log.warning("%d rows skipped, the first: %s", got.broken.count, got.broken.first)
    shown = {key: " + ".join([one] if isinstance(one, str) else one) for key, one in chosen.items()}
    read = {at for group in place.values() for at in group}
    unread = [name for at, name in enumerate(names) if at not in read]
    return TextTable(path, shown, got.columns, got.lines, total, unread)


def _header(rows: Iterator[Row], path: str) -> list[str]:
    first = next(rows, None)
    if first is None:
        raise TraceError(f"{path}: the file is empty; it needs a header row and one row a job")
    return [name.strip() for name in first[0]]


def _plain_rows(text: str, layout: Layout) -> Iterator[Row]:
    for number, line in enumerate(text.split("\n"), start=1):  # no other sign ends a line
        if not line.strip() or (layout.comment and line.lstrip().startswith(layout.comment)):
            continue
        yield line.split(layout.delimiter) if layout.delimiter else line.split(), number


def _quoted_rows(text: str, path: str, layout: Layout) -> Iterator[Row]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=layout.delimiter)
    start = 1
    try:
        for fields in reader:
            if fields:
                yield fields, start
            start = reader.line_num + 1
    except csv.Error as error:
        raise TraceError(
            f"{path}, line {start}: the row cannot be split into fields ({error}); "
            f"check its quotation marks"
        ) from error


def _gather(
    rows: Iterator[Row],
    path: str,
    place: Mapping[str, Sequence[int]],
    names: list[str],
    strict: bool,
    layout: Layout,
) -> _Gathered:
    """Fields of the wanted columns; equal texts are kept once."""
    width = len(names)
    got = _Gathered({key: [] for key in place})
    if layout.delimiter and not layout.quoted:
        got.broken.fix_of_long = (
            f" (a field that holds {layout.delimiter!r}? write the file with another sign, named "
            f"in workload.reader.delimiter)"
        )
    single = [(got.columns[key], at[0]) for key, at in place.items() if len(at) == 1]
    joined = [(got.columns[key], at) for key, at in place.items() if len(at) > 1]
    known: dict[str, str] = {}
    once = known.setdefault
    for fields, line in rows:
        if len(fields) != width:
            _note_broken(got.broken, (fields, line), path, width, strict)
            continue
        if line == 1 and fields == names:
            raise TraceError(
                f"{path}, line 1: is a header row, in a format that has none; set "
                f"workload.reader.header=null"
            )
        got.lines.append(line)
        for column, index in single:
            text = fields[index].strip()
            column.append(once(text, text))
        for column, indices in joined:
            column.append("/".join(fields[index].strip() for index in indices))
    return got


def _note_broken(broken: _Broken, row: Row, path: str, width: int, strict: bool) -> None:
    fields, line = row
    if broken.count == 0:
        short = len(fields) < width
        what, fix = ("cut off", "") if short else ("too long", broken.fix_of_long)
        broken.first = (
            f"{path}, line {line}: the row is {what}: {len(fields)} fields, the header "
            f"has {width}{fix}; complete the row, or skip such rows with workload.strict=false"
        )
        if strict:
            raise TraceError(broken.first)
    broken.count += 1
