"""One policy against each kind of rival, setting by setting: `headline.csv`, `headline.md`.

The best of a kind is chosen twice: on windows of their own, as a user would have to choose, and on
the very windows of the result, which no real choice could beat.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sim.errors import nearest
from sim.files import ComparisonRow, Labels, ReportError, csv_text, known_cells, write_atomically
from sim.report.job_times import UNKNOWN, Interval, percent
from sim.report.standings import (
    Key,
    Units,
    beside_agents,
    best_of,
    setting_of,
    setting_title,
    uncounted,
    units_of,
)
from sim.report.table_text import (
    UNCOUNTED,
    UNDONE,
    TableText,
    interval_text,
    mark,
    markdown,
    pairs_text,
    ratio_text,
    rich_tables,
)
from sim.times import TimeUnit, unit_for

if TYPE_CHECKING:
    from rich.console import Group


JCT = "jct_mean_s"
OF_PARTITIONS = ("partition_wait_jain", "partition_wait_max_s")  # one queue has no partitions
HEADS = {  # None: a time
    JCT: ("mean JCT", None),
    "jct_p50_s": ("p50", None),
    "jct_p95_s": ("p95", None),
    "jct_p99_s": ("p99", None),
    "slowdown_mean": ("mean slow-down", 1.0),
    "queue_delay_mean_s": ("queueing delay", None),
    "gpu_util_frac": ("GPU use [%]", 100.0),
    "partition_wait_jain": ("Jain of waits", 1.0),
    "partition_wait_max_s": ("longest wait", None),
}
METRICS = tuple(HEADS)
AT_ARRIVAL = ("own", "random", "least_loaded", "own_then_least_loaded")  # rules of forwarding
PICKED_ROLES = ("composite", "global_queue")  # of these the best stands for all
LINEAR = "linear_score"

Runs = dict[tuple[str, str], list[ComparisonRow]]  # by scheduler and role


def routes_at_arrival(labels: Labels) -> bool:
    """A composition that sends a job to its partition as it arrives; stealing binds later."""
    return labels.role == "composite" and labels.scheduler.rpartition("+")[2] in AT_ARRIVAL


def _is_linear(labels: Labels) -> bool:
    return labels.scheduler.startswith(LINEAR)


KINDS: dict[str, Callable[[Labels], bool]] = {
    "best composite": lambda labels: labels.role == "composite",
    "best routed at arrival": routes_at_arrival,
    "best global queue": lambda labels: labels.role == "global_queue" and not _is_linear(labels),
}
LINEAR_SCORE, LINEAR_ONE_QUEUE = "linear score", "linear score, one queue"
SUMMARY = (*KINDS, LINEAR_SCORE, LINEAR_ONE_QUEUE)  # what a line of the short table has


@dataclass(frozen=True)
class Line:
    """What one scheduler did in one setting."""

    against: str  # "ours", one of `SUMMARY`, or its role ("policy" for a policy that is not ours)
    picked_on: str  # part of the windows on which it was chosen; "": nothing was
    scheduler: str
    means: dict[str, Interval]  # of `METRICS`; one without values is not there
    ratio: Interval | None  # paired mean JCT, ours / its; None for ours, or where nothing pairs
    uncounted: int  # measured jobs that are in no mean, in all its runs


@dataclass(frozen=True)
class HeadlineCell:
    """One setting; the first line is ours."""

    setting: Key
    lines: tuple[Line, ...]

    @property
    def title(self) -> str:
        """The setting in words."""
        return setting_title(self.setting)


def headline_cells(
    rows: Sequence[ComparisonRow],
    picking: Sequence[ComparisonRow],
    *,
    ours: str,
    parts: tuple[str, str],
    confidence: float,
) -> list[HeadlineCell]:
    """Settings where `ours` ran, in order of appearance.

    The best of a kind has the least geometric mean over windows of mean JCT, so on the windows of
    the result it is the one with the largest ratio. Only those that ran every window of the kind
    are chosen from: on `picking`, runs of rivals on other windows, if there are some, and on the
    results `rows`; `parts` are names of the two, like validation and test.

    Raises:
        ReportError: `ours` is in no row, or the windows of a setting were drawn in two ways.
    """
    found, before = _by_setting(rows), _by_setting(picking)
    cells = [
        HeadlineCell(key, _lines(here, before.get(key, []), ours, parts, confidence))
        for key, here in found.items()
        if any(row.labels.scheduler == ours for row in here)
    ]
    if not cells:
        names = dict.fromkeys(row.labels.scheduler for row in rows)
        known = f"the schedulers here are {', '.join(names)}"
        raise ReportError(f"ours is {ours!r}; {known}{nearest(ours, names)}")
    return cells


def _by_setting(rows: Sequence[ComparisonRow]) -> dict[Key, list[ComparisonRow]]:
    found: dict[Key, list[ComparisonRow]] = defaultdict(list)
    for row in beside_agents(rows):
        found[setting_of(row.labels)].append(row)
    return found


def _lines(
    rows: list[ComparisonRow],
    picking: list[ComparisonRow],
    ours: str,
    parts: tuple[str, str],
    confidence: float,
) -> tuple[Line, ...]:
    """Ours, the best of each kind, then all that stand for themselves."""
    runs = _by_scheduler(rows)
    mine = next(key for key in runs if key[0] == ours)
    named = [("ours", "", mine)]
    units, before = units_of(rows, confidence), units_of(picking, confidence)
    chosen_on = (_by_scheduler(picking), before), (runs, units)
    for kind, belongs in KINDS.items():
        for part, (windows, over) in zip(parts, chosen_on, strict=True):
            of_kind = {key: found for key, found in windows.items()
                       if key != mine and belongs(found[0].labels)}  # fmt: skip
            best = _best(of_kind, over)
            if best is not None and best in runs:
                named.append((kind, part, best))
    for key, found in runs.items():
        if key != mine and not any(belongs(found[0].labels) for belongs in KINDS.values()):
            named.append((_single(found[0].labels), "", key))
    order = ("ours", *SUMMARY)
    named.sort(key=lambda each: order.index(each[0]) if each[0] in order else len(order))
    return tuple(_line(against, part, runs[key], runs[mine], units) for against, part, key in named)


def _by_scheduler(rows: Sequence[ComparisonRow]) -> Runs:
    """Runs by name and role, one queue last: with one queue and with many a name is another."""
    found: Runs = defaultdict(list)
    for row in sorted(rows, key=lambda row: row.labels.role == "global_queue"):
        found[row.labels.scheduler, row.labels.role].append(row)
    return found


def _best(runs: Runs, units: Units) -> tuple[str, str] | None:
    """The scheduler of least geometric mean JCT among those that ran every window, if any did.

    Over units, as ratios are; runs without a finished measured job do not count.
    """
    done = {key: [row for row in rows if row.metrics[JCT] > 0] for key, rows in runs.items()}
    places = {row.labels.unit for rows in done.values() for row in rows}
    return best_of({
        key: units.values(rows, JCT)
        for key, rows in done.items()
        if {row.labels.unit for row in rows} == places
    })  # fmt: skip


def _single(labels: Labels) -> str:
    """What a scheduler is called that stands for itself."""
    if not _is_linear(labels):
        return "policy" if labels.role == "ours" else labels.role  # another one is divided
    return LINEAR_ONE_QUEUE if labels.role == "global_queue" else LINEAR_SCORE


def _line(
    against: str,
    picked_on: str,
    rows: Sequence[ComparisonRow],
    our_rows: Sequence[ComparisonRow],
    units: Units,
) -> Line:
    one_queue = rows[0].labels.role == "global_queue"
    keys = [key for key in METRICS if not (one_queue and key in OF_PARTITIONS)]
    return Line(
        against=against,
        picked_on=picked_on,
        scheduler=rows[0].labels.scheduler,
        means=units.means(rows, keys),
        ratio=None if against == "ours" else units.ratio(our_rows, rows, JCT),
        uncounted=uncounted(rows),
    )


FILES = ("headline.csv", "headline.md")


def write_headline(
    folder: Path, cells: Sequence[HeadlineCell], *, title: str, confidence: float
) -> Group:
    """Write both files into a folder that exists; return what is to be printed."""
    write_atomically(folder / FILES[0], headline_csv(cells))
    short, whole = (
        summary_text(cells, confidence=confidence),
        whole_text(cells, confidence=confidence),
    )
    text = f"# {title}\n\n{markdown(short)}\n{markdown(whole)}"
    write_atomically(folder / FILES[1], text.encode())
    from rich.console import Group

    return Group(rich_tables(whole), rich_tables(short))


def headline_csv(cells: Sequence[HeadlineCell]) -> bytes:
    """A line a scheduler and setting; an empty cell is a value that is not there."""
    ends = ("", "_low", "_high")
    header = (
        ["topology", "workload", "load", "agents", "physics", "against", "picked_on", "scheduler",
         "windows", "stretches", "effective_windows", *(f"ratio{end}" for end in ends),
         *(f"{key}{end}" for key in METRICS for end in ends), "jobs_uncounted"]
    )  # fmt: skip
    rows = []
    for cell in cells:
        for line in cell.lines:
            intervals = [line.ratio or UNKNOWN, *(line.means.get(key, UNKNOWN) for key in METRICS)]
            numbers = [value for each in intervals for value in each.numbers]
            who = [line.against, line.picked_on, line.scheduler]
            counts = [_windows(line), _stretches(line), intervals[0].effective]
            rows.append(known_cells([*cell.setting, *who, *counts, *numbers, line.uncounted]))
    return csv_text(header, rows).encode()


def summary_text(cells: Sequence[HeadlineCell], *, confidence: float) -> TableText:
    """A line a setting: ours / theirs for each kind of rival."""
    unit = _unit(cells)
    found = dict.fromkeys(
        (line.against, line.picked_on) for cell in cells for line in cell.lines
        if line.against in SUMMARY
    )  # fmt: skip
    columns = sorted(found, key=lambda each: SUMMARY.index(each[0]))
    heads = [f"{against} [{part}]" if part else against for against, part in columns]
    rows = []
    for cell in cells:
        ours, *lines = cell.lines
        ratios = {(line.against, line.picked_on): line for line in reversed(lines)}
        jct = interval_text(ours.means.get(JCT), 1.0 / unit.length_s)
        texts = [_ratio(ratios.get(column), ours, confidence) for column in columns]
        rows.append((cell.title, _windows_text(ours), jct, *texts))
    note = (
        f"Ours ({cells[0].lines[0].scheduler}) / theirs: geometric mean over paired windows of the "
        f"ratios of mean JCT with its {percent(confidence)} t interval; below 1 ours is faster. In "
        f"brackets the windows on which the best was chosen: on those of the result it is the "
        f"hardest rival there is, after the fact. Where windows share stretches of time, intervals "
        f"are bootstrapped by stretch; † marks those over too few for their confidence."
    )
    head = ("setting", "windows", f"ours: mean JCT [{unit.name}]", *heads)
    return TableText(head, (("Ours / theirs", tuple(rows)),), note)


def whole_text(cells: Sequence[HeadlineCell], *, confidence: float) -> TableText:
    """A table a setting: who the best are, and what each did."""
    unit = _unit(cells)
    names = [f"{name} [{unit.name}]" if factor is None else name for name, factor in HEADS.values()]
    settings = tuple(
        (cell.title, tuple(_cells_of(line, cell.lines[0], unit, confidence) for line in cell.lines))
        for cell in cells
    )
    note = (
        "Mean ± half width of the interval over windows. Jain's index is of the home partitions' "
        "mean queueing delays (1: all equal), the longest wait the largest of these."
    )
    if any(line.uncounted for cell in cells for line in cell.lines):
        note += f" {UNCOUNTED}"
    return TableText(("against", "picked on", "scheduler", "ours / theirs", *names), settings, note)


def _cells_of(line: Line, ours: Line, unit: TimeUnit, confidence: float) -> tuple[str, ...]:
    name = line.scheduler + (UNDONE if line.uncounted else "")
    ratio = "(ours)" if line is ours else _ratio(line, ours, confidence)
    texts = [
        interval_text(line.means.get(key), 1.0 / unit.length_s if factor is None else factor)
        for key, (_, factor) in HEADS.items()
    ]
    return line.against, line.picked_on, name, ratio, *texts


def _ratio(line: Line | None, ours: Line, confidence: float) -> str:
    """The ratio, and over how many pairs where these are not all windows of ours and theirs."""
    if line is None or line.ratio is None:
        return "-"
    fewer = line.ratio.count < max(_windows(line), _windows(ours))
    pairs = pairs_text(line.ratio.count) if fewer else ""
    return ratio_text(line.ratio) + mark(line.ratio.clusters, confidence) + pairs


def _windows(line: Line) -> int:
    return line.means.get(JCT, UNKNOWN).count


def _stretches(line: Line) -> int | None:
    return line.means.get(JCT, UNKNOWN).clusters


def _windows_text(line: Line) -> str:
    stretches = _stretches(line)
    if stretches is None:
        return str(_windows(line))
    return f"{_windows(line)} of {stretches} {'stretch' if stretches == 1 else 'stretches'}"


def _unit(cells: Sequence[HeadlineCell]) -> TimeUnit:
    known = [line.means[JCT].centre for cell in cells for line in cell.lines if JCT in line.means]
    return unit_for(known)
