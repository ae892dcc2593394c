"""A CSV file as text: header, rows and the line each row starts at, before any meaning."""

import csv
import gzip
import io
import zlib
from dataclasses import dataclass
from pathlib import Path

from sim.errors import TraceError

GZIP_MAGIC = b"\x1f\x8b"


@dataclass(frozen=True)
class TextTable:
    """N data rows of a comma-separated file; blank lines are left out."""

    path: str
    header: list[str]  # (C,) names, stripped
    rows: list[list[str]]  # (N,) fields as written; a cut or overlong row has another length
    lines: list[int]  # (N,) 1-based line at which the row starts


def read_text_table(path: str) -> TextTable:
    """Read a plain or gzip file of comma-separated UTF-8 text.

    Raises:
        TraceError: if the file cannot be read, unpacked, decoded or split, or holds no rows.
    """
    text = _decode(_load(path), path)
    rows, lines = _split(text, path)
    if not rows:
        raise TraceError(f"{path}: the file is empty; it needs a header row and one row a job")
    if len(rows) == 1:
        raise TraceError(f"{path}: only a header row and no job; add one row a job")
    return TextTable(path, [name.strip() for name in rows[0]], rows[1:], lines[1:])


def _load(path: str) -> bytes:
    try:
        data = Path(path).expanduser().read_bytes()
    except OSError as error:
        raise TraceError(
            f"{path}: cannot be read ({error.strerror}); set workload.path to a trace file"
        ) from error
    if not (data.startswith(GZIP_MAGIC) or path.endswith(".gz")):
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise TraceError(
            f"{path}: is not a whole gzip file ({error}); fetch it again, or drop the .gz ending "
            f"if it is plain text"
        ) from error


def _decode(data: bytes, path: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise TraceError(
            f"{path}, line {line}: byte 0x{data[error.start]:02x} is not UTF-8 text; "
            f"save the file in the encoding UTF-8"
        ) from error


def _split(text: str, path: str) -> tuple[list[list[str]], list[int]]:
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
        raise TraceError(
            f"{path}, line {start}: the row cannot be split into fields ({error}); "
            f"check its quotation marks"
        ) from error
    return rows, lines
