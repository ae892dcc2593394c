"""What a scheduler ordered, as `decisions.parquet` holds it: one row an order that took effect."""

from typing import Any

import numpy as np

from sim.event_log import Kind
from sim.report.event_table import kind_names
from sim.run import Run

ORDERS = (Kind.PREEMPT, Kind.FORWARD, Kind.START)


def decision_columns(run: Run) -> dict[str, Any]:
    """Starts, preemptions and forwards in order of time.

    `partition` holds the job after the order; `gpus` are those taken or given back, else empty.
    """
    log = run.log
    rows = np.flatnonzero(np.isin(log.kind, ORDERS))
    return {
        "time_s": log.time_s[rows],
        "order": kind_names(log.kind[rows]),
        "job_id": run.jobs.job_id[log.job[rows]],
        "partition": log.partition[rows],
        "gpus": [log.gpus[row] for row in rows.tolist()],
    }
