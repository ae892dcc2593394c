"""Files of a report, whole or not at all, and what can be wrong with them."""

import csv
import io
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from sim.errors import GpuYardError


class ReportError(GpuYardError):
    """A result file cannot be read or compared; the message names file, line, column and value."""


def csv_text(header: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """A table as CSV; None is an empty cell."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue()


def forget(folder: Path, names: Iterable[str]) -> None:
    """Remove what an earlier run left, so that a failure leaves nothing like a result."""
    for name in names:
        (folder / name).unlink(missing_ok=True)


def write_atomically(path: Path, content: bytes) -> None:
    """Write `content` beside `path` under another name, then rename it onto `path`.

    A crash or a full disk leaves `path` as it was; the half-written file is removed.

    Raises:
        OSError: the folder cannot be written or is full.
    """
    with atomic_file(path) as file:
        file.write(content)


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write piece by piece, which becomes `path` at the end of the block.

    Raises:
        OSError: the folder cannot be written or is full.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o666 & ~_umask())  # mkstemp keeps others out
        os.replace(temporary, path)  # noqa: PTH105  (the atomic rename itself)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(path)  # a full disk names no file itself
        raise


def _umask() -> int:
    """The process's file mode mask, which can only be read by setting it."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
