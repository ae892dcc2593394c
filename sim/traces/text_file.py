"""A text file of a trace, plain or gzip, as one string, or what is wrong with it."""

import gzip
import zlib
from pathlib import Path

from sim.errors import TraceError

GZIP_MAGIC = b"\x1f\x8b"


def read_text(path: str) -> str:
    """The whole UTF-8 text of a plain or gzip file.

    Raises:
        TraceError: if the file cannot be read, unpacked or decoded, or holds NUL bytes.
    """
    data = _load(path)
    nul = data.find(b"\0")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TraceError(
            f"{path}, line {_line(data, error.start)}: byte 0x{data[error.start]:02x} is not "
            f"UTF-8 text; save the file in the encoding UTF-8"
        ) from error
    if nul >= 0:
        raise TraceError(
            f"{path}, line {_line(data, nul)}: a NUL byte stands where text should be (is it "
            f"UTF-16, or a binary file?); save the file in the encoding UTF-8"
        )
    return text


def _line(data: bytes, position: int) -> int:
    return data.count(b"\n", 0, position) + 1


def _load(path: str) -> bytes:
    try:
        data = Path(path).expanduser().read_bytes()
    except OSError as error:
        raise unreadable(path, error) from error
    if not (data.startswith(GZIP_MAGIC) or path.endswith(".gz")):
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise bad_gzip(path, error) from error


def unreadable(path: str, error: OSError) -> TraceError:
    """What to say of a file that cannot be opened."""
    return TraceError(
        f"{path}: cannot be read ({error.strerror}); set workload.path to a trace file"
    )


def bad_gzip(path: str, error: Exception) -> TraceError:
    """What to say of a file that is gzip by its name or first bytes, but not whole."""
    return TraceError(
        f"{path}: is not a whole gzip file ({error}); fetch it again, or drop the .gz ending if "
        f"it is plain text"
    )
