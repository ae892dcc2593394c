"""Reads the batch jobs of Alibaba's 2018 trace: tasks whose names hold a DAG (`batch_task.csv`)."""

import re
from collections.abc import Sequence

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray, objects
from sim.traces.column_reader import ColumnReader
from sim.traces.option_rules import check_count
from sim.traces.text_table import GivenColumns, check_either, checked_columns, read_text_table
from sim.traces.trace import Notes, Trace, starts
from sim.traces.workflows import on_a_cycle
from sim.traits import COMPLETED, FAILED, Precedence, codes_of

REQUIRED = ("task_name", "inst_num", "job_name")
OPTIONAL = ("status", "start_time", "end_time", "arrival_s", "duration_s")
UNFINISHED = 3
STATES = {"Terminated": COMPLETED, "Failed": FAILED, "Cancelled": FAILED, "Interrupted": FAILED,
          "Running": UNFINISHED, "Waiting": UNFINISHED, "Ready": UNFINISHED}  # fmt: skip
DAG_NAME = re.compile(r"[A-Za-z]+(\d+)((?:_\d+)*)")


class AlibabaDag:
    """One row a task: each becomes a job, a whole batch job becomes a workflow.

    `R5_2_3` is task 5 of its job and waits for tasks 2 and 3; a name of another form
    (`task_Nzg3...`) waits for none. All tasks of a job are submitted when its first one started,
    and are ready when their parents are done. These are CPU jobs: a task of n instances gets
    ceil(n / instances_per_gpu) GPUs, at most `most_gpus`. Tasks that had not ended, or whose times
    lie outside the log (written as 0), are left out.
    """

    def __init__(
        self, *, instances_per_gpu: int, most_gpus: int, header: Sequence[str] | None
    ) -> None:
        """Keep the rule for GPUs, and the columns of a file without a header row.

        Raises:
            TraceError: naming an option out of range.
        """
        check_count("reader.instances_per_gpu", instances_per_gpu)
        check_count("reader.most_gpus", most_gpus)
        self._instances_per_gpu, self._most_gpus = instances_per_gpu, most_gpus
        self._header = header

    def read(
        self, *, path: str, columns: GivenColumns, name: str, strict: bool
    ) -> tuple[Trace, Notes]:
        """The trace of a file; arguments and errors as `TraceReader` says."""
        wanted = checked_columns(columns, required=REQUIRED, optional=OPTIONAL)
        check_either(wanted, "start_time", "arrival_s", "start and end, or arrival and duration")
        end = "end_time" if "start_time" in wanted else "duration_s"
        checked_columns(wanted, required=(*REQUIRED, end), optional=OPTIONAL)
        reader = ColumnReader(read_text_table(path, wanted, strict=strict, header=self._header))
        job = codes_of(reader.texts("job_name"))
        status = reader.choices("status", STATES) if reader.has("status") else None
        if status is not None:
            reader.leave_out(status == UNFINISHED, "had not ended")
        submit_s, duration_s = _times(reader, job)
        reader.flag("job_name", job < 0, "is empty; every task belongs to a job")
        instances = reader.counts("inst_num", blank=1, least=1)
        reader.gangs_from("inst_num")
        gpus = -(-instances // self._instances_per_gpu)
        trace = Trace(
            name=name,
            job_id=objects(task_names(reader)),
            submit_s=submit_s,
            num_gpus=np.minimum(gpus, self._most_gpus),
            duration_s=duration_s,
            user=reader.texts("user"),
            vc=reader.texts("vc"),
            outcome=None if status is None else np.where(status == FAILED, FAILED, COMPLETED),
            precedence=_precedence(reader, job),
        )
        return reader.finish(trace, strict=strict)


def task_names(reader: ColumnReader) -> list[str]:
    """(N,) "job/task", which no two rows share."""
    pairs = zip(reader.raw("job_name"), reader.raw("task_name"), strict=True)
    names = [f"{job}/{task}" for job, task in pairs]
    reader.unique("task_name", names)
    return names


def _times(reader: ColumnReader, job: IntArray) -> tuple[FloatArray, FloatArray]:
    """(N,) submission (one a job) and run time of each task."""
    if reader.has("arrival_s"):
        return reader.times("arrival_s"), reader.times("duration_s")
    start_s = reader.times("start_time", blank_s=0.0)
    end_s = reader.times("end_time", blank_s=0.0)
    outside = (start_s == 0) | (end_s == 0)
    reader.flag("end_time", ~outside & (end_s < start_s), "is before start_time")
    reader.leave_out(outside, "began or ended outside the log")
    first_s = np.full(int(job.max(initial=0)) + 2, np.inf)  # the last entry: rows without a job
    np.minimum.at(first_s, job, np.where(outside, np.inf, start_s))
    submit_s = np.where(outside, 0.0, first_s[job])
    return submit_s, np.where(outside, 0.0, np.maximum(end_s - start_s, 0.0))


def _precedence(reader: ColumnReader, job: IntArray) -> Precedence:
    """Parents by the numbers in the names; numbers that the job lacks are left away."""
    parsed = [DAG_NAME.fullmatch(text) for text in reader.raw("task_name")]
    row_of: dict[tuple[int, int], int] = {}
    repeated: BoolArray = np.zeros(len(reader), dtype=np.bool_)
    for row, found in enumerate(parsed):
        if found is not None:
            key = (int(job[row]), _number(found[1]))
            repeated[row] = row_of.setdefault(key, row) != row
    lists = [
        [] if found is None else _parents(found, int(job[row]), row_of)
        for row, found in enumerate(parsed)
    ]
    first = starts([len(rows) for rows in lists])
    parents = np.array([parent for rows in lists for parent in rows], dtype=np.int64)
    reader.flag("task_name", repeated, "has the number of another task of its job")
    cycle = on_a_cycle(first, parents)
    reader.flag("task_name", cycle, "waits for itself in the end: its parents form a circle")
    return Precedence(first, parents, job)


def _parents(found: re.Match[str], job: int, row_of: dict[tuple[int, int], int]) -> list[int]:
    numbers = [_number(part) for part in found[2].split("_")[1:]]
    rows = [row_of.get((job, number), -1) for number in dict.fromkeys(numbers)]
    return [row for row in rows if row >= 0]


def _number(digits: str) -> int:
    """A task number; more digits than any task has are cut, so that none is too long to read."""
    return int(digits[:18])
