"""Reads the Standard Workload Format of the Parallel Workloads Archive (Feitelson, version 2.2)."""

from dataclasses import replace

import numpy as np

from sim.arrays import FloatArray
from sim.traces.column_reader import LARGEST_AMOUNT, ColumnReader
from sim.traces.option_rules import check_count
from sim.traces.text_table import GivenColumns, Layout, TextTable, checked_columns, read_text_table
from sim.traces.trace import Notes, Trace
from sim.traits import CANCELLED, COMPLETED, FAILED, NEVER_S

FIELDS = (
    "job", "submit", "wait", "run_time", "processors", "cpu_time", "used_memory",
    "requested_processors", "requested_time", "requested_memory", "status", "user", "group",
    "executable", "queue", "partition", "preceding_job", "think_time",
)  # fmt: skip
REQUIRED = ("job", "submit", "run_time", "processors", "status")
OPTIONAL = ("wait", "requested_processors", "requested_time", "requested_memory", "user",
            "executable", "vc")  # fmt: skip
LAYOUT = Layout(delimiter="", quoted=False, comment=";")
STATES = {"0": FAILED, "1": COMPLETED, "5": CANCELLED}  # "": unknown, taken as completed
PARTS = ("2", "3", "4")  # parts of a job that was checkpointed; its summary is a line of its own
MIB_PER_KIB = 1.0 / 1024.0


class Swf:
    """One line a job of 18 numbers, -1 where one is not known; `;` begins a comment.

    A processor is a GPU, or `processors_per_gpu` are one, rounded up. The processors are those that
    the job got, else those it asked for. A cancelled job of 0 seconds never ran: its user withdrew
    it after the wait. Jobs of one user and executable are one recurrence group.
    """

    def __init__(self, *, processors_per_gpu: int) -> None:
        """Keep the rule for GPUs.

        Raises:
            TraceError: it is no whole number of 1 or more.
        """
        check_count("reader.processors_per_gpu", processors_per_gpu)
        self._per_gpu = 1 if processors_per_gpu is None else processors_per_gpu

    def read(
        self, *, path: str, columns: GivenColumns, name: str, strict: bool
    ) -> tuple[Trace, Notes]:
        """The trace of a file; arguments and errors as `TraceReader` says."""
        wanted = checked_columns(columns, required=REQUIRED, optional=OPTIONAL)
        table = _without_unknown(
            read_text_table(path, wanted, strict=strict, header=FIELDS, layout=LAYOUT)
        )
        parts = np.array([text in PARTS for text in table.columns["status"]], dtype=np.bool_)
        reason = "are parts of checkpointed jobs, whose summary counts"
        reader = ColumnReader(table.only(~parts), {reason: int(parts.sum())})
        return reader.finish(self._trace(reader, name), strict=strict)

    def _trace(self, reader: ColumnReader, name: str) -> Trace:
        """The lines as a trace in file order."""
        job_id = reader.names("job")
        submit_s = reader.times("submit")
        outcome = reader.choices("status", STATES, blank=COMPLETED)
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
            limit_s=reader.times("requested_time", blank_s=NEVER_S)
            if reader.has("requested_time")
            else None,
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
