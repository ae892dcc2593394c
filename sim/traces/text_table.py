"""A text file of a trace, plain or gzip, as columns of text with the line of each row."""

import logging
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sim.errors import PLAIN_NAME, TraceError, amount, check_keys, nearest, override
from sim.text_files import Row, quoted_rows, read_text

DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|", "blank": " "}
Columns = Mapping[str, str | Sequence[str]]  # our name -> the file's, or several to be joined
GivenColumns = Mapping[str, str | Sequence[str] | None]  # null: not in the file


def checked_columns(
    columns: GivenColumns, *, required: Sequence[str], optional: Sequence[str]
) -> dict[str, str | Sequence[str]]:
    """The mapping without its nulls; TraceError: a key is unknown, or a required one is missing."""
    check_keys(columns, (*required, *optional), "workload.columns", TraceError)
    given = {key: _name(key, name) for key, name in columns.items() if name is not None}
    for key in required:
        if key not in given:
            raise TraceError(f"workload.columns.{key} is missing; name the file's column for it")
    return given


def checked_delimiter(given: object) -> str:
    """The sign that `given`, a sign or a word of DELIMITERS, means; TraceError: it is neither."""
    sign = DELIMITERS.get(str(given), str(given))
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
    """Field indices of each mapped key in `header`; TraceError: a column is absent, or twice."""
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


DISPENSABLE = ("user", "vc", "group", "model", "priority")  # whatever the reader


def mapping_word(key: str, name: str) -> str:
    """The word of a command line that maps a column, quoted for Hydra and the shell if need be."""
    return shlex.quote(override(f"workload.columns.{key}", name))


def _absent(key: str, name: str, header: list[str], path: str, delimiter: str) -> str:
    message = (
        f"{path}, line 1: no column '{name}' for {key}{nearest(name, header)}; "
        f"the file has: {', '.join(header)}; set workload.columns.{key}=NAME"
    )
    odd = next((each for each in header if not PLAIN_NAME.fullmatch(each)), None)
    if odd is not None and len(header) > 1:
        message += f", quoted where it has other signs than letters: {mapping_word(key, odd)}"
    if key in DISPENSABLE:
        message += ", or =null where there is none"
    if key == "submit_s":
        message += " (for timestamps workload.columns.submit_time=NAME)"
    other = next((word for word, mark in DELIMITERS.items() if mark in header[0]), None)
    if len(header) == 1 and other is not None:
        wanted = next((f"{word}s" for word, mark in DELIMITERS.items() if mark == delimiter), "")
        better = "sacct --parsable2 writes them; " if delimiter == DELIMITERS["pipe"] else ""
        message += (
            f"; fields must be separated by {wanted or repr(delimiter)} ({better}workload=csv and "
            f"sacct take workload.reader.delimiter={other})"
        )
    return message


log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Dialect:
    """How a line is cut into fields."""

    delimiter: str = ","  # one sign; "": any run of blanks and tabs
    quoted: bool = True  # False: a quotation mark is a sign like any other
    comment: str = ""  # lines that begin with it are no rows; "": all are


CSV = Dialect()


@dataclass(frozen=True)
class TextTable:
    """N rows of some columns of a file; blank lines are left out."""

    path: str
    names: Mapping[str, str]  # our name of each column -> the file's
    columns: Mapping[str, list[str]]  # our name -> (N,) fields, stripped
    lines: list[int]  # (N,) 1-based line at which the row starts
    rows: int  # in the file, with those left out and those of another length (strict=false only)
    unread: Sequence[str]  # names of its other columns
    left_out: Mapping[str, int] = field(default_factory=dict)  # reason -> rows that are no job

    def without(self, reasons: Sequence[str]) -> "TextTable":
        """The rows whose reason (N,) to be left out is ""; the others are counted by theirs."""
        rows = [row for row, reason in enumerate(reasons) if not reason]
        return replace(
            self,
            columns={key: [texts[row] for row in rows] for key, texts in self.columns.items()},
            lines=[self.lines[row] for row in rows],
            left_out=Counter(self.left_out) + Counter(filter(None, reasons)),
        )

    def with_gpus(self, gpus: Iterable[float | None], reason: str = "use no GPU") -> "TextTable":
        """The rows of other than 0 `gpus` (N,), before other columns are read.

        None, of a text that is no number, stays: whoever reads the column names it.
        """
        return self.without([reason if number == 0 else "" for number in gpus])


@dataclass
class _Gathered:
    columns: dict[str, list[str]]
    lines: list[int] = field(default_factory=list)
    broken: int = 0  # rows of another length than the header
    first_broken: str = ""


def read_text_table(
    path: str,
    wanted: Columns | Callable[[Sequence[str]], Columns],
    *,
    strict: bool,
    header: Sequence[str] | None = None,
    dialect: Dialect = CSV,
) -> TextTable:
    """Read the wanted columns of a plain or gzip file of UTF-8 text.

    Args:
        path: the file.
        wanted: our name of a column to the file's, or what makes that of the file's names; several
            names are joined with "/".
        strict: whether a row of another length than the header is an error; if not, such rows are
            left out, counted and logged.
        header: names of the columns of a file without a header row; None: its first row names them.
        dialect: how lines are cut into fields.

    Raises:
        TraceError: if the file cannot be read, unpacked, decoded or split, lacks a column, or holds
            no rows.
    """
    text = read_text(path)
    rows = _plain_rows(text, dialect)
    if dialect.quoted:
        rows = quoted_rows(text, path, delimiter=dialect.delimiter)
    names = list(header) if header is not None else _header(rows, path)
    chosen = wanted(names) if callable(wanted) else wanted
    place = positions(chosen, names, path, dialect.delimiter)
    got = _gather(rows, path, place, names, strict, dialect)
    total = len(got.lines) + got.broken
    if total == 0 and header is not None:
        raise TraceError(f"{path}: the file is empty; it needs one row a job")
    if total == 0:
        raise TraceError(f"{path}: only a header row and no job; add one row a job")
    if not got.lines:
        raise TraceError(
            f"{path}: no row has the {len(names)} fields of the header; {got.first_broken}"
        )
    if got.broken:
        log.warning("%s skipped, the first: %s", amount(got.broken, "row"), got.first_broken)
    shown = {key: " + ".join([one] if isinstance(one, str) else one) for key, one in chosen.items()}
    read = {at for group in place.values() for at in group}
    unread = [name for at, name in enumerate(names) if at not in read]
    return TextTable(path, shown, got.columns, got.lines, total, unread)


def _header(rows: Iterator[Row], path: str) -> list[str]:
    first = next(rows, None)
    if first is None:
        raise TraceError(f"{path}: the file is empty; it needs a header row and one row a job")
    return [name.strip() for name in first[0]]


def _plain_rows(text: str, dialect: Dialect) -> Iterator[Row]:
    for number, line in enumerate(text.split("\n"), start=1):  # no other sign ends a line
        if not line.strip() or (dialect.comment and line.lstrip().startswith(dialect.comment)):
            continue
        yield line.split(dialect.delimiter) if dialect.delimiter else line.split(), number


def _gather(
    rows: Iterator[Row],
    path: str,
    place: Mapping[str, Sequence[int]],
    names: list[str],
    strict: bool,
    dialect: Dialect,
) -> _Gathered:
    """Fields of the wanted columns; equal texts are kept once."""
    got = _Gathered({key: [] for key in place})
    single = [(got.columns[key], at[0]) for key, at in place.items() if len(at) == 1]
    joined = [(got.columns[key], at) for key, at in place.items() if len(at) > 1]
    known: dict[str, str] = {}
    once = known.setdefault
    for fields, line in rows:
        if len(fields) != len(names):
            got.broken += 1
            got.first_broken = got.first_broken or (
                f"{path}, line {line}: {_broken(len(fields), len(names), dialect)}, or skip such "
                f"rows with workload.strict=false"
            )
            if strict:
                raise TraceError(got.first_broken)
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


def _broken(fields: int, width: int, dialect: Dialect) -> str:
    """What to say of a row of another length than the header."""
    what, fix = "too long", "leave out what is too much"
    if fields < width:
        what, fix = "cut off", "complete it"
    elif dialect.quoted:
        fix = f"put a field that holds {dialect.delimiter!r} in quotes, leave out one too many"
    elif dialect.delimiter:
        fix = (
            f"write a file whose fields hold {dialect.delimiter!r} with another sign, named in "
            f"workload.reader.delimiter"
        )
    return f"the row is {what}: {fields} fields, the header has {width}; {fix}"
