"""Text files that users bring: plain or gzip, in UTF-8, as text and as rows of fields."""

import csv
import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path

from sim.errors import GpuYardError, TraceError

GZIP_MAGIC = b"\x1f\x8b"

Row = tuple[list[str], int]  # fields and the line they start at


def read_text(
    path: str,
    error: type[GpuYardError] = TraceError,
    fix: str = "set workload.path to a trace file",
) -> str:
    """The whole UTF-8 text of a plain or gzip file; `fix` is for a file that cannot be opened.

    Raises:
        GpuYardError: as `error`, naming file and line, if it cannot be read, unpacked or decoded,
            or holds NUL bytes.
    """
    try:
        data = Path(path).expanduser().read_bytes()
    except OSError as cause:
        raise error(f"{path}: cannot be read ({cause.strerror}); {fix}") from cause
    try:
        if data.startswith(GZIP_MAGIC) or path.endswith(".gz"):
            data = gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as cause:
        raise error(
            f"{path}: is not a whole gzip file ({cause}); fetch it again, or drop the .gz ending "
            f"if it is plain text"
        ) from cause
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as cause:
        line = data.count(b"\n", 0, cause.start) + 1
        raise error(
            f"{path}, line {line}: byte 0x{data[cause.start]:02x} is not UTF-8 text; save the file "
            f"in the encoding UTF-8"
        ) from cause
    nul = text.find("\0")
    if nul >= 0:
        line = text.count("\n", 0, nul) + 1
        raise error(
            f"{path}, line {line}: a NUL byte stands where text should be (is it UTF-16, or a "
            f"binary file?); save the file in the encoding UTF-8"
        )
    return text


def quoted_rows(
    text: str, path: str, error: type[GpuYardError] = TraceError, delimiter: str = ","
) -> Iterator[Row]:
    """Rows of CSV text whose fields may be in quotes; blank lines are left out."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=delimiter)
    start = 1
    try:
        for fields in reader:
            if len(fields) > 1 or (fields and fields[0].strip()):
                yield fields, start
            start = reader.line_num + 1
    except csv.Error as cause:
        raise error(
            f"{path}, line {start}: the row cannot be split into fields ({cause}); check its "
            f"quotation marks"
        ) from cause
