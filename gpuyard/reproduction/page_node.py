"""The tables of a page of results, as an experiment's `reproduce.page` lists them."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from gpuyard.launch.build import check_keys
from gpuyard.launch.errors import ConfigError
from sim.files import write_atomically
from sim.report.page_table import BEGIN, SHOWN, PageRow, PageTable, with_table
from sim.report.table_text import TableText, markdown_table

PAGE_FILE = "page.md"
TABLE_KEYS = tuple(each.name for each in fields(PageTable))
ROW_KEYS = tuple(each.name for each in fields(PageRow))


def page_tables(place: str, node: Any) -> tuple[PageTable, ...]:
    """The tables in order; none where the node is missing.

    Raises:
        ConfigError: naming the key, the value and what is allowed.
    """
    if node is None:
        return ()
    if not isinstance(node, list):
        raise ConfigError(f"{place} is {node!r}; it must list tables, each with rows")
    return tuple(_table(f"{place}[{number}]", table) for number, table in enumerate(node))


def write_page(folder: Path, text: TableText, arms: Sequence[str] = ()) -> None:
    """Write page.md: the tables of `text` as one, the first column the names of the `arms`."""
    headers = [*(["arm"] if arms else []), *text.headers]
    names = [[arm] for arm in arms] or [[]] * len(text.settings)
    rows = [
        [*name, *row]
        for name, (_, group) in zip(names, text.settings, strict=True)
        for row in group
    ]
    write_atomically(folder / PAGE_FILE, "\n".join([*markdown_table(headers, rows), ""]).encode())


def put_into(page: Path, *, name: str, table: str) -> None:
    """Change the table of a page that lies between marks with the name of the experiment.

    Raises:
        ConfigError: there is no such page, it has no such marks, or there is nothing to put there.
    """
    if not table.strip():
        raise ConfigError(
            f"{PAGE_FILE} is empty: nothing that a row of reproduce.page tells of was run; {page} "
            "stays as it is"
        )
    if not page.is_file():
        raise ConfigError(
            f"into is {page}, which is no file; name a page like docs/results/dally.md"
        )
    text = with_table(page.read_text(encoding="utf-8"), name, table)
    if text is None:
        raise ConfigError(f"{page} has no line `{BEGIN.format(name)}` with an end below it")
    write_atomically(page, text.encode())


def _table(place: str, table: Any) -> PageTable:
    if not isinstance(table, Mapping):
        raise ConfigError(f"{place} is {table!r}; it must hold {', '.join(TABLE_KEYS)}")
    check_keys(place, table, TABLE_KEYS, needed=("rows",))
    rows = table["rows"]
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise ConfigError(f"{place}.rows is {rows!r}; it must list rows with label and scheduler")
    for at, row in [("", table), *((f".rows[{at}]", row) for at, row in enumerate(rows))]:
        if row.get("show", SHOWN[0]) not in SHOWN:
            raise ConfigError(
                f"{place}{at}.show is {row['show']!r}; it must be {' or '.join(SHOWN)}"
            )
        if row is not table:
            check_keys(f"{place}{at}", row, ROW_KEYS, needed=("label", "scheduler"))
    columns = table.get("columns") or {}
    if not isinstance(columns, Mapping):
        raise ConfigError(f"{place}.columns is {columns!r}; it must map cells to headings")
    return PageTable(**{**table, "rows": tuple(PageRow(**row) for row in rows), "columns": columns})
