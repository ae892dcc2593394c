"""Reads the tasks of Alibaba's PAI cluster, 2020: `pai_task_table.csv` and its companions."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sim.arrays import FloatArray, IntArray, objects
from sim.errors import TraceError
from sim.jobs import COMPLETED, FAILED, WHOLE_GPU_MILLI
from sim.traces.alibaba import task_names
from sim.traces.column_reader import ColumnReader
from sim.traces.row_rules import BLANKS
from sim.traces.text_table import GivenColumns, checked_columns, read_text_table
from sim.traces.trace import Notes, Trace

JOB_COLUMNS = {name: name for name in ("job_name", "inst_id", "user", "start_time")}
TAG_COLUMNS = {name: name for name in ("inst_id", "gpu_type_spec", "group", "workload")}


@dataclass(frozen=True)
class PaiTag:
    """What `pai_group_tag_table` says of a job; "" where it does not."""

    gpu_type: str = ""
    group: str = ""
    workload: str = ""


@dataclass(frozen=True)
class PaiJob:
    """What is known of a task's job; "" and NaN where nothing is."""

    user: str = ""
    submit_s: float = np.nan
    gpu_type: str = ""
    group: str = ""
    workload: str = ""
    tagged: bool = False  # whether there was a table of tags


UNKNOWN_JOB, NO_TAG = PaiJob(), PaiTag()


def read_tags(path: str, header: Sequence[str] | None, strict: bool) -> dict[str, PaiTag]:
    """Tags by inst_id; the first row of each counts (one inst_id has one row an instance).

    Raises:
        TraceError: naming file, line, column, value and fix.
    """
    reader = ColumnReader(read_text_table(path, TAG_COLUMNS, strict=strict, header=header))
    keys = ("inst_id", "gpu_type_spec", "group", "workload")
    tags: dict[str, PaiTag] = {}
    for inst_id, *words in zip(*(reader.raw(key) for key in keys), strict=True):
        if inst_id not in tags:
            tags[inst_id] = PaiTag(*("" if word.lower() in BLANKS else word for word in words))
    return tags


def read_jobs(
    path: str, header: Sequence[str] | None, tags: Mapping[str, PaiTag], strict: bool
) -> dict[str, PaiJob]:
    """Jobs by name, with their tags.

    Raises:
        TraceError: naming file, line, column, value and fix.
    """
    reader = ColumnReader(read_text_table(path, JOB_COLUMNS, strict=strict, header=header))
    reader.names("job_name")
    submit_s = reader.times("start_time", blank_s=np.nan)
    good = reader.good(strict)
    jobs: dict[str, PaiJob] = {}
    keys = ("job_name", "inst_id", "user")
    for row, (name, inst_id, user) in enumerate(
        zip(*(reader.raw(key) for key in keys), strict=True)
    ):
        if good[row]:
            tag = tags.get(inst_id, NO_TAG)
            jobs[name] = PaiJob(
                user, float(submit_s[row]), tag.gpu_type, tag.group, tag.workload, bool(tags)
            )
    return jobs


log = logging.getLogger(__name__)

REQUIRED = ("job_name", "task_name", "inst_num", "status", "start_time", "end_time", "plan_gpu")
OPTIONAL = ("plan_cpu", "plan_mem")
UNFINISHED = 3
STATES = {"Terminated": COMPLETED, "Failed": FAILED, "Running": UNFINISHED, "Waiting": UNFINISHED}
PERCENT = 100
MOST_PERCENT = 1e7
MOST_INSTANCES = 1e6
MIB_A_GB = 1024


class AlibabaPai:
    """One row a task; tasks without GPUs are left out (Weng et al., NSDI 2022).

    A task of n instances that plan p percent of a GPU each is a gang: n workers of p/100 GPU for p
    below 100, else n times p/100 whole GPUs, rounded up. CPU and memory are an instance's, spread
    evenly over its GPUs. Run time is end - start of the task. Submission is that of its job where
    `job_table` is given, else the start of the task, so that the cluster's own waiting is then in
    the arrivals. Only with `tag_table` (which needs `job_table`) are the required GPU type, the
    recurrence group and the workload known; `gpu_type` of the task table is the type that the task
    got, not one that it asked for, and is not read. Tasks that had not ended are left out.
    """

    def __init__(
        self,
        *,
        header: Sequence[str] | None,
        job_table: str | None,
        job_header: Sequence[str] | None,
        tag_table: str | None,
        tag_header: Sequence[str] | None,
    ) -> None:
        """Keep the other tables' paths and columns; header null: a file's first row names them.

        Raises:
            TraceError: if there is a tag table but no job table to join it by.
        """
        if tag_table is not None and job_table is None:
            raise TraceError(
                "workload.reader.tag_table is given, but not job_table, which joins its inst_id to "
                "the tasks; set workload.reader.job_table too"
            )
        self._header = header
        self._job_table, self._job_header = job_table, job_header
        self._tag_table, self._tag_header = tag_table, tag_header

    def read(
        self, *, path: str, columns: GivenColumns, name: str, strict: bool
    ) -> tuple[Trace, Notes]:
        """The trace of a file; arguments and errors as `TraceReader` says."""
        wanted = checked_columns(columns, required=REQUIRED, optional=OPTIONAL)
        reader = ColumnReader(read_text_table(path, wanted, strict=strict, header=self._header))
        jobs = self._jobs_of(reader, strict)
        return reader.finish(_trace(reader, jobs, name), strict=strict)

    def _jobs_of(self, reader: ColumnReader, strict: bool) -> list[PaiJob]:
        """(N,) what the other tables say of each task's job."""
        if self._job_table is None:
            return [UNKNOWN_JOB] * len(reader)
        tags = {}
        if self._tag_table is not None:
            tags = read_tags(self._tag_table, self._tag_header, strict)
        jobs = read_jobs(self._job_table, self._job_header, tags, strict)
        found = [jobs.get(job, UNKNOWN_JOB) for job in reader.raw("job_name")]
        missing = sum(job is UNKNOWN_JOB for job in found)
        if missing:
            log.warning("%d tasks have no row in %s", missing, self._job_table)
        return found


def _trace(reader: ColumnReader, jobs: Sequence[PaiJob], name: str) -> Trace:
    """The rows as a trace in file order."""
    states = reader.choices("status", STATES)
    start_s = reader.times("start_time", blank_s=np.nan)
    end_s = reader.times("end_time", blank_s=np.nan)
    reader.flag("end_time", end_s < start_s, "is before start_time")
    percent, instances = _demand(reader)
    reader.gangs_from("plan_gpu", "inst_num")
    reader.leave_out(percent == 0, "use no GPU")
    reader.leave_out(states == UNFINISHED, "had not ended")
    reader.leave_out(np.isnan(end_s - start_s), "have no start or no end")
    submitted_s = np.array([job.submit_s for job in jobs], dtype=np.float64)
    gpus = np.maximum(np.ceil(percent / PERCENT), 1)  # (N,) of each instance
    tagged = any(job.tagged for job in jobs)
    return Trace(
        name=name,
        job_id=objects(task_names(reader)),
        submit_s=np.nan_to_num(np.fmin(submitted_s, start_s)),
        num_gpus=np.clip(instances * gpus, 1, 2**31).astype(np.int64),
        duration_s=np.nan_to_num(np.maximum(end_s - start_s, 0.0)),
        user=objects([job.user for job in jobs]),
        vc=reader.texts("vc"),
        group=objects([job.group for job in jobs]) if tagged else None,
        model=objects([job.workload for job in jobs]) if tagged else None,
        cpu_milli=_whole(reader.amounts("plan_cpu", blank=0.0) * 1000 / PERCENT / gpus),
        memory_mib=_whole(reader.amounts("plan_mem", blank=0.0) * MIB_A_GB / gpus),
        gpu_milli=np.where(percent < PERCENT, np.maximum(_whole(percent * 10), 1), WHOLE_GPU_MILLI),
        gpu_types=objects([job.gpu_type for job in jobs]) if tagged else None,
        outcome=np.where(states == FAILED, FAILED, COMPLETED),
    )


def _demand(reader: ColumnReader) -> tuple[FloatArray, FloatArray]:
    """(N,) percent of a GPU that an instance plans, and (N,) instances."""
    percent = reader.amounts("plan_gpu", blank=0.0)
    reader.flag("plan_gpu", percent > MOST_PERCENT, "is over 100,000 GPUs; check the column")
    instances = reader.amounts("inst_num", blank=1.0)
    whole = (instances >= 1) & (instances == np.floor(instances)) & (instances <= MOST_INSTANCES)
    reader.flag("inst_num", ~whole, "is no plausible whole number of instances from 1")
    return percent, instances


def _whole(values: FloatArray) -> IntArray:
    return np.floor(values).astype(np.int64)
