"""The comparison table for the terminal (rich) and for a file (markdown)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from sim.report.atomic import write_atomically
from sim.report.table_text import TableText

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

_TEXT_COLUMNS = 3  # scheduler, role, information
_NARROWEST = 14  # characters of a scheduler's name on one line
_NARROWEST_NUMBER = 8


def rich_tables(text: TableText) -> Group:
    """What a terminal prints: one table a setting under its title, then the note."""
    from rich.console import Group

    return Group(*(_rich_table(text.headers, title, rows) for title, rows in text.settings),
                 text.note)  # fmt: skip


def under_table(table: Table, note: str) -> Group:
    """One table and the words below it."""
    from rich.console import Group

    return Group(table, note)


def _rich_table(headers: tuple[str, ...], title: str, rows: tuple[tuple[str, ...], ...]) -> Table:
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    table = Table(
        title=escape(title), title_justify="left", title_style="bold", box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0), pad_edge=False,
    )  # fmt: skip
    for place, header in enumerate(headers):
        side: Literal["left", "right"] = "left" if place < _TEXT_COLUMNS else "right"
        table.add_column(
            escape(header.replace(" [", "\n[")), justify=side, overflow="fold",
            no_wrap=0 < place < _TEXT_COLUMNS, min_width=_NARROWEST_NUMBER if place else _NARROWEST,
        )  # fmt: skip
    for cells in rows:
        table.add_row(*map(escape, cells), style="bold" if "(ours)" in cells else "")
    return table


def markdown(text: TableText) -> str:
    """One markdown table a setting under its heading, the note at the end."""
    rule = [":--" if place < _TEXT_COLUMNS else "--:" for place in range(len(text.headers))]
    parts = []
    for title, rows in text.settings:
        lines = [_line(text.headers), _line(rule), *map(_line, rows)]
        parts.append(f"## {title}\n\n" + "\n".join(lines) + "\n")
    return "\n".join([*parts, text.note]) + "\n"


def write_markdown(path: Path, text: TableText, *, first: str = "") -> None:
    """Write the table as a markdown file, below `first` if there is something."""
    write_atomically(path, "\n".join(filter(None, [first, markdown(text)])).encode())


def _line(cells: tuple[str, ...] | list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
