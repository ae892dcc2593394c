"""The two files of a measurement, written whole or not at all."""

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from interference.measuring.table import Row, Solo
from sim.report.atomic import write_atomically

ROWS_FILE, SOLOS_FILE = "colocation.csv", "solo_profiles.csv"
JOIN = "+"


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """Rows of co-location."""
    _write(path, tuple(each.name for each in fields(Row)), rows)


def write_solos(path: Path, solos: Sequence[Solo]) -> None:
    """Solo profiles."""
    _write(path, tuple(each.name for each in fields(Solo)), solos)


def _write(path: Path, columns: Sequence[str], records: Sequence[Row | Solo]) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_cell(getattr(each, name)) for name in columns] for each in records)
    write_atomically(path, text.getvalue().encode())


def _cell(value: object) -> str:
    """Booleans as 1 and 0, nothing for a number that is not known."""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, tuple):
        return JOIN.join(value)
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.6g}"
    return str(value)
