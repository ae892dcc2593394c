"""Reads traces of three of Alibaba's clusters; that of a fourth, Lingjun, stands in `job_logs`.

The batch jobs of 2018: tasks whose names hold a DAG (`batch_task.csv`). The pod lists of the
GPU-sharing cluster, 2023 (Weng et al., ATC 2023: "openb"). The tasks of the PAI cluster, 2020:
`pai_task_table.csv` and its companions.
"""

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray, objects, plain_number
from sim.errors import TraceError
from sim.jobs import (
    CANCELLED,
    COMPLETED,
    FAILED,
    NEVER_S,
    WHOLE_GPU_MILLI,
    Precedence,
    codes_of,
    gang_of,
)
from sim.traces.column_reader import BLANKS, ColumnReader, TableReader
from sim.traces.setting import check_count
from sim.traces.text_table import Columns, TextTable, check_either, checked_columns, read_text_table
from sim.traces.trace import Trace, on_a_cycle, starts

log = logging.getLogger(__name__)

UNFINISHED = 3
TASK_STATES = {
    "Terminated": COMPLETED, "Failed": FAILED, "Cancelled": FAILED, "Interrupted": FAILED,
    "Running": UNFINISHED, "Waiting": UNFINISHED, "Ready": UNFINISHED,
}  # fmt: skip
DAG_NAME = re.compile(r"[A-Za-z]+(\d+)((?:_\d+)*)")


class AlibabaDag(TableReader):
    """One row a task: each becomes a job, a whole batch job becomes a workflow.

    `R5_2_3` is task 5 of its job and waits for tasks 2 and 3; a name of another form
    (`task_Nzg3...`) waits for none. All tasks of a job are submitted when its first one started,
    and are ready when their parents are done. These are CPU jobs: a task of n instances gets
    ceil(n / instances_per_gpu) GPUs, at most `most_gpus`. Tasks that had not ended, or whose times
    lie outside the log (written as 0), are left out.
    """

    required = ("task_name", "inst_num", "job_name")
    optional = ("status", "start_time", "end_time", "arrival_s", "duration_s")

    def __init__(
        self, *, instances_per_gpu: int, most_gpus: int, header: Sequence[str] | None
    ) -> None:
        """Keep the rule for GPUs, and the columns of a file without a header row."""
        check_count("reader.instances_per_gpu", instances_per_gpu)
        check_count("reader.most_gpus", most_gpus)
        self._instances_per_gpu, self._most_gpus = instances_per_gpu, most_gpus
        self.header = header

    def _rows(self, path: str, wanted: Columns, strict: bool) -> ColumnReader:
        check_either(wanted, "start_time", "arrival_s", "start and end, or arrival and duration")
        end = "end_time" if "start_time" in wanted else "duration_s"
        checked_columns(wanted, required=(*self.required, end), optional=self.optional)
        return super()._rows(path, wanted, strict)

    def _trace(self, reader: ColumnReader, name: str) -> Trace:
        job = codes_of(reader.texts("job_name"))
        status = reader.given("status", reader.choices, meaning=TASK_STATES)
        if status is not None:
            reader.leave_out(status == UNFINISHED, "had not ended")
        submit_s, duration_s = _times(reader, job)
        reader.flag("job_name", job < 0, "is empty; every task belongs to a job")
        instances = reader.counts("inst_num", blank=1, least=1)
        reader.gangs_from("inst_num")
        gpus = -(-instances // self._instances_per_gpu)
        return Trace(
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
    named = [
        [] if found is None else _parents(found, int(job[row]), row_of)
        for row, found in enumerate(parsed)
    ]
    lists = [[row for row in rows if row >= 0] for rows in named]
    if missing := sum(row < 0 for rows in named for row in rows):
        log.warning("%s: %d tasks that others wait for are not in the file; nobody waits for them",
                    reader.path, missing)  # fmt: skip
    first = starts([len(rows) for rows in lists])
    parents = np.array([parent for rows in lists for parent in rows], dtype=np.int64)
    reader.flag("task_name", repeated, "has the number of another task of its job")
    cycle = on_a_cycle(first, parents)
    reader.flag("task_name", cycle, "waits in the end for tasks that form a circle")
    return Precedence(first, parents, job)


def _parents(found: re.Match[str], job: int, row_of: dict[tuple[int, int], int]) -> list[int]:
    """Rows of the tasks that one waits for; -1: it is not there."""
    numbers = [_number(part) for part in found[2].split("_")[1:]]
    return [row_of.get((job, number), -1) for number in dict.fromkeys(numbers)]


def _number(digits: str) -> int:
    """A task number; more digits than any task has are cut, so that none is too long to read."""
    return int(digits[:18])


PENDING = 3
PHASES = {"Succeeded": COMPLETED, "Failed": FAILED, "Running": COMPLETED, "Pending": PENDING}


class AlibabaOpenb(TableReader):
    """One row a pod; pods without GPUs are left out.

    Run time is deletion - scheduling. A pod that was never scheduled (phase Pending) was given up
    at its deletion. A pod in phase Running was cut off when the log was taken; it counts as
    completed there. CPU and memory are spread evenly over the pod's GPUs.
    """

    required = ("name", "num_gpu", "gpu_milli", "pod_phase", "creation_time", "deletion_time",
                "scheduled_time")  # fmt: skip
    optional = ("cpu_milli", "memory_mib", "gpu_spec", "qos")

    def __init__(self, *, qos_priority: Mapping[str, int]) -> None:
        """Keep the priority of each class of service."""
        self._qos_priority = qos_priority

    def _sieved(self, table: TextTable) -> TextTable:
        return table.with_gpus(map(plain_number, table.columns["num_gpu"]))

    def _trace(self, reader: ColumnReader, name: str) -> Trace:
        gpus = reader.gangs("num_gpu")
        milli = reader.counts("gpu_milli", blank=WHOLE_GPU_MILLI, least=1, most=WHOLE_GPU_MILLI)
        phase = reader.choices("pod_phase", PHASES)
        created_s, deleted_s = reader.times("creation_time"), reader.times("deletion_time")
        scheduled_s = reader.times("scheduled_time", blank_s=np.nan)
        pending = phase == PENDING
        began_s = np.where(pending, deleted_s, scheduled_s)
        reader.flag("scheduled_time", np.isnan(began_s), "is empty, but the pod is not Pending")
        reader.flag("scheduled_time", scheduled_s < created_s, "is before creation_time")
        reader.flag("deletion_time", deleted_s < np.fmax(created_s, began_s),
                   "is before the pod was created or scheduled")  # fmt: skip
        specs = reader.raw("gpu_spec")
        return Trace(
            name=name,
            job_id=reader.names("name"),
            submit_s=created_s,
            num_gpus=gpus,
            duration_s=np.nan_to_num(deleted_s - began_s),
            user=reader.texts("user"),
            vc=reader.texts("vc"),
            priority=reader.given("qos", reader.choices, meaning=self._qos_priority),
            cpu_milli=reader.counts("cpu_milli", blank=0) // gpus,
            memory_mib=reader.counts("memory_mib", blank=0) // gpus,
            gpu_milli=np.where(gpus > 1, WHOLE_GPU_MILLI, milli),
            gpu_types=objects(["" if text.lower() in BLANKS else text for text in specs]),
            outcome=np.where(pending, CANCELLED, phase),
            withdraw_s=np.where(pending, deleted_s - created_s, NEVER_S),
            waited_s=np.where(pending, np.nan, scheduled_s - created_s),
        )


JOB_COLUMNS = {name: name for name in ("job_name", "inst_id", "user", "start_time")}
TAG_COLUMNS = {name: name for name in ("inst_id", "gpu_type_spec", "group", "workload")}


class PaiJob(NamedTuple):
    """What is known of a task's job; "" and NaN where nothing is."""

    user: str = ""
    submit_s: float = np.nan
    gpu_type: str = ""
    group: str = ""
    workload: str = ""


UNKNOWN_JOB = PaiJob()


def read_tags(path: str, header: Sequence[str] | None, strict: bool) -> dict[str, list[str]]:
    """GPU type, group and workload by inst_id (one has a row an instance; the first one counts).

    Raises:
        TraceError: naming file, line, column, value and fix.
    """
    reader = ColumnReader(read_text_table(path, TAG_COLUMNS, strict=strict, header=header), strict)
    tags: dict[str, list[str]] = {}
    for inst_id, *words in zip(*(reader.raw(key) for key in TAG_COLUMNS), strict=True):
        tags.setdefault(inst_id, ["" if word.lower() in BLANKS else word for word in words])
    return tags


def read_jobs(
    path: str, header: Sequence[str] | None, tags: Mapping[str, list[str]], strict: bool
) -> dict[str, PaiJob]:
    """Jobs by name, with their tags; TraceError, naming file, line, column, value and fix."""
    reader = ColumnReader(read_text_table(path, JOB_COLUMNS, strict=strict, header=header), strict)
    reader.names("job_name")
    submit_s = reader.times("start_time", blank_s=np.nan).tolist()
    columns = *(reader.raw(key) for key in ("job_name", "inst_id", "user")), submit_s
    return {
        name: PaiJob(user, at_s, *tags.get(inst_id, ()))
        for good, name, inst_id, user, at_s in zip(reader.good(), *columns, strict=True)
        if good
    }


STATES = {"Terminated": COMPLETED, "Failed": FAILED, "Running": UNFINISHED, "Waiting": UNFINISHED}
PERCENT = 100
MOST_PERCENT = 1e7
MOST_INSTANCES = 1e6
MIB_A_GB = 1024


@dataclass(frozen=True, kw_only=True)
class AlibabaPai(TableReader):
    """One row a task; tasks without GPUs are left out (Weng et al., NSDI 2022).

    A task of n instances that plan p percent of a GPU each is a gang: n workers of p/100 GPU for p
    below 100, else n times p/100 whole GPUs, rounded up. CPU and memory are an instance's, spread
    evenly over its GPUs. Run time is end - start of the task. Submission is that of its job where
    `job_table` is given, else the start of the task, so that the cluster's own waiting is then in
    the arrivals. Only with `tag_table` (which needs `job_table`) are the required GPU type, the
    recurrence group and the workload known; `gpu_type` of the task table is the type that the task
    got, not one that it asked for, and is not read. Tasks that had not ended are left out.
    """

    required = ("job_name", "task_name", "inst_num", "status", "start_time", "end_time",
                "plan_gpu")  # fmt: skip
    optional = ("plan_cpu", "plan_mem")

    header: Sequence[str] | None  # columns of a table; null: its first row names them
    job_table: str | None  # path
    job_header: Sequence[str] | None
    tag_table: str | None
    tag_header: Sequence[str] | None

    def __post_init__(self) -> None:
        """Raise a TraceError where tags have no table of jobs to be joined by."""
        if self.tag_table is not None and self.job_table is None:
            raise TraceError(
                "workload.reader.tag_table is given, but not job_table, which joins its inst_id to "
                "the tasks; set workload.reader.job_table too"
            )

    def _sieved(self, table: TextTable) -> TextTable:
        plans = ("0" if text.lower() in BLANKS else text for text in table.columns["plan_gpu"])
        return table.with_gpus(map(plain_number, plans))

    def _trace(self, reader: ColumnReader, name: str) -> Trace:
        return _pai_trace(reader, self._jobs_of(reader), name, tagged=self.tag_table is not None)

    def _jobs_of(self, reader: ColumnReader) -> list[PaiJob]:
        """(N,) what the other tables say of each task's job."""
        if self.job_table is None:
            return [UNKNOWN_JOB] * len(reader)
        tags = {}
        if self.tag_table is not None:
            tags = read_tags(self.tag_table, self.tag_header, reader.strict)
        jobs = read_jobs(self.job_table, self.job_header, tags, reader.strict)
        found = [jobs.get(job, UNKNOWN_JOB) for job in reader.raw("job_name")]
        missing = sum(job is UNKNOWN_JOB for job in found)
        if missing:
            log.warning("%d tasks have no row in %s", missing, self.job_table)
        return found


def _pai_trace(reader: ColumnReader, jobs: Sequence[PaiJob], name: str, *, tagged: bool) -> Trace:
    """The rows as a trace in file order."""
    states = reader.choices("status", STATES)
    start_s = reader.times("start_time", blank_s=np.nan)
    end_s = reader.times("end_time", blank_s=np.nan)
    reader.flag("end_time", end_s < start_s, "is before start_time")
    percent, instances = _demand(reader)
    reader.gangs_from("plan_gpu", "inst_num")
    reader.leave_out(states == UNFINISHED, "had not ended")
    reader.leave_out(np.isnan(end_s - start_s), "have no start or no end")
    submitted_s = np.array([job.submit_s for job in jobs], dtype=np.float64)
    num_gpus, gpu_milli = gang_of(instances, percent / PERCENT)
    gpus = np.maximum(np.ceil(percent / PERCENT), 1)  # (N,) of each instance
    return Trace(
        name=name,
        job_id=objects(task_names(reader)),
        submit_s=np.nan_to_num(np.fmin(submitted_s, start_s)),
        num_gpus=num_gpus,
        duration_s=np.nan_to_num(np.maximum(end_s - start_s, 0.0)),
        user=objects([job.user for job in jobs]),
        vc=reader.texts("vc"),
        group=objects([job.group for job in jobs]) if tagged else None,
        model=objects([job.workload for job in jobs]) if tagged else None,
        cpu_milli=(reader.amounts("plan_cpu", blank=0.0) * 1000 / PERCENT / gpus).astype(np.int64),
        memory_mib=(reader.amounts("plan_mem", blank=0.0) * MIB_A_GB / gpus).astype(np.int64),
        gpu_milli=gpu_milli,
        gpu_types=objects([job.gpu_type for job in jobs]) if tagged else None,
        outcome=np.where(states == FAILED, FAILED, COMPLETED),
        waited_s=None if np.isnan(submitted_s).all() else np.maximum(start_s - submitted_s, 0.0),
    )


def _demand(reader: ColumnReader) -> tuple[FloatArray, FloatArray]:
    """(N,) percent of a GPU that an instance plans, and (N,) instances."""
    percent = reader.amounts("plan_gpu", blank=0.0)
    reader.flag("plan_gpu", percent > MOST_PERCENT, "is over 100,000 GPUs; check the column")
    instances = reader.amounts("inst_num", blank=1.0)
    whole = (instances >= 1) & (instances == np.floor(instances)) & (instances <= MOST_INSTANCES)
    reader.flag("inst_num", ~whole, "is no plausible whole number of instances from 1")
    return percent, instances
