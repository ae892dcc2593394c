"""Text files that users bring: plain or gzip, in UTF-8, as text, rows of fields, and times."""

import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path

from sim.errors import GpuYardError, TraceError

GZIP_MAGIC = b"\x1f\x8b"
AT_LINE = ", line "

Row = tuple[list[str], int]  # fields and the line they start at


def read_text(
    path: str,
    error: type[GpuYardError] = TraceError,
    fix: str = "set workload.path to a trace file",
    at: str = AT_LINE,
) -> str:
    """The whole UTF-8 text of a plain or gzip file; `fix` is for a file that cannot be opened.

    `at` stands between the file and the number of a line.

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
            f"{path}{at}{line}: byte 0x{data[cause.start]:02x} is not UTF-8 text; save the file "
            f"in the encoding UTF-8"
        ) from cause
    nul = text.find("\0")
    if nul >= 0:
        line = text.count("\n", 0, nul) + 1
        raise error(
            f"{path}{at}{line}: a NUL byte stands where text should be (is it UTF-16, or a "
            f"binary file?); save the file in the encoding UTF-8"
        )
    return text


def quoted_rows(
    text: str,
    path: str,
    error: type[GpuYardError] = TraceError,
    delimiter: str = ",",
    at: str = AT_LINE,
) -> Iterator[Row]:
    """Rows of CSV text whose fields may be in quotes; blank lines are left out.

    `at` as for `read_text`.
    """
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=delimiter)
    start = 1
    try:
        for fields in reader:
            if len(fields) > 1 or (fields and fields[0].strip()):
                yield fields, start
            start = reader.line_num + 1
    except csv.Error as cause:
        raise error(
            f"{path}{at}{start}: the row cannot be split into fields ({cause}); check its "
            f"quotation marks"
        ) from cause


NO_TIME = ("", "Unknown", "None", "N/A")  # Slurm's words for it
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# 1:62:03 is a slip; 90:00 are minutes, of which there may be many.
CLOCK = re.compile(
    r"(?:(?:(\d{1,6})-)?(\d{1,7}):(?=[0-5]?\d:))?(\d{1,7}):([0-5]\d(?:\.\d+)?)", re.ASCII
)


def clock_s(text: str) -> float | None:
    """Seconds of `[[D-]HH:]MM:SS`; None for another form."""
    match = CLOCK.fullmatch(text)
    if match is None:
        return None
    days, hours, minutes, seconds = (
        0.0 if part is None else float(part) for part in match.groups()
    )
    return ((days * 24.0 + hours) * 60.0 + minutes) * 60.0 + seconds


def moment(text: str, form: str | None = None) -> datetime | None:
    """A time in a form of `strptime`; None: in ISO 8601, or 2023/7/15 02:19 of spreadsheets."""
    if form is None:
        try:
            return datetime.fromisoformat(text)
        except ValueError:
            form = "%Y/%m/%d %H:%M" if text.count(":") == 1 else "%Y/%m/%d %H:%M:%S"
    try:
        return datetime.strptime(text, form)
    except ValueError:
        return None


def since_1970_s(at: datetime) -> float:
    """Seconds since 1970 by the clock that `at` was read from; one without a zone as it stands."""
    return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()


def wall_clock(at_s: float, zone: tzinfo | None) -> datetime | None:
    """What the clock of `since_1970_s` shows, in its `zone` or without one; None: no such year."""
    try:
        at = EPOCH + timedelta(seconds=at_s)
        return at.replace(tzinfo=None) if zone is None else at.astimezone(zone)
    except OverflowError:
        return None
