"""Why one job waited, as a value: rows of a timeline, and its forms as text, JSON and CSV."""

import json
from collections.abc import Iterator
from dataclasses import asdict, astuple, dataclass, fields
from enum import StrEnum
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

from sim.files import csv_text, write_atomically
from sim.report.waits import NO_ROOM
from sim.times import HOUR_S

EXPLAIN_FILES = ("explain.json", "explain.csv")
MOST_ROWS = 40  # that are printed
HEAD = ("from", "to", "partition", "decisions", "rank", "free", "server", "rack", "reason")
MOST_WORDS = 2  # different details that a merged row tells


class Reason(StrEnum):
    """The first reason for which a waiting job did not start, or what happened to it."""

    BEHIND = "behind others in the queue"
    NO_GPUS = "no GPUs free"
    FRAGMENTS = "fragments"
    ROOM = NO_ROOM
    COMPACT = "waits for a compact place"
    RESERVATION = "behind a reservation"
    CAP = "larger than its partition"
    VIRTUAL = "held back by its order"
    DOWN = "servers are down"
    CHOSEN = "the policy chose otherwise"
    # What happened.
    SUBMITTED = "submitted"
    PARENTS = "waits for its parents"
    READY = "its parents are done"
    FORWARDED = "forwarded"
    STARTED = "started"
    PREEMPTED = "preempted"
    LEASE = "its lease ended"
    FAILED = "its attempt failed"
    EVICTED = "its server went down"
    FINISHED = "finished"
    LEFT = "withdrawn"


@dataclass(frozen=True)
class Look:
    """What one decision said of a job that still waits after it.

    Free GPUs are those without a tenant on servers that are up, as the job was offered them.
    """

    time_s: float
    partition: int
    rank: int  # from 1
    waiting: int  # jobs in its queue
    free_gpus: int
    server_gpus: int  # the most on one server
    rack_gpus: int  # the most in one rack
    reason: Reason
    words: str
    certain: bool  # False: derived, for the rule does not say


@dataclass(frozen=True)
class Row:
    """Consecutive decisions with one reason, or one event (`decisions` 0, ranks and GPUs None)."""

    time_s: float
    until_s: float  # of the next row; of the last one its own time
    decisions: int
    reason: Reason
    words: str
    certain: bool
    partition: int
    rank_first: int | None = None  # at the first decision
    rank_last: int | None = None
    waiting_most: int | None = None
    free_gpus_least: int | None = None
    free_gpus_most: int | None = None
    server_gpus_most: int | None = None  # the most ever free on one server
    rack_gpus_most: int | None = None

    @property
    def waits(self) -> bool:
        """Whether the job waits, rather than something happens to it."""
        return self.decisions > 0


@dataclass(frozen=True)
class Explanation:
    """Why a job waited, in order of time."""

    job_id: str
    num_gpus: int
    scheduler: str
    submit_s: float
    first_start_s: float | None  # None: it never started
    rank_rule: str  # what ranks count
    rows: tuple[Row, ...]
    one_in: int = 1  # at the end one decision in so many was looked at, for the queue was long

    @property
    def waited_s(self) -> dict[str, float]:
        """Seconds by reason, longest first."""
        found: dict[str, float] = {}
        for row in self.rows:
            if (row.waits or row.reason is Reason.PARENTS) and row.until_s > row.time_s:
                found[row.reason] = found.get(row.reason, 0.0) + row.until_s - row.time_s
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def text(self) -> str:
        """A short timeline with a line for each row."""
        gpus = f"{self.num_gpus} GPU{'s' * (self.num_gpus != 1)}"
        begins = f"job {self.job_id}, {gpus}, under {self.scheduler}"
        half, left_out = MOST_ROWS // 2, len(self.rows) - MOST_ROWS
        kept = self.rows if left_out <= 0 else (*self.rows[:half], *self.rows[-half:])
        with_partition = len({row.partition for row in self.rows}) > 1
        lines = _table([HEAD, *(_cells(row) for row in kept)], with_partition=with_partition)
        if left_out > 0:
            lines.insert(half + 1, f"... {left_out:,} more rows, in {EXPLAIN_FILES[1]}")
        ends = [
            f"  {words:40} {seconds:,.0f} s  {seconds / HOUR_S:,.2f} h"
            for words, seconds in self.waited_s.items()
        ]
        waited = ["waited:", *ends] if ends else ["it did not wait"]
        notes = [f"rank: {self.rank_rule}; free: GPUs in its partition, the most on one server, "
                 "the most in one rack"]  # fmt: skip
        if self.one_in > 1:
            notes.append(f"the queue was long: not every decision was looked at, in the end one in "
                         f"{self.one_in}; `decisions` counts those")  # fmt: skip
        if not all(row.certain for row in self.rows):
            notes.append("~ derived: the scheduler has no rule that says so, see docs/explain.md")
        return "\n".join([begins, *lines, *waited, *notes])

    def record(self) -> dict[str, Any]:
        """Plain containers, for JSON."""
        return {**asdict(self), "waited_s": self.waited_s}

    def write(self, folder: Path) -> None:
        """Write `explain.json` and `explain.csv`, each whole or not at all."""
        text = json.dumps(self.record(), indent=1, ensure_ascii=False) + "\n"
        write_atomically(folder / EXPLAIN_FILES[0], text.encode())
        text = csv_text([field.name for field in fields(Row)], map(astuple, self.rows))
        write_atomically(folder / EXPLAIN_FILES[1], text.encode())


def merged(looks: list[Look], until_s: float) -> Iterator[Row]:
    """Rows of looks without an event between them; the last one ends at `until_s`."""
    if not looks:
        return
    same = attrgetter("reason", "certain", "partition")
    groups = [list(group) for _, group in groupby(looks, key=same)]
    ends = [*(group[0].time_s for group in groups[1:]), until_s]
    for group, end_s in zip(groups, ends, strict=True):
        yield _row(group, end_s)


def _row(group: list[Look], until_s: float) -> Row:
    first, free = group[0], [look.free_gpus for look in group]
    details = list(dict.fromkeys(look.words for look in group if look.words))
    more = len(details) - MOST_WORDS
    words = "; then ".join(details[:MOST_WORDS]) + (f"; then {more} more" if more > 0 else "")
    return Row(
        time_s=first.time_s,
        until_s=until_s,
        decisions=len(group),
        reason=first.reason,
        words=words,
        certain=first.certain,
        partition=first.partition,
        rank_first=first.rank,
        rank_last=group[-1].rank,
        waiting_most=max(look.waiting for look in group),
        free_gpus_least=min(free),
        free_gpus_most=max(free),
        server_gpus_most=max(look.server_gpus for look in group),
        rack_gpus_most=max(look.rack_gpus for look in group),
    )


def _table(cells: list[tuple[str, ...]], *, with_partition: bool) -> list[str]:
    """Lines of columns, all but the last to the right."""
    if not with_partition:
        cells = [(*row[:2], *row[3:]) for row in cells]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join([*(f"{c:>{w}}" for c, w in zip(row[:-1], widths, strict=False)), row[-1]])
        for row in cells
    ]


def _cells(row: Row) -> tuple[str, ...]:
    said = f"{'' if row.certain else '~ '}{row.reason}" + (f": {row.words}" if row.words else "")
    if not row.waits:
        return (_number(row.time_s), "", str(row.partition), "", "", "", "", "", said)
    return (
        _number(row.time_s), _number(row.until_s), str(row.partition), str(row.decisions),
        _span(row.rank_first, row.rank_last), _span(row.free_gpus_least, row.free_gpus_most),
        str(row.server_gpus_most), str(row.rack_gpus_most), said,
    )  # fmt: skip


def _number(seconds: float) -> str:
    return f"{seconds:,.1f}".removesuffix(".0")


def _span(first: int | None, last: int | None) -> str:
    return f"{first}" if first == last else f"{first}-{last}"
