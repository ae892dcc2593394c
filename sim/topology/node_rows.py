"""Rows of a CSV node list as text, with the line of each; cells are read with their place."""

import csv
import gzip
import io
import math
import zlib
from dataclasses import dataclass
from pathlib import Path

from sim.errors import TopologyError
from sim.topology.marked_yaml import decoded
from sim.topology.nearest import nearest

GZIP_MAGIC = b"\x1f\x8b"


@dataclass(frozen=True)
class NodeRows:
    """N rows of comma-separated text below a header; all as wide as the header."""

    path: str
    header: list[str]
    rows: list[list[str]]
    lines: list[int]  # (N,) 1-based line at which each row starts

    def column(self, name: str) -> int:
        """Place of the column called `name`.

        Raises:
            TopologyError: if it is absent, with the nearest name, or there twice.
        """
        if self.header.count(name) == 1:
            return self.header.index(name)
        if name in self.header:
            raise TopologyError(f"{self.path}, line 1: two columns are called '{name}'; rename one")
        raise TopologyError(
            f"{self.path}, line 1: no column '{name}'{nearest(name, self.header)}; "
            f"the file has: {', '.join(self.header)}"
        )

    def text(self, row: int, column: int) -> str:
        """Text of a cell without surrounding blanks; may be empty."""
        return self.rows[row][column].strip()

    def number(self, row: int, column: int, *, high: float) -> float:
        """A number from 0 to `high`."""
        text = self.text(row, column)
        try:
            value = float(text)
        except ValueError:
            raise self.refusal(row, column, "is not a number") from None
        if math.isnan(value) or not 0 <= value <= high:
            raise self.refusal(row, column, f"is not from 0 to {high:g}")
        return value

    def count(self, row: int, column: int, *, high: int) -> int:
        """A whole number from 0 to `high`; `8.0` is one."""
        value = self.number(row, column, high=high)
        if value != int(value):
            raise self.refusal(row, column, "is not a whole number")
        return int(value)

    def refusal(self, row: int, column: int, rule: str) -> TopologyError:
        """The error that a cell breaks `rule`."""
        return TopologyError(f"{self.where(row, column)}: {self.rows[row][column][:60]!r} {rule}")

    def where(self, row: int, column: int) -> str:
        """File, line and column of a cell."""
        return f"{self.path}, line {self.lines[row]}, column '{self.header[column]}'"


def read_node_rows(path: str) -> NodeRows:
    """Read a plain or gzip CSV file with a header row; blank lines are left out.

    Raises:
        TopologyError: naming file and line, if it cannot be read, unpacked, decoded or split, has
            no rows, or has a row of another width than the header.
    """
    text = decoded(_load(path), path)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows: list[list[str]] = []
    lines: list[int] = []
    start = 1
    try:
        for row in reader:
            if row:
                rows.append(row)
                lines.append(start)
            start = reader.line_num + 1
    except csv.Error as error:
        raise TopologyError(f"{path}, line {start}: cannot be split: {error}") from error
    if len(rows) <= 1:
        raise TopologyError(f"{path}: has no row below a header; give one row a server")
    header = [name.strip() for name in rows[0]]
    for row, line in zip(rows, lines, strict=True):
        if len(row) != len(header):
            raise TopologyError(
                f"{path}, line {line}: {len(row)} fields, the header has {len(header)}; "
                f"complete or remove the row"
            )
    return NodeRows(path, header, rows[1:], lines[1:])


def _load(path: str) -> bytes:
    try:
        data = Path(path).expanduser().read_bytes()
        packed = data.startswith(GZIP_MAGIC) or path.endswith(".gz")
        return gzip.decompress(data) if packed else data
    except gzip.BadGzipFile as error:
        raise TopologyError(f"{path}: is not a gzip file ({error}); fetch it again") from error
    except OSError as error:
        raise TopologyError(
            f"{path}: cannot be read ({error.strerror}); set topology.path to a node list"
        ) from error
    except (EOFError, zlib.error) as error:
        raise TopologyError(f"{path}: is not a whole gzip file ({error}); fetch it") from error
