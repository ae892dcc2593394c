"""Reads job logs of four plain formats.

SenseTime's Helios traces: `cluster_log.csv` (Hu et al., SC 2021). The workloads of Sia and Pollux:
submission, application and tuned number of GPUs. The Standard Workload Format of the Parallel
Workloads Archive (Feitelson, version 2.2). The jobs of Alibaba's Lingjun cluster, 2023: `job.csv`
and `worker.csv` (Crux, 2024).
"""

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from sim.arrays import FloatArray, IntArray, plain_number
from sim.errors import TraceError, check_numbers
from sim.jobs import CANCELLED, COMPLETED, FAILED, NEVER_S
from sim.times import HOUR_S
from sim.traces.column_reader import LARGEST_AMOUNT, ColumnReader, Notes, TableReader
from sim.traces.setting import check_count
from sim.traces.text_table import (
    Columns,
    Dialect,
    GivenColumns,
    TextTable,
    checked_columns,
    read_text_table,
)
from sim.traces.trace import Trace

# The published analysis counts TIMEOUT and NODE_FAIL as failed; the last two are Slurm's further
# states of a job that ended otherwise than by itself.
HELIOS_STATES = {
    "COMPLETED": COMPLETED, "CANCELLED": CANCELLED, "FAILED": FAILED, "TIMEOUT": FAILED,
    "NODE_FAIL": FAILED, "OUT_OF_MEMORY": FAILED, "SUSPENDED": FAILED,
}  # fmt: skip


class HeliosLog(TableReader):
    """One row a job; jobs without GPUs are left out.

    `duration` is the run time, `submit_time` the submission. A cancelled job of 0 seconds never
    ran: its user withdrew it after `queue` seconds. Where `start_time` and `end_time` are given
    instead, as for Acme's logs (Hu et al., NSDI 2024), both are made of them. Jobs of one user with
    one `jobname` are one recurrence group (logs without that column have none). The job's CPUs are
    spread evenly over its GPUs. In `state`, what follows a blank is left away (Slurm writes
    "CANCELLED by 1000").
    """

    required = ("job_id", "gpu_num", "state", "submit_time")
    optional = ("user", "vc", "jobname", "cpu_num", "duration", "queue", "start_time", "end_time")

    def _rows(self, path: str, wanted: Columns, strict: bool) -> ColumnReader:
        times = ("duration",) if "duration" in wanted else ("start_time", "end_time")
        checked_columns(wanted, required=times, optional=(*self.required, *self.optional))
        return super()._rows(path, wanted, strict)

    def _sieved(self, table: TextTable) -> TextTable:
        return table.with_gpus(map(plain_number, table.columns["gpu_num"]))

    def _trace(self, reader: ColumnReader, name: str) -> Trace:
        job_id = reader.names("job_id")
        num_gpus = reader.gangs("gpu_num")
        outcome = reader.choices("state", HELIOS_STATES, first_word=True)
        duration_s, queue_s = _run_and_queue(reader, outcome)
        reader.leave_out(np.isnan(duration_s), "have no run time")
        cpus = reader.amounts("cpu_num", blank=0.0)
        never = (outcome == CANCELLED) & (duration_s == 0)
        return Trace(
            name=name,
            job_id=job_id,
            submit_s=reader.timestamps("submit_time"),
            num_gpus=num_gpus,
            duration_s=duration_s,
            user=reader.texts("user"),
            vc=reader.texts("vc"),
            group=reader.pairs("user", "jobname") if reader.has("jobname") else None,
            cpu_milli=np.floor(cpus * 1000 / num_gpus).astype(np.int64)
            if reader.has("cpu_num")
            else None,
            outcome=outcome,
            withdraw_s=np.where(never, queue_s, NEVER_S),
            waited_s=None
            if (queue_s == NEVER_S).all()
            else np.where(never | (queue_s == NEVER_S), np.nan, queue_s),
        )


def _run_and_queue(reader: ColumnReader, outcome: IntArray) -> tuple[FloatArray, FloatArray]:
    """(N,) seconds that each job ran, NaN where nothing tells, and queued, NEVER_S likewise."""
    if reader.has("duration"):
        return reader.times("duration", blank_s=np.nan), reader.times("queue", blank_s=NEVER_S)
    submit_s = reader.moments("submit_time")
    start_s, end_s = reader.moments("start_time"), reader.moments("end_time")
    reader.flag("start_time", start_s < submit_s, "is before the job's submission")
    reader.flag("end_time", end_s < np.fmax(submit_s, start_s), "is before the job's start")
    given_up = np.isnan(start_s) & (outcome == CANCELLED)
    queue_s = np.where(given_up, end_s, start_s) - submit_s
    run_s = end_s - np.where(given_up, end_s, start_s)
    return run_s, np.where(np.isnan(queue_s), NEVER_S, queue_s)


class Sia(TableReader):
    """One row a job (Jayaram Subramanya et al., SOSP 2023; Qiao et al., OSDI 2021).

    The files hold no run times: theirs come from measured profiles of each application. Here an
    application takes `gpu_hours` of GPU time, a stated choice, and a job runs that long divided by
    its replicas. `draw` chooses one of several workloads in a file with such a column.
    """

    required = ("name", "time", "application", "num_replicas")
    optional = ("batch_size", "draw")

    def __init__(self, *, gpu_hours: Mapping[str, float], draw: int | str | None) -> None:
        """`gpu_hours`: GPU time of each application, above 0."""
        check_numbers("workload.reader.gpu_hours", "above 0", TraceError, **gpu_hours)
        self._gpu_hours = gpu_hours
        self._draw = None if draw is None else str(draw)

    def _trace(self, reader: ColumnReader, name: str) -> Trace:
        if (self._draw is None) == reader.has("draw"):
            raise TraceError(
                f"workload.reader.draw is {self._draw!r} and workload.columns.draw is "
                f"{reader.table.names.get('draw')!r}; set both, for a file of several workloads, "
                f"or neither"
            )
        names = reader.texts("name") if self._draw is not None else reader.names("name")
        if self._draw is not None:
            pairs = zip(reader.raw("draw"), reader.raw("name"), strict=True)
            reader.unique("name", [f"{draw}/{one}" for draw, one in pairs])
            others = np.array([draw != self._draw for draw in reader.raw("draw")], dtype=np.bool_)
            reader.leave_out(others, "belong to another draw")
        replicas = reader.gangs("num_replicas")
        return Trace(
            name=name,
            job_id=names,
            submit_s=reader.times("time"),
            num_gpus=replicas,
            duration_s=self._hours(reader) * HOUR_S / replicas,
            user=reader.texts("user"),
            vc=reader.texts("vc"),
            model=reader.texts("application"),
        )

    def _hours(self, reader: ColumnReader) -> FloatArray:
        """(N,) GPU-hours of each job's application."""
        applications = reader.raw("application")
        known = ", ".join(self._gpu_hours)
        unknown = np.array([one not in self._gpu_hours for one in applications], dtype=np.bool_)
        reader.flag("application", unknown, f"has no GPU time; known are {known}; give it one with "
                   "+workload.reader.gpu_hours.NAME=HOURS")  # fmt: skip
        return np.array([self._gpu_hours.get(one, 1.0) for one in applications], dtype=np.float64)


FIELDS = (
    "job", "submit", "wait", "run_time", "processors", "cpu_time", "used_memory",
    "requested_processors", "requested_time", "requested_memory", "status", "user", "group",
    "executable", "queue", "partition", "preceding_job", "think_time",
)  # fmt: skip
DIALECT = Dialect(delimiter="", quoted=False, comment=";")
SWF_STATES = {"0": FAILED, "1": COMPLETED, "5": CANCELLED}  # "": unknown, taken as completed
PARTS = ("2", "3", "4")  # parts of a job that was checkpointed; its summary is a line of its own
MIB_PER_KIB = 1.0 / 1024.0


class Swf(TableReader):
    """One line a job of 18 numbers, -1 where one is not known; `;` begins a comment.

    A processor is a GPU, or `processors_per_gpu` are one, rounded up. The processors are those that
    the job got, else those it asked for. A cancelled job of 0 seconds never ran: its user withdrew
    it after the wait. Jobs of one user and executable are one recurrence group.
    """

    required = ("job", "submit", "run_time", "processors", "status")
    optional = ("wait", "requested_processors", "requested_time", "requested_memory", "user",
                "executable", "vc")  # fmt: skip

    def __init__(self, *, processors_per_gpu: int) -> None:
        """`processors_per_gpu`: 1 or more."""
        check_count("reader.processors_per_gpu", processors_per_gpu)
        self._per_gpu = 1 if processors_per_gpu is None else processors_per_gpu

    def _rows(self, path: str, wanted: Columns, strict: bool) -> ColumnReader:
        table = _without_unknown(
            read_text_table(path, wanted, strict=strict, header=FIELDS, dialect=DIALECT)
        )
        reason = "are parts of checkpointed jobs, whose summary counts"
        parts = [reason if text in PARTS else "" for text in table.columns["status"]]
        return ColumnReader(table.without(parts), strict)

    def _trace(self, reader: ColumnReader, name: str) -> Trace:
        job_id = reader.names("job")
        submit_s = reader.times("submit")
        outcome = reader.choices("status", SWF_STATES, blank=COMPLETED)
        run_s = reader.times("run_time", blank_s=np.nan)
        wait_s = reader.times("wait", blank_s=np.nan)
        given_up = (outcome == CANCELLED) & ~(run_s > 0)
        reader.leave_out(np.isnan(run_s) & ~given_up, "have no run time")
        reader.leave_out(given_up & np.isnan(wait_s), "never began and have no wait")
        processors = _first_known(reader, "processors", "requested_processors")
        reader.gangs_from("processors", "requested_processors")
        reader.leave_out(processors == 0, "have no processors")
        gpus = np.maximum(np.ceil(processors / self._per_gpu), 1.0).astype(np.int64)
        memory_kib = reader.amounts("requested_memory", blank=0.0)
        memory_mib = np.floor(memory_kib * MIB_PER_KIB * self._per_gpu).astype(np.int64)
        return Trace(
            name=name,
            job_id=job_id,
            submit_s=submit_s,
            num_gpus=gpus,
            duration_s=np.where(given_up, 0.0, np.nan_to_num(run_s)),
            user=reader.texts("user"),
            vc=reader.texts("vc"),
            group=reader.pairs("user", "executable") if reader.has("executable") else None,
            memory_mib=memory_mib if memory_mib.any() else None,
            outcome=outcome,
            withdraw_s=np.where(given_up, np.nan_to_num(wait_s), NEVER_S),
            limit_s=reader.given("requested_time", reader.times, blank_s=NEVER_S),
            waited_s=np.where(given_up, np.nan, wait_s) if reader.has("wait") else None,
        )


def _without_unknown(table: TextTable) -> TextTable:
    """Empty fields for -1, but for the job and its submission, which every line must have."""
    columns = {
        key: texts
        if key in ("job", "submit")
        else ["" if text in ("-1", "-1.0", "-1.00") else text for text in texts]
        for key, texts in table.columns.items()
    }
    return replace(table, columns=columns)


def _first_known(reader: ColumnReader, key: str, other: str) -> FloatArray:
    """(N,) numbers of `key`, where they are 0 or unknown those of `other`; 0: neither is known."""
    first, second = (
        reader.counts(each, blank=0, most=int(LARGEST_AMOUNT)).astype(np.float64)
        for each in (key, other)
    )
    return np.where(first > 0, first, second)


WORKER_COLUMNS = ("worker_job", "worker_resources")
GPU_KEY = "nvidia.com/gpu"
MOST_GPUS = 10_000


def read_workers(path: str, columns: GivenColumns, strict: bool) -> dict[str, int]:
    """GPUs by name of job: the sum of what each worker's resources (a JSON object) ask for.

    Raises:
        TraceError: naming file, line, column, value and fix.
    """
    wanted = checked_columns(columns, required=WORKER_COLUMNS, optional=())
    reader = ColumnReader(read_text_table(path, wanted, strict=strict), strict)
    gpus = [_gpus(text) for text in reader.raw("worker_resources")]
    reader.flag(
        "worker_resources",
        np.array([number is None for number in gpus], dtype=np.bool_),
        'is no object of resources, GPUs whole, such as {"cpu": "8", "nvidia.com/gpu": "1"}',
    )
    good = reader.good()
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


UNFINISHED = 3
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
        table = read_text_table(path, wanted, strict=strict)
        workers = self._worker_table or str(Path(path).expanduser().with_name("worker.csv"))
        theirs = {key: one for key, one in columns.items() if key in WORKER_COLUMNS}
        gpus_of = read_workers(workers, theirs, strict)
        every = [gpus_of.get(job, 0) for job in table.columns["job_name"]]
        reader = ColumnReader(table.with_gpus(every, "have no worker with a GPU"), strict)
        gpus = np.array([number for number in every if number], dtype=np.int64)
        told = f"by column '{theirs['worker_resources']}' of {workers}"
        trace = replace(_trace(reader, gpus, name), gang_from=told)
        return reader.finish(trace)


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
    submit_s = np.nan_to_num(reader.from_earliest(submitted_s, ~np.isnan(submitted_s)))
    return Trace(
        name=name,
        job_id=reader.names("job_name"),
        submit_s=submit_s,
        num_gpus=gpus,
        duration_s=np.maximum(np.nan_to_num(end_s - running_s), 0.0),
        user=reader.texts("user"),
        vc=reader.texts("vc"),
        model=reader.given("model", reader.texts),
        priority=reader.given("priority", reader.counts, blank=0),
        outcome=np.where(never_ran, CANCELLED, status),
        withdraw_s=np.where(never_ran, np.nan_to_num(end_s - submitted_s), NEVER_S),
        waited_s=running_s - submitted_s,
    )
