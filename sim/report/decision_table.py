"""What a scheduler ordered, as `decisions.parquet` holds it: one row an order that took effect."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sim.event_log import Kind
from sim.run import Run

if TYPE_CHECKING:
    import pandas as pd

ORDERS = (Kind.PREEMPT, Kind.FORWARD, Kind.START)


def decision_frame(run: Run) -> pd.DataFrame:
    """Starts, preemptions and forwards in order of time.

    `partition` holds the job after the order; `gpus` are those taken or given back, else empty.
    """
    import pandas as pd

    log = run.log
    rows = np.flatnonzero(np.isin(log.kind, ORDERS))
    return pd.DataFrame(
        {
            "time_s": log.time_s[rows],
            "order": [Kind(kind).name.lower() for kind in log.kind[rows].tolist()],
            "job_id": run.jobs.job_id[log.job[rows]],
            "partition": log.partition[rows],
            "gpus": [log.gpus[row].tolist() for row in rows.tolist()],
        }
    )
