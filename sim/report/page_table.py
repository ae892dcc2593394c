"""The tables of a page of results, in the page's own rows and columns: `page.md`.

And what a paper claims beside what was measured: `paper.csv`.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from sim.files import ReportError, csv_text, known_cells
from sim.report.headline import KINDS
from sim.report.job_times import UNKNOWN, Interval
from sim.report.league import METRIC, LeagueRun, Place, by_block, mean_over, ratio_over
from sim.report.standings import best_of, uncounted
from sim.report.table_text import FEW, UNDONE, interval_text, mark, markdown_table
from sim.times import HOUR_S

COLUMNS = ("what", "scheduler", "against", "metric", "claim", "cell", "measured", "low", "high",
           "windows")  # fmt: skip


@dataclass(frozen=True)
class Claim:
    """One figure of a paper."""

    what: str
    scheduler: str
    against: str | None  # None: the claim is the metric itself, not a saving
    metric: str  # key of metrics.json
    claim: str | float  # as the paper has it: a share saved like 0.69, a value, or words


@dataclass(frozen=True)
class Measured:
    """The same figure here, in one cell or over all."""

    claim: Claim
    cell: str  # `all`: over every cell
    interval: Interval | None  # None: nothing to measure it by


def measured(
    claims: Sequence[Claim], runs: Sequence[LeagueRun], *, confidence: float
) -> list[Measured]:
    """For each claim what was measured over all cells, then cell by cell.

    With `against` the share saved, 1 - scheduler / against, a geometric mean over paired runs
    (without an interval, of means, where a value is 0); without it the mean of the metric. Cells
    that play the same jobs are averaged window by window first: they are one piece of evidence.

    Raises:
        ReportError: no run of a scheduler named, or no such metric.
    """
    runs = agents_apart(runs)
    cells = list(dict.fromkeys(run.cell for run in runs))
    at = {run.place: run for run in runs}
    found = []
    for claim in claims:
        ours, theirs = _values(claim, claim.scheduler, runs), {}
        if claim.against is not None:
            theirs = _values(claim, claim.against, runs)
        for cell in ["all", *(cells if len(cells) > 1 else [])]:
            here = {p: v for p, v in ours.items() if cell in ("all", p[0])}
            found.append(Measured(claim, cell, _interval(claim, (here, theirs), at, confidence)))
    return found


def claims_csv(rows: Sequence[Measured]) -> bytes:
    """The bytes of `paper.csv`; an empty cell is a value that is not there."""
    lines = []
    for row in rows:
        claim, interval = row.claim, row.interval or UNKNOWN
        who = claim.what, claim.scheduler, claim.against, claim.metric, claim.claim, row.cell
        lines.append(known_cells([*who, *interval.numbers, interval.count]))
    return csv_text(COLUMNS, lines).encode()


def claims_markdown(rows: Sequence[Measured]) -> str:
    """The same as a table for people, the paper's figure beside ours."""
    cells = [(row.claim.what, row.cell, str(row.claim.claim), _words(row)) for row in rows]
    return "\n".join(markdown_table(("what", "cell", "paper", "here"), cells, texts=2)) + "\n"


def _values(claim: Claim, name: str, runs: Sequence[LeagueRun]) -> dict[Place, float]:
    """Place -> the metric of the scheduler there; runs without a value are left out."""
    found: dict[Place, float] = {}
    named = [run for run in runs if run.row.labels.scheduler == name]
    if not named:
        known = dict.fromkeys(run.row.labels.scheduler for run in runs)
        raise ReportError(
            f"reproduce.paper ({claim.what}): no run of {name}; the schedulers are "
            f"{', '.join(known)}"
        )
    for run in named:
        if claim.metric not in run.row.metrics:
            raise ReportError(f"reproduce.paper ({claim.what}): no metric {claim.metric!r}")
        value = float(run.row.metrics[claim.metric])
        if not np.isnan(value):
            found[run.place] = value
    return found


def _interval(
    claim: Claim,
    values: tuple[dict[Place, float], dict[Place, float]],
    at: Mapping[Place, LeagueRun],
    confidence: float,
) -> Interval | None:
    ours, theirs = values
    cluster_of = {run.block: run.cluster for run in at.values()}
    if claim.against is None:
        means = by_block(ours, at)
        return mean_over(means, cluster_of, confidence) if means else None
    both = [place for place in ours if place in theirs]
    if not both:
        return None
    top, bottom = [ours[p] for p in both], [theirs[p] for p in both]
    if min(*top, *bottom) > 0:
        logs = {p: float(np.log(ours[p] / theirs[p])) for p in both}
        ratio = ratio_over(by_block(logs, at), cluster_of, confidence)
        return replace(ratio, centre=1 - ratio.centre, low=1 - ratio.high, high=1 - ratio.low)
    if sum(bottom) == 0:
        return None
    return Interval(1 - sum(top) / sum(bottom), np.nan, np.nan, len(both))


def _words(row: Measured) -> str:
    if row.interval is None:
        return "-"
    centre, low, high = row.interval.numbers
    if row.claim.against is None:
        return f"{centre:.4g}" if np.isnan(low) else f"{centre:.4g} [{low:.4g}, {high:.4g}]"
    return f"{centre:.0%}" if np.isnan(low) else f"{centre:.0%} [{low:.0%}, {high:.0%}]"


MEAN, RATIO, SAVED = SHOWN = ("mean", "ratio", "saved")
ALL = "all"  # column over every cell
JOINED, AGENTS, ONE_QUEUE = " + ", " agents", ", one queue"
PERCENT = 100.0
NOTHING, OURS = "-", "ours / theirs"
BEGIN, END = "<!-- table: {} -->", "<!-- end of table -->"


@dataclass(frozen=True)
class PageRow:
    """One line of a table; a scheduler is a name or one of `KINDS`, the best of its kind."""

    label: str
    scheduler: str
    against: str | None = None  # what it is divided by; None with `mean`
    metric: str = METRIC
    show: str | None = None  # None: as the table


@dataclass(frozen=True)
class PageTable:
    """Schedulers, or pairs of them, by cells."""

    rows: tuple[PageRow, ...]
    # What is in a column -> its heading: a cell, cells joined by ` + `, or a cell with `, 8 agents`
    # (and with it what has one queue). None: every cell.
    columns: Mapping[str, str] = field(default_factory=dict)
    show: str = MEAN  # of the metric, its ratio to `against`, or the percent saved of `against`
    per: float = HOUR_S  # `mean` is divided by it
    digits: int = 2  # of ratios
    corner: str = ""  # what stands above the labels
    flip: bool = False  # a line a column, a column a row
    ours: str | None = None  # scheduler whose ratio to each row's is a column more, by each column


def page_markdown(
    tables: Sequence[PageTable], runs: Sequence[LeagueRun], *, confidence: float
) -> str:
    """Every table; without one, mean JCT of each scheduler in each cell, in hours.

    Columns of cells that were not run are left out, and rows of schedulers that were not. A column
    whose intervals are over too few stretches of time is marked †, a row of whose jobs some are in
    no mean *.
    Intervals are those of `paper.csv`: t over paired windows, at least as wide as shared
    stretches of time tell (`league.mean_over`).
    """
    shown = [_table(table, runs, confidence) for table in tables or [_every(runs)]]
    return "\n".join(text for text in shown if text)


def with_table(text: str, name: str, table: str) -> str | None:
    """A page with the lines between the marks of `name` changed; None where it has no such."""
    head, begin, rest = text.partition(BEGIN.format(name))
    _, end, tail = rest.partition(END)
    return f"{head}{begin}\n\n{table.strip()}\n\n{end}{tail}" if begin and end else None


def _every(runs: Sequence[LeagueRun]) -> PageTable:
    names = dict.fromkeys(run.row.labels.scheduler for run in runs)
    return PageTable(tuple(PageRow(name, name) for name in names), corner="mean JCT [h]")


def _table(table: PageTable, runs: Sequence[LeagueRun], confidence: float) -> str:
    columns = table.columns or {name: name for name in _columns(runs)}
    found = [(head, here) for name, head in columns.items() if (here := _of(name, runs))]
    if table.ours:
        found = [pair for head, here in found for pair in ((head, here), (OURS, here))]
    lines, few = [], [False for _ in found]
    for row in table.rows:
        asked = [_asked(row, head, table) for head, _ in found]
        each = [_shown(of, here, confidence) for of, (_, here) in zip(asked, found, strict=True)]
        texts = [_text(interval, table, of.show or table.show)
                 for of, interval in zip(asked, each, strict=True)]  # fmt: skip
        if any(text != NOTHING for text in texts):
            left = any(_leaves(row, here) for _, here in found)
            lines.append([row.label + (UNDONE if left else ""), *texts])
            few = [old or (interval is not None and bool(mark(interval.clusters, confidence)))
                   for old, interval in zip(few, each, strict=True)]  # fmt: skip
    if not lines:
        return ""
    heads = [head + (FEW if old else "") for (head, _), old in zip(found, few, strict=True)]
    whole = [[table.corner, *heads], *lines]
    heads, *lines = map(list, zip(*whole, strict=True)) if table.flip else whole
    return "\n".join(markdown_table(heads, lines)) + "\n"


def agents_apart(runs: Sequence[LeagueRun]) -> list[LeagueRun]:
    """The runs with a cell for each number of agents, where a cell has several."""
    names_of = _by_cell(runs)
    whole = [run for run in runs if not names_of[run.cell]]
    parts = [name for names in names_of.values() for name in names]
    return [*whole, *(replace(run, cell=name) for name in parts for run in _of(name, runs))]


def _asked(row: PageRow, head: str, table: PageTable) -> PageRow:
    """What a column shows of a line: in one headed `OURS` our ratio to it."""
    if head != OURS or table.ours is None:
        return row
    return replace(row, scheduler=table.ours, against=row.scheduler, show=RATIO)


def _by_cell(runs: Sequence[LeagueRun]) -> dict[str, list[str]]:
    """Cell -> a name for each of its numbers of agents; none where it has one."""
    counts: dict[str, dict[int, None]] = {run.cell: {} for run in runs}
    for run in runs:
        if run.row.labels.role != "global_queue":
            counts[run.cell][run.row.labels.agents] = None
    return {
        cell: [f"{cell}, {n}{AGENTS}" for n in found] if len(found) > 1 else []
        for cell, found in counts.items()
    }


def _columns(runs: Sequence[LeagueRun]) -> list[str]:
    """Every cell, and every number of agents where a cell has several."""
    return [name for cell, names in _by_cell(runs).items() for name in (names or [cell])]


def _of(column: str, runs: Sequence[LeagueRun]) -> list[LeagueRun]:
    """Runs of a column; what has one queue is called so where agents have the same scheduler."""
    cells = column.split(JOINED)
    here = [run for run in runs if column == ALL or run.cell in cells]
    if here or not column.endswith(AGENTS):
        return here
    cell, _, count = column.removesuffix(AGENTS).rpartition(", ")
    in_cell = [run for run in runs if run.cell == cell]
    agents = [run for run in in_cell if str(run.row.labels.agents) == count]
    names = {run.row.labels.scheduler for run in agents}
    one_queue = [run for run in in_cell if run.row.labels.agents == 1 and run not in agents]
    return agents + [_one_queue(run) if run.row.labels.scheduler in names else run
                     for run in one_queue] if agents else []  # fmt: skip


def _one_queue(run: LeagueRun) -> LeagueRun:
    labels = replace(run.row.labels, scheduler=run.row.labels.scheduler + ONE_QUEUE)
    return replace(run, row=replace(run.row, labels=labels))


def _shown(row: PageRow, runs: Sequence[LeagueRun], confidence: float) -> Interval | None:
    """What a line has in a column; None where one of its two was not run."""
    known, names = {run.row.labels.scheduler for run in runs}, _pair(row, runs)
    if not {*names} - {None} <= known or (row.against and names[1] is None):
        return None
    claim = Claim(row.label, str(names[0]), names[1], row.metric, "")
    return measured([claim], runs, confidence=confidence)[0].interval


def _leaves(row: PageRow, runs: Sequence[LeagueRun]) -> bool:
    """Whether jobs of the two of a line are in no mean."""
    names = _pair(row, runs)
    return uncounted(run.row for run in runs if run.row.labels.scheduler in names) > 0


def _pair(row: PageRow, runs: Sequence[LeagueRun]) -> tuple[str | None, str | None]:
    """The scheduler of a line here, and what it is divided by."""
    one, other = (_best(name, runs) if name in KINDS else name
                  for name in (row.scheduler, row.against))  # fmt: skip
    return one, other


def _best(kind: str | None, runs: Sequence[LeagueRun]) -> str | None:
    """The best of a kind, as `headline` finds it."""
    jct_s: dict[str, dict[tuple[Place, int], float]] = defaultdict(dict)
    for run in runs:
        if KINDS[str(kind)](run.row.labels) and run.row.metrics[METRIC] > 0:
            place = run.place, run.row.labels.agents  # a column may have several numbers
            jct_s[run.row.labels.scheduler][place] = run.row.metrics[METRIC]
    return best_of(jct_s)


def _text(interval: Interval | None, table: PageTable, show: str) -> str:
    if interval is None:
        return NOTHING
    if show == MEAN:
        return interval_text(interval, 1.0 / table.per)
    centre, low, high = interval.numbers
    if show == RATIO:
        centre, low, high, digits = 1 - centre, 1 - high, 1 - low, table.digits
    else:
        centre, low, high, digits = PERCENT * centre, PERCENT * low, PERCENT * high, 0
    if np.isnan(low):
        return f"{centre:.{digits}f}"
    return f"{centre:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"
