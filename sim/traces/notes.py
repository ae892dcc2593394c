"""What a reader of trace files returns, and the role it fills."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from sim.traces.column_map import GivenColumns
from sim.traces.trace import Trace


@dataclass(frozen=True)
class Notes:
    """What a reader did to the rows of a file."""

    rows: int  # data rows (or objects) in the file
    skipped: int  # bad rows left out (strict=false only)
    unsorted: int  # rows that stood after a row of later submission
    left_out: Mapping[str, int] = field(default_factory=dict)  # reason -> good rows that are no job


class TraceReader(Protocol):
    """Reads one kind of file."""

    def read(
        self, *, path: str, columns: GivenColumns, name: str, strict: bool
    ) -> tuple[Trace, Notes]:
        """The trace of a file, sorted by submission, and what was done to its rows.

        Args:
            path: the file.
            columns: the reader's names of columns to the file's.
            name: name of the trace in reports.
            strict: whether a bad row is an error; if not, it is left out, counted and logged.

        Raises:
            TraceError: naming file, line, column, value and fix.
        """
