"""Files of results: written whole or not at all, tables as CSV, and `comparison.csv`.

That has one line a run, its labels and metrics; written, read back and joined. Labels are what a
result belongs to.
"""

import csv
import io
import math
import os
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import BinaryIO

from sim.errors import GpuYardError, amount


class ReportError(GpuYardError):
    """A result file cannot be read or compared; the message names file, line, column and value."""


def known_cells(row: Iterable[object]) -> list[object]:
    """Cells of a line of a CSV file, empty where a value is not there (None, NaN)."""
    return ["" if isinstance(value, float) and math.isnan(value) else value for value in row]


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
    """A file to write piece by piece, `path` at the end of the block; OSError: it is full."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    except OSError as error:
        error.filename = str(path)  # it would name the hidden file
        raise
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


ROLES = ("ours", "composite", "published", "linear_score", "global_queue", "reference", "ablation")
FIRST_ROLES = ("ours", "composite", "published", "global_queue")  # figures show the best of each


def physics_words(physics: str, load: float | None) -> tuple[str, str]:
    """What tables and pages say of two labels: the physics (`none`: off), and the load."""
    return (
        "physics off" if physics == "none" else f"physics on ({physics})",
        "load as it comes" if load is None else f"times stretched to load {load:g}",
    )


@dataclass(frozen=True)
class Labels:
    """Identifies one run; the fields are the first columns of `comparison.csv`, in order."""

    scheduler: str  # the whole composition, unique
    topology: str
    workload: str
    load: float | None  # offered load; None: as in the trace
    agents: int  # partitions, each with its own scheduler
    seed: int
    window: int  # which window of the workload
    information: str  # of durations: none, limit, predicted or oracle
    interference_info: str  # what the scheduler knows of co-location
    physics: str  # interference and network model that the run obeyed
    role: str  # one of `ROLES`
    stretch: int | None = None  # of the trace that the window is from; None: a random one
    part: str | None = None  # of the trace that the window is of; None: the whole trace

    def __post_init__(self) -> None:
        """Check the role."""
        if self.role not in ROLES:
            raise ReportError(
                f"scheduler {self.scheduler}: role is {self.role!r}; use one of {', '.join(ROLES)}"
            )

    @property
    def unit(self) -> tuple[int, int]:
        """(window, seed): what intervals are taken over and ratios are paired by."""
        return self.window, self.seed

    def as_dict(self) -> dict[str, str | int | float | None]:
        """Column -> value, in the order of the columns."""
        return asdict(self)


LABEL_COLUMNS = tuple(field.name for field in fields(Labels))
LATER_COLUMNS = ("stretch", "part")  # files of earlier versions lack them
_INTEGERS = ("agents", "seed", "window")


def labels_from_text(cells: dict[str, str]) -> Labels:
    """Labels from cells of a CSV file (column -> text); ReportError: no number, unknown role."""
    numbers = (*_INTEGERS, "load", "stretch")
    texts = {name: cells[name] for name in LABEL_COLUMNS if name not in (*numbers, "part")}
    whole = {name: _integer(name, cells[name]) for name in _INTEGERS}
    stretch = cells.get("stretch", "")
    return Labels(
        **texts,  # type: ignore[arg-type]
        **whole,  # type: ignore[arg-type]
        load=float(_number("load", cells["load"])) if cells["load"] else None,
        stretch=_integer("stretch", stretch) if stretch else None,
        part=cells.get("part") or None,
    )


def _integer(column: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ReportError(f"column {column} is {text!r}; it must be a whole number") from None


@dataclass(frozen=True)
class ComparisonRow:
    """Labels and metrics of one run."""

    labels: Labels
    metrics: Mapping[str, float | int]  # keys of metrics.json, in their order


def write_comparison_csv(path: Path, rows: Sequence[ComparisonRow]) -> None:
    """Write the label columns, then the metrics in the order in which rows bring them.

    An empty cell is a value that is not there (NaN, or a metric this row does not have).
    """
    keys = list(dict.fromkeys(key for row in rows for key in row.metrics))
    lines = [
        known_cells([*row.labels.as_dict().values(), *(row.metrics.get(key) for key in keys)])
        for row in rows
    ]
    write_atomically(path, csv_text([*LABEL_COLUMNS, *keys], lines).encode())


def read_comparison_csv(path: Path) -> list[ComparisonRow]:
    """Read what `write_comparison_csv` wrote, empty metrics as NaN; ReportError names the cell."""
    with path.open(newline="", encoding="utf-8") as file:
        lines = csv.reader(file)
        header = next(lines, [])
        _check_header(path, header)
        return [_row(f"{path}, line {lines.line_num}", header, cells) for cells in lines]


def check_distinct(rows: Sequence[ComparisonRow]) -> None:
    """Refuse two results of the same thing: which one should count?"""
    seen: set[Labels] = set()
    for row in rows:
        if row.labels in seen:
            raise ReportError(
                f"two rows of scheduler {row.labels.scheduler} on {row.labels.topology}, "
                f"{row.labels.workload}, load {row.labels.load}, "
                f"{amount(row.labels.agents, 'agent')}, seed {row.labels.seed}, window "
                f"{row.labels.window}; pass each result once"
            )
        seen.add(row.labels)


def _check_header(path: Path, header: list[str]) -> None:
    for place, name in enumerate(LABEL_COLUMNS[: -len(LATER_COLUMNS)]):
        if place >= len(header) or header[place] != name:
            found = header[place] if place < len(header) else "nothing"
            raise ReportError(
                f"{path}, line 1: column {place + 1} is {found!r}; it must be {name!r} "
                f"(the columns begin with {' '.join(LABEL_COLUMNS)})"
            )


def _row(place: str, header: list[str], cells: list[str]) -> ComparisonRow:
    if len(cells) != len(header):
        raise ReportError(f"{place}: {len(cells)} cells for {len(header)} columns")
    named = dict(zip(header, cells, strict=True))
    try:
        labels = labels_from_text(named)
        keys = [name for name in header if name not in LABEL_COLUMNS]
        return ComparisonRow(labels, {key: _number(key, named[key]) for key in keys})
    except ReportError as error:
        raise ReportError(f"{place}: {error}") from None


def _number(column: str, text: str) -> float | int:
    if not text:
        return math.nan
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise ReportError(f"column {column} is {text!r}; it must be a number or empty") from None


def run_names(labels: Sequence[Labels]) -> list[str]:
    """A name a run: the scheduler's, with the number of agents where it ran with several."""
    counts: dict[str, set[int]] = defaultdict(set)
    for run in labels:
        counts[run.scheduler].add(run.agents)
    return [_name(run, len(counts[run.scheduler]) > 1) for run in labels]


def with_swept(scheduler: str, swept: str) -> str:
    """A scheduler's name, and behind it in brackets what was swept of it, if anything was."""
    return f"{scheduler} [{swept}]" if swept else scheduler


def apart_from_swept(name: str) -> tuple[str, str]:
    """The scheduler of such a name, and what was swept."""
    scheduler, _, swept = name.partition(" [")
    return scheduler, swept.removesuffix("]")


def with_windows(name: str, windows: int, most: int) -> str:
    """A name, and on how many windows it stands where others have more."""
    return name if windows == most else f"{name} ({windows} of {most} windows)"


def _name(run: Labels, several: bool) -> str:
    plural = "agent" if run.agents == 1 else "agents"
    return f"{run.scheduler} ({run.agents} {plural})" if several else run.scheduler
