"""Reads three traces of Alibaba's clusters; `alibaba_pai` reads a fourth.

The batch jobs of 2018: tasks whose names hold a DAG (`batch_task.csv`). The pod lists of the
GPU-sharing cluster, 2023 (Weng et al., ATC 2023: "openb"). The jobs of the Lingjun cluster, 2023:
`job.csv` and `worker.csv` (Crux, 2024).
"""

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray, objects
from sim.jobs import CANCELLED, COMPLETED, FAILED, NEVER_S, WHOLE_GPU_MILLI, Precedence, codes_of
from sim.traces.column_reader import ColumnReader
from sim.traces.row_rules import BLANKS
from sim.traces.setting import check_count
from sim.traces.text_table import GivenColumns, check_either, checked_columns, read_text_table
from sim.traces.trace import Notes, Trace, on_a_cycle, starts

TASK_REQUIRED = ("task_name", "inst_num", "job_name")
TASK_OPTIONAL = ("status", "start_time", "end_time", "arrival_s", "duration_s")
UNFINISHED = 3
TASK_STATES = {
    "Terminated": COMPLETED, "Failed": FAILED, "Cancelled": FAILED, "Interrupted": FAILED,
    "Running": UNFINISHED, "Waiting": UNFINISHED, "Ready": UNFINISHED,
}  # fmt: skip
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
        wanted = checked_columns(columns, required=TASK_REQUIRED, optional=TASK_OPTIONAL)
        check_either(wanted, "start_time", "arrival_s", "start and end, or arrival and duration")
        end = "end_time" if "start_time" in wanted else "duration_s"
        checked_columns(wanted, required=(*TASK_REQUIRED, end), optional=TASK_OPTIONAL)
        reader = ColumnReader(read_text_table(path, wanted, strict=strict, header=self._header))
        job = codes_of(reader.texts("job_name"))
        status = reader.given("status", reader.choices, meaning=TASK_STATES)
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


POD_REQUIRED = ("name", "num_gpu", "gpu_milli", "pod_phase", "creation_time", "deletion_time",
            "scheduled_time")  # fmt: skip
POD_OPTIONAL = ("cpu_milli", "memory_mib", "gpu_spec", "qos")
PENDING = 3
PHASES = {"Succeeded": COMPLETED, "Failed": FAILED, "Running": COMPLETED, "Pending": PENDING}


class AlibabaOpenb:
    """One row a pod; pods without GPUs are left out.

    Run time is deletion - scheduling. A pod that was never scheduled (phase Pending) was given up
    at its deletion. A pod in phase Running was cut off when the log was taken; it counts as
    completed there. CPU and memory are spread evenly over the pod's GPUs.
    """

    def __init__(self, *, qos_priority: Mapping[str, int]) -> None:
        """Keep the priority of each class of service."""
        self._qos_priority = qos_priority

    def read(
        self, *, path: str, columns: GivenColumns, name: str, strict: bool
    ) -> tuple[Trace, Notes]:
        """The trace of a file; arguments and errors as `TraceReader` says."""
        wanted = checked_columns(columns, required=POD_REQUIRED, optional=POD_OPTIONAL)
        reader = ColumnReader(read_text_table(path, wanted, strict=strict))
        gpus = reader.gangs("num_gpu", least=0)
        milli = reader.counts("gpu_milli", blank=WHOLE_GPU_MILLI, most=WHOLE_GPU_MILLI)
        reader.flag("gpu_milli", (gpus > 0) & (milli == 0), "is no share of a GPU from 1 to 1000")
        phase = reader.choices("pod_phase", PHASES)
        created_s, deleted_s = reader.times("creation_time"), reader.times("deletion_time")
        scheduled_s = reader.times("scheduled_time", blank_s=np.nan)
        pending = phase == PENDING
        began_s = np.where(pending, deleted_s, scheduled_s)
        reader.flag("scheduled_time", np.isnan(began_s), "is empty, but the pod is not Pending")
        reader.flag("scheduled_time", scheduled_s < created_s, "is before creation_time")
        reader.flag("deletion_time", deleted_s < np.fmax(created_s, began_s),
                   "is before the pod was created or scheduled")  # fmt: skip
        reader.leave_out(gpus == 0, "use no GPU")
        workers = np.maximum(gpus, 1)
        trace = Trace(
            name=name,
            job_id=reader.names("name"),
            submit_s=created_s,
            num_gpus=workers,
            duration_s=np.nan_to_num(deleted_s - began_s),
            user=reader.texts("user"),
            vc=reader.texts("vc"),
            priority=reader.given("qos", reader.choices, meaning=self._qos_priority),
            cpu_milli=reader.counts("cpu_milli", blank=0) // workers,
            memory_mib=reader.counts("memory_mib", blank=0) // workers,
            gpu_milli=np.where(workers > 1, WHOLE_GPU_MILLI, np.maximum(milli, 1)),
            gpu_types=objects(_any(reader.raw("gpu_spec"))),
            outcome=np.where(pending, CANCELLED, phase),
            withdraw_s=np.where(pending, deleted_s - created_s, NEVER_S),
            waited_s=np.where(pending, np.nan, scheduled_s - created_s),
        )
        return reader.finish(trace, strict=strict)


def _any(specs: list[str]) -> list[str]:
    """Allowed GPU types; "" where a pod names none."""
    return ["" if spec.lower() in BLANKS else spec for spec in specs]


WORKER_COLUMNS = ("worker_job", "worker_resources")
GPU_KEY = "nvidia.com/gpu"
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
    try:
        number = float(str(json.loads(text or "{}").get(GPU_KEY, 0)))
    except (ValueError, RecursionError, AttributeError):  # no JSON, no number, no object
        return None
    return int(number) if 0 <= number <= MOST_GPUS and number.is_integer() else None


JOB_REQUIRED = ("job_name", "status", "submitted", "running", "finished")
JOB_OPTIONAL = ("stopped", "user", "vc", "model", "priority")
JOB_STATES = {"Succeeded": COMPLETED, "Failed": FAILED, "Stopped": CANCELLED, "Running": UNFINISHED,
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
        wanted = checked_columns(
            ours, required=JOB_REQUIRED, optional=(*JOB_OPTIONAL, *WORKER_COLUMNS)
        )
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
    status = reader.choices("status", JOB_STATES)
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
        model=reader.given("model", reader.texts),
        priority=reader.given("priority", reader.counts, blank=0),
        outcome=np.where(never_ran, CANCELLED, status),
        withdraw_s=np.where(never_ran, np.nan_to_num(end_s - submitted_s), NEVER_S),
        waited_s=running_s - submitted_s,
    )
