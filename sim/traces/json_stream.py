"""The objects of a JSON list in a file, one after the other, in bounded memory."""

import codecs
import gzip
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path
from typing import Any

from sim.errors import TraceError
from sim.traces.text_table import GZIP_MAGIC, bad_gzip, unreadable

CHUNK_BYTES = 1 << 20
LONGEST_OBJECT = 1 << 24  # characters; a job with thousands of attempts has a hundredth of it
NEAR_END = 64  # an error so near the end of what was read may come from the cut
BLANKS = " \t\r\n"


@dataclass(frozen=True)
class Located:
    """One object of the list."""

    value: Any
    index: int  # from 0
    line: int  # 1-based line at which it starts


def read_objects(path: str) -> Iterator[Located]:
    """Objects of a plain or gzip UTF-8 file that holds one JSON list.

    Raises:
        TraceError: naming the line (and the object) at which the file cannot be read, unpacked,
            decoded or parsed.
    """
    window = _Window(path)
    try:
        yield from _objects(window)
    finally:
        window.close()


def _objects(window: "_Window") -> Iterator[Located]:
    window.expect("[", "the file must hold a list of jobs, [ ... ]")
    index = 0
    if window.next_sign() == "]":
        window.expect("]", "the list must end with ]")
    else:
        while True:
            value, line = window.value(index)
            yield Located(value, index, line)
            index += 1
            sign = window.next_sign()
            if sign == "]":
                window.expect("]", "the list must end with ]")
                break
            window.expect(",", f"a comma must follow job object {index - 1}")
    if window.next_sign():
        raise window.fault("there is text after the end of the list; take it out")


class _Window:
    """The part of the text that is being read."""

    def __init__(self, path: str) -> None:
        """Open the file.

        Raises:
            TraceError: if it cannot be opened.
        """
        self._path = path
        self._text = ""
        self._at = 0
        self._line = 1
        self._ended = False
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._scanner = json.JSONDecoder()
        self._file = _open(path)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def fault(self, words: str) -> TraceError:
        """An error at the present place."""
        return TraceError(f"{self._path}, line {self._line}: {words}")

    def next_sign(self) -> str:
        """The next sign that is no blank, not taken; "" at the end of the file."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in BLANKS:
                self._line += self._text[self._at] == "\n"
                self._at += 1
            if self._at < len(self._text):
                return self._text[self._at]
            if self._ended:
                return ""
            self._more(CHUNK_BYTES)

    def expect(self, sign: str, rule: str) -> None:
        """Take `sign`, or say `rule`."""
        found = self.next_sign()
        if found != sign:
            got = f"{found!r} stands here" if found else "the file ends here"
            raise self.fault(f"{got}; {rule}")
        self._at += 1

    def value(self, index: int) -> tuple[Any, int]:
        """The next object and its line."""
        self.next_sign()
        line, size = self._line, CHUNK_BYTES
        while True:
            try:
                value, end = self._scanner.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                if not self._may_be_cut(error):
                    line = self._line + self._text.count("\n", self._at, error.pos)
                    raise TraceError(
                        f"{self._path}, line {line}, job object {index}: is no JSON "
                        f"({error.msg}); fetch the file again, or cut it at a whole object"
                    ) from error
            except (ValueError, RecursionError) as error:
                raise self.fault(
                    f"job object {index} cannot be read ({type(error).__name__}: "
                    f"{str(error)[:80]}); it is nested too deeply or holds a number too long"
                ) from error
            else:
                if end < len(self._text) or self._ended:
                    self._line += self._text.count("\n", self._at, end)
                    self._at = end
                    return value, line
            self._more(size)
            size *= 2

    def _may_be_cut(self, error: json.JSONDecodeError) -> bool:
        """Whether the error may vanish when more of the file is read."""
        if self._ended or len(self._text) - self._at > LONGEST_OBJECT:
            return False
        return len(self._text) - error.pos < NEAR_END or "Unterminated" in error.msg

    def _more(self, size: int) -> None:
        """Read on; what was taken is forgotten."""
        try:
            data = self._file.read(size)
        except (OSError, EOFError, zlib.error) as error:
            raise bad_gzip(self._path, error) from error
        self._ended = not data
        try:
            text = self._decoder.decode(data, final=self._ended)
        except UnicodeDecodeError as error:
            line = self._line + self._text.count("\n", self._at)
            line += error.object.count(b"\n", 0, error.start)
            raise TraceError(
                f"{self._path}, line {line}: byte 0x{error.object[error.start]:02x} is not UTF-8 "
                f"text; save the file in the encoding UTF-8"
            ) from error
        self._text = self._text[self._at :] + text
        self._at = 0


def _open(path: str) -> BufferedIOBase:
    place = Path(path).expanduser()
    try:
        with place.open("rb") as file:
            packed = file.read(2) == GZIP_MAGIC or path.endswith(".gz")
        return gzip.GzipFile(place) if packed else place.open("rb")
    except OSError as error:
        raise unreadable(path, error) from error
