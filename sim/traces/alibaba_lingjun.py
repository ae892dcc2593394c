"""Reads the jobs of Alibaba's Lingjun cluster, 2023: `job.csv` and `worker.csv` (Crux, 2024)."""

import json
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np

from sim.arrays import IntArray
from sim.traces.column_reader import ColumnReader
from sim.traces.text_table import GivenColumns, checked_columns, read_text_table
from sim.traces.trace import Notes, Trace
from sim.traits import CANCELLED, COMPLETED, FAILED, NEVER_S

WORKER_COLUMNS = ("worker_job", "worker_resources")
GPU_KEYS = ("nvidia.com/gpu",)
MOST_GPUS = 10_000


def read_workers(path: str, columns: GivenColumns, strict: bool) -> dict[str, int]:
    """GPUs by name of job: the sum of what each worker's resources (a JSON object) ask for.

    Raises:
        TraceError: naming file, line, column, value and fix.
    """
    wanted = checked_columns(columns, required=WORKER_COLUMNS, optional=())
    reader = ColumnReader(read_text_table(path, wanted, strict=strict))
    gpus = [_gpus(text) for text in reader.raw("worker_resources")]
    reader.flag(
        "worker_resources",
        np.array([number is None for number in gpus], dtype=np.bool_),
        'is no object of resources such as {"cpu": "8", "nvidia.com/gpu": "1"}',
    )
    good = reader.good(strict)
    found: dict[str, int] = defaultdict(int)
    for job, number, usable in zip(reader.raw("worker_job"), gpus, good, strict=True):
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


REQUIRED = ("job_name", "status", "submitted", "running", "finished")
OPTIONAL = ("stopped", "user", "vc", "model", "priority")
UNFINISHED = 3
STATES = {"Succeeded": COMPLETED, "Failed": FAILED, "Stopped": CANCELLED, "Running": UNFINISHED,
          "Queuing": UNFINISHED, "Creating": UNFINISHED}  # fmt: skip


class AlibabaLingjun:
    """One row a job, whose GPUs are the sum over its rows in the table of workers.

    Times have a resolution of a minute. A job runs from `running` to `finished` (or `stopped`,
    where that is empty). A job that never ran was given up at its end. Left out: jobs without GPUs
    (or without workers), and those that had not ended.
    """

    def __init__(self, *, worker_table: str | None) -> None:
        """Keep the path of `worker.csv`; null: beside the file of jobs."""
        self._worker_table = worker_table

    def read(
        self, *, path: str, columns: GivenColumns, name: str, strict: bool
    ) -> tuple[Trace, Notes]:
        """The trace of a file; arguments and errors as `TraceReader` says."""
        ours = {key: one for key, one in columns.items() if key not in WORKER_COLUMNS}
        wanted = checked_columns(ours, required=REQUIRED, optional=(*OPTIONAL, *WORKER_COLUMNS))
        reader = ColumnReader(read_text_table(path, wanted, strict=strict))
        workers = self._worker_table or str(Path(path).expanduser().with_name("worker.csv"))
        theirs = {key: one for key, one in columns.items() if key in WORKER_COLUMNS}
        gpus_of = read_workers(workers, theirs, strict)
        gpus = np.array([gpus_of.get(job, 0) for job in reader.raw("job_name")], dtype=np.int64)
        reader.leave_out(gpus == 0, "have no worker with a GPU")
        told = replace(_trace(reader, gpus, name), gang_from=f"by column 'RES' of {workers}")
        return reader.finish(told, strict=strict)


def _trace(reader: ColumnReader, gpus: IntArray, name: str) -> Trace:
    """The rows as a trace in file order."""
    status = reader.choices("status", STATES)
    submitted_s, running_s = reader.moments("submitted"), reader.moments("running")
    finished_s, stopped_s = reader.moments("finished"), reader.moments("stopped")
    end_s = np.where(np.isnan(finished_s), stopped_s, finished_s)
    reader.flag("submitted", np.isnan(submitted_s), "is empty; every job was submitted some time")
    reader.flag("running", running_s < submitted_s, "is before the job's submission")
    reader.flag("finished", end_s < np.fmax(submitted_s, running_s),
               "(or the time it was stopped) is before the job ran")  # fmt: skip
    reader.leave_out(status == UNFINISHED, "had not ended")
    reader.leave_out(np.isnan(end_s), "have no end")
    never_ran = np.isnan(running_s)
    reader.leave_out(never_ran & (status == COMPLETED), "succeeded without having run")
    origin_s = np.nanmin(submitted_s) if np.isfinite(submitted_s).any() else 0.0
    submit_s = np.nan_to_num(submitted_s - origin_s)
    return Trace(
        name=name,
        job_id=reader.names("job_name"),
        submit_s=submit_s,
        num_gpus=np.maximum(gpus, 1),
        duration_s=np.maximum(np.nan_to_num(end_s - running_s), 0.0),
        user=reader.texts("user"),
        vc=reader.texts("vc"),
        model=reader.texts("model") if reader.has("model") else None,
        priority=reader.counts("priority", blank=0) if reader.has("priority") else None,
        outcome=np.where(never_ran, CANCELLED, status),
        withdraw_s=np.where(never_ran, np.nan_to_num(end_s - submitted_s), NEVER_S),
        waited_s=running_s - submitted_s,
    )
