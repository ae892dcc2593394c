"""GPUs of each job of Alibaba's Lingjun cluster, from the rows of its workers."""

import json
from collections import defaultdict

import numpy as np

from sim.traces.column_map import GivenColumns, checked_columns
from sim.traces.sheet import Sheet
from sim.traces.text_table import read_text_table

WORKER_COLUMNS = ("worker_job", "worker_resources")
GPU_KEYS = ("nvidia.com/gpu",)
MOST_GPUS = 10_000


def read_workers(path: str, columns: GivenColumns, strict: bool) -> dict[str, int]:
    """GPUs by name of job: the sum of what each worker's resources (a JSON object) ask for.

    Raises:
        TraceError: naming file, line, column, value and fix.
    """
    wanted = checked_columns(columns, required=WORKER_COLUMNS, optional=())
    sheet = Sheet(read_text_table(path, wanted, strict=strict))
    gpus = [_gpus(text) for text in sheet.raw("worker_resources")]
    sheet.flag(
        "worker_resources",
        np.array([number is None for number in gpus], dtype=np.bool_),
        'is no object of resources such as {"cpu": "8", "nvidia.com/gpu": "1"}',
    )
    good = sheet.good(strict)
    found: dict[str, int] = defaultdict(int)
    for job, number, usable in zip(sheet.raw("worker_job"), gpus, good, strict=True):
        if usable and number is not None:
            found[job] += number
    return dict(found)


def _gpus(text: str) -> int | None:
    """Whole GPUs of one worker, 0 where it names none; None if the text is no such object."""
    if not text:
        return 0
    try:
        resources = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(resources, dict):
        return None
    amounts = [_whole(resources[key]) for key in GPU_KEYS if key in resources]
    return None if None in amounts else sum(amount or 0 for amount in amounts)


def _whole(value: object) -> int | None:
    try:
        number = float(str(value))
    except ValueError:
        return None
    return int(number) if 0 <= number <= MOST_GPUS and number == int(number) else None
