"""A trace as the text of a CSV file that the reader takes back."""

import csv
import io

from sim.traces.trace import Trace

COLUMNS = ("job_id", "submit_s", "num_gpus", "duration_s", "user", "vc")


def csv_text(trace: Trace) -> str:
    """Header and one row a job; numbers are written so that they read back the same."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    columns = (getattr(trace, name).tolist() for name in COLUMNS)
    writer.writerows([map(_cell, row) for row in zip(*columns, strict=True)])
    return text.getvalue()


def _cell(value: str | float | int) -> str:
    if isinstance(value, float):
        return repr(int(value) if value.is_integer() else value)
    return str(value)
