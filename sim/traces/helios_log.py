"""Reads the job log of the SenseTime Helios traces: `cluster_log.csv` (Hu et al., SC 2021)."""

import numpy as np

from sim.traces.column_reader import ColumnReader
from sim.traces.text_table import GivenColumns, checked_columns, read_text_table
from sim.traces.trace import Notes, Trace
from sim.traits import CANCELLED, COMPLETED, FAILED, NEVER_S

REQUIRED = ("job_id", "gpu_num", "state", "submit_time", "duration")
OPTIONAL = ("user", "vc", "jobname", "cpu_num", "queue")
# The published analysis counts TIMEOUT and NODE_FAIL as failed; the last two are Slurm's further
# states of a job that ended otherwise than by itself.
STATES = {
    "COMPLETED": COMPLETED, "CANCELLED": CANCELLED, "FAILED": FAILED, "TIMEOUT": FAILED,
    "NODE_FAIL": FAILED, "OUT_OF_MEMORY": FAILED, "SUSPENDED": FAILED,
}  # fmt: skip


class HeliosLog:
    """One row a job; jobs without GPUs are left out.

    `duration` is the run time, `submit_time` the submission. A cancelled job of 0 seconds never
    ran: its user withdrew it after `queue` seconds. Jobs of one user with one `jobname` are one
    recurrence group (logs without that column have none). The job's CPUs are spread evenly over
    its GPUs. In `state`, what follows a blank is left away (Slurm writes "CANCELLED by 1000").
    """

    def read(
        self, *, path: str, columns: GivenColumns, name: str, strict: bool
    ) -> tuple[Trace, Notes]:
        """The trace of a file; arguments and errors as `TraceReader` says."""
        wanted = checked_columns(columns, required=REQUIRED, optional=OPTIONAL)
        reader = ColumnReader(read_text_table(path, wanted, strict=strict))
        job_id = reader.names("job_id")
        gpus = reader.gangs("gpu_num", least=0)
        duration_s = reader.times("duration")
        outcome = reader.choices("state", STATES, first_word=True)
        queue_s = reader.times("queue", blank_s=NEVER_S)
        cpus = reader.amounts("cpu_num", blank=0.0)
        reader.leave_out(gpus == 0, "use no GPU")
        num_gpus = np.maximum(gpus, 1)
        never = (outcome == CANCELLED) & (duration_s == 0)
        trace = Trace(
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
            waited_s=np.where(never | (queue_s == NEVER_S), np.nan, queue_s)
            if reader.has("queue")
            else None,
        )
        return reader.finish(trace, strict=strict)
