"""The comparison table as text for rich and for markdown, with the words below it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from sim.errors import amount
from sim.files import write_atomically
from sim.report.job_times import Interval, most_coverage, percent
from sim.report.standings import Setting, Standing
from sim.times import TimeUnit, axis_unit_for, unit_for

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, Group
    from rich.table import Table

UNCOUNTED = "* has measured jobs that never finished or gave up, which its means do not count."

UNDONE = " *"  # marks whom `UNCOUNTED` is about
FEW = " †"  # marks intervals over fewer stretches of time than their confidence needs


def mark(stretches: int | None, confidence: float) -> str:
    """`FEW` where so many stretches cannot give the confidence; None: windows are random."""
    few = stretches is not None and most_coverage(stretches) < confidence
    return FEW if few else ""


def table_note(
    settings: Sequence[Setting], with_ratio: bool, ours: str | None, confidence: float
) -> str:
    """One paragraph; `with_ratio`: there are ratios, of the scheduler `ours` over others."""
    every = [standing for setting in settings for standing in setting.standings]
    counts = {s.intervals["jct_mean_s"].count for s in every if "jct_mean_s" in s.intervals}
    stretches = sorted({s.stretches for s in settings if s.stretches is not None})
    seeds = {setting.windows for setting in settings} == {1}
    parts = [_spread_note(counts, stretches, confidence, seeds=seeds)] if counts else []
    if with_ratio:
        parts.append(
            f"ours / theirs: geometric mean of the paired ratios of mean JCT, ours = {ours}; "
            "below 1 ours is faster."
        )
    parts += [*_unpaired_note(settings, ours), *_stretch_notes(stretches, with_ratio, confidence)]
    if any(s.uncounted for s in every):
        parts.append(UNCOUNTED)
    fewer = {f"{s.scheduler.partition(' [')[0]} ({ran} of {of})": None
             for s in every for ran, of in [s.ran] if ran < of}  # fmt: skip
    if fewer:
        listed = ", ".join(sorted(fewer))
        parts.append(f"Not on all windows and seeds that others ran: {listed}.")
    return " ".join(parts)


def _spread_note(
    counts: set[int], stretches: Sequence[int], confidence: float, *, seeds: bool
) -> str:
    if counts == {1}:
        return "One run each, so no intervals; sorted by mean JCT."
    repeats = " to ".join(str(count) for count in sorted({min(counts), max(counts)}))
    if any(count > 1 for count in stretches):
        return (
            f"Mean ± half width of the {percent(confidence)} interval over {repeats} windows, "
            "bootstrapped by stretch of time where a table names stretches, else t; sorted by mean "
            "JCT."
        )
    if seeds:
        return (
            f"Mean ± half width of the {percent(confidence)} t interval over {repeats} seeds of "
            "one window (of a whole file: the same jobs, so only what is drawn for them varies); "
            "sorted by mean JCT."
        )
    return (
        f"Mean ± half width of the {percent(confidence)} t interval over {repeats} windows "
        "(over seeds where there is one window); sorted by mean JCT."
    )


def _unpaired_note(settings: Sequence[Setting], ours: str | None) -> list[str]:
    """Who has no ratio to ours because no window and seed has a mean JCT of both."""
    together: list[Standing] = []
    apart: list[Standing] = []  # in settings that ours did not run in
    for setting in settings:
        ran = any(s.scheduler == ours for s in setting.standings)
        (together if ran else apart).extend(s for s in setting.standings if s.scheduler != ours)
    known = {s.scheduler for s in together if s.ratio is not None}  # in some setting
    lacking = [
        s for s in together
        if s.pairs == 0 and s.scheduler not in known and "jct_mean_s" in s.intervals
    ]  # fmt: skip
    lacking += [] if known else apart
    names = ", ".join(dict.fromkeys(s.scheduler for s in lacking))
    of_both = f"No common window and seed with {ours} where both have a mean JCT above 0"
    note = f"{of_both}: no ratio of {names}."
    return [note] if names and ours is not None else []


def _stretch_notes(stretches: Sequence[int], with_ratio: bool, confidence: float) -> list[str]:
    """How to read intervals over windows that share stretches of time."""
    notes = []
    if stretches and with_ratio:
        notes.append(
            "Effective windows: independent ones that the paired ratios are worth, n / (1 + (m - 1)"
            " r) with r their correlation within a stretch and m its windows."
        )
    few = [count for count in stretches if mark(count, confidence)]
    return notes + [f"{FEW.strip()} {too_few(count)}" for count in few]


def too_few(stretches: int) -> str:
    """What an interval over so many stretches says."""
    if stretches == 1:
        return (
            "1 stretch: intervals are t, over windows of the same days, and say nothing of others."
        )
    return (
        f"{stretches} stretches are too few for such an interval: how often it holds depends on "
        "how alike their windows are."
    )


_TIMES = {
    "jct_mean_s": "mean JCT",
    "jct_p50_s": "p50 JCT",
    "jct_p95_s": "p95 JCT",
    "jct_p99_s": "p99 JCT",
    "queue_delay_mean_s": "queueing delay",
}


@dataclass(frozen=True)
class TableText:
    """Headers, and for each setting one tuple of cells a standing."""

    headers: tuple[str, ...]
    settings: tuple[tuple[str, tuple[tuple[str, ...], ...]], ...]  # (title, rows)
    note: str  # how to read it


def table_text(settings: Sequence[Setting], *, ours: str | None, confidence: float) -> TableText:
    """Text of all settings in common units, which the headers state."""
    every = [standing for setting in settings for standing in setting.standings]
    unit = unit_for(s.intervals["jct_mean_s"].centre for s in every if "jct_mean_s" in s.intervals)
    span = axis_unit_for(
        max((s.intervals["makespan_s"].centre for s in every if "makespan_s" in s.intervals),
            default=0.0)
    )  # fmt: skip
    last = ["ours / theirs"] if any(standing.ratio for standing in every) else []
    if last and any(setting.stretches for setting in settings):
        last.append("effective windows")
    headers = [
        "scheduler", "role", "information", *(f"{name} [{unit.name}]" for name in _TIMES.values()),
        f"makespan [{span.name}]", "GPU use [%]", *last,
    ]  # fmt: skip
    blocks = tuple(
        (
            setting.title + _windows(setting, confidence),
            tuple(
                _cells(s, (unit, span)) + _ratio_cells(s, ours, confidence)[: len(last)]
                for s in setting.standings
            ),
        )
        for setting in settings
    )
    return TableText(tuple(headers), blocks, table_note(settings, bool(last), ours, confidence))


def _windows(setting: Setting, confidence: float) -> str:
    """What the windows of the setting are, where several may come from one stretch of time."""
    if setting.stretches is None:
        return ""
    windows = amount(setting.windows, "window")
    stretches = amount(setting.stretches, "stretch")
    return f", {windows} of {stretches}{mark(setting.stretches, confidence)}"


def _cells(standing: Standing, units: tuple[TimeUnit, TimeUnit]) -> tuple[str, ...]:
    found = standing.intervals
    unit, span = units
    name = standing.scheduler + (UNDONE if standing.uncounted else "")
    cells = [name, standing.role, standing.information]
    cells += [interval_text(found.get(key), 1.0 / unit.length_s) for key in _TIMES]
    cells.append(interval_text(found.get("makespan_s"), 1.0 / span.length_s))
    cells.append(interval_text(found.get("gpu_util_frac"), 100.0))
    return tuple(cells)


def _ratio_cells(standing: Standing, ours: str | None, confidence: float) -> tuple[str, str]:
    """The ratio, and how many independent windows it is worth."""
    ratio = standing.ratio
    if ratio is None:
        return ("(ours)" if standing.scheduler == ours else "-"), "-"
    known = ratio.effective is not None and not np.isnan(ratio.effective)
    text = ratio_text(ratio) + mark(ratio.clusters, confidence)
    if standing.pairs is not None:
        text += pairs_text(standing.pairs)
    return text, f"{ratio.effective:.1f}" if known else "-"


def pairs_text(pairs: int) -> str:
    """Over how many pairs a ratio is, behind it."""
    return f" ({amount(pairs, 'pair')})"


def interval_text(interval: Interval | None, factor: float) -> str:
    """`mean ± half width`: the mean to three figures, the half width to as many decimals.

    Only the mean where there is no interval, `-` where there is nothing. An interval that is not
    symmetric is shown by half its width.
    """
    if interval is None:
        return "-"
    centre = interval.centre * factor
    decimals = decimals_of(centre)
    if np.isnan(interval.low):
        return f"{centre:.{decimals}f}"
    half = (interval.high - interval.low) / 2 * factor
    return f"{centre:.{decimals}f} ± {half:.{decimals}f}"


def ratio_text(interval: Interval | None) -> str:
    """`ratio [low, high]`, the interval only if there is one."""
    if interval is None:
        return "-"
    if np.isnan(interval.low):
        return f"{interval.centre:.3f}"
    return f"{interval.centre:.3f} [{interval.low:.3f}, {interval.high:.3f}]"


def decimals_of(value: float) -> int:
    """Decimals that show three significant figures, at most three decimals."""
    if value == 0 or not np.isfinite(value):
        return 1
    return min(max(2 - int(np.floor(np.log10(abs(value)))), 0), 3)


_TEXT_COLUMNS = 3  # scheduler, role, information
_NARROWEST = 14  # characters of a scheduler's name on one line
_NARROWEST_HEAD = 11
_WIDEST_LEAST = 24  # longer texts may be folded
_BESIDE = 2  # characters a column, beside its own


def rich_tables(text: TableText, *, texts: int = _TEXT_COLUMNS) -> Group:
    """What a terminal prints: one table a setting under its title, then the note."""
    from rich.console import Group
    from rich.markup import escape

    tables = (RichTable(text.headers, title, rows, texts) for title, rows in text.settings)
    return Group(*tables, escape(text.note))


@dataclass(frozen=True)
class RichTable:
    """A table for a terminal; in a narrow one columns go on below, beside the names again."""

    headers: tuple[str, ...]
    title: str
    rows: tuple[tuple[str, ...], ...]
    texts: int  # so many columns are texts, the first of them names; the others numbers
    bold: Collection[int] = ()  # rows beside ours

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table]:
        """The columns that have room, then the others."""
        del console
        least, whole = zip(*map(self._widths, range(len(self.headers))), strict=True)
        for number, places in enumerate(_side_by_side(least, options.max_width)):
            widths = _filled(
                [least[place] for place in places], [whole[place] for place in places],
                options.max_width,
            )  # fmt: skip
            yield self._table(places, "" if number else self.title, widths)

    def _widths(self, place: int) -> tuple[int, int]:
        """Characters of a column: the fewest, at which names and headers are folded; for all."""
        cells, head = [row[place] for row in self.rows], _head(self.headers[place])
        longest = max(map(len, cells), default=0)
        whole = max([longest, *map(len, head.split("\n"))])
        if place == 0:
            return min(_NARROWEST, whole), whole
        heads = min(max(map(len, head.split()), default=0), _NARROWEST_HEAD)
        return min(max(longest, heads), _WIDEST_LEAST), whole

    def _table(self, places: Sequence[int], title: str, widths: Sequence[int]) -> Table:
        from rich import box
        from rich.markup import escape
        from rich.table import Table

        table = Table(
            title=escape(title) or None, title_justify="left", title_style="bold",
            box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False,
        )  # fmt: skip
        for place, width in zip(places, widths, strict=True):
            side: Literal["left", "right"] = "left" if place < self.texts else "right"
            head = escape(_head(self.headers[place]))
            table.add_column(head, justify=side, overflow="fold", width=width)
        for number, cells in enumerate(self.rows):
            shown = (escape(cells[place]) for place in places)
            strong = "(ours)" in cells or number in self.bold
            table.add_row(*shown, style="bold" if strong else "")
        return table


def _head(header: str) -> str:
    """The unit has a line of its own."""
    return header.replace(" [", "\n[")


def _side_by_side(least: Sequence[int], room: int) -> list[list[int]]:
    """Places of columns, the names before as many others as there is room for."""
    found, left = [[0]], room - least[0] - _BESIDE
    for place, width in enumerate(least[1:], 1):
        if len(found[-1]) > 1 and width + _BESIDE > left:
            found.append([0])
            left = room - least[0] - _BESIDE
        found[-1].append(place)
        left -= width + _BESIDE
    return found


def _filled(least: Sequence[int], whole: Sequence[int], room: int) -> list[int]:
    """Widths of columns side by side: what is left goes first to those that lack the fewest."""
    lacking = [wanted - width for wanted, width in zip(whole, least, strict=True)]
    widths, left = list(least), room - sum(least) - _BESIDE * len(least)
    for place in sorted(range(len(least)), key=lacking.__getitem__):
        more = max(min(lacking[place], left), 0)
        widths[place] += more
        left -= more
    return widths


def markdown(text: TableText, *, texts: int = _TEXT_COLUMNS) -> str:
    """One markdown table a setting under its heading, the note at the end; `texts`: see below."""
    parts = []
    for title, rows in text.settings:
        lines = markdown_table(text.headers, rows, texts=texts)
        parts.append(f"## {title}\n\n" + "\n".join(lines) + "\n")
    return "\n".join([*parts, text.note]) + "\n"


def write_markdown(
    path: Path, text: TableText, *, first: str = "", texts: int = _TEXT_COLUMNS
) -> None:
    """Write the table as a markdown file, below `first` if there is something."""
    page = markdown(text, texts=texts)
    write_atomically(path, "\n".join(filter(None, [first, page])).encode())


def markdown_table(
    headers: Sequence[str], rows: Iterable[Sequence[str]], *, texts: int = 1
) -> list[str]:
    """Lines of a table; the first `texts` columns are texts, the others numbers."""
    sides = (":--" if place < texts else "--:" for place in range(len(headers)))
    cells = ([cell.replace("|", "\\|") for cell in row] for row in (headers, *rows))
    head, *body = (f"| {' | '.join(row)} |" for row in cells)
    return [head, f"|{'|'.join(sides)}|", *body]
