"""The per-job table of a run: one row a job, as `jobs.parquet` holds it."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np

from sim.metrics.event_effects import blocked_at_arrival
from sim.metrics.job_times import jct_s, queue_delay_s
from sim.metrics.leaving import IN_SYSTEM, outcomes
from sim.metrics.outcome_metrics import NAMES
from sim.run import Run

if TYPE_CHECKING:
    import pandas as pd

MEASURED_PARTS = ("lost_s", "comm_s", "interference_s", "restarts", "run_gpu_s")
OUTCOME_NAMES = {IN_SYSTEM: None, **{value: name for name, value in NAMES.items()}}


def job_columns(run: Run) -> dict[str, Any]:
    """All jobs in order of submission; NaN where a job never started or finished.

    The columns that only some runs have (parts of run time, elastic jobs, DAGs) come last.
    """
    jobs = run.jobs
    columns = {
        "job_id": jobs.job_id,
        "submit_s": jobs.submit_s,
        "num_gpus": jobs.num_gpus,
        "duration_s": jobs.duration_s,
        "estimate_s": jobs.estimate_s,
        "profile": jobs.profile,
        "home": jobs.home,
        "partition": run.partition,
        "start_s": run.start_s,
        "finish_s": run.finish_s,
        "run_s": run.run_s,
        "jct_s": jct_s(run),
        "queue_delay_s": queue_delay_s(run),
        "preemptions": run.preemptions,
        "forwards": run.forwards,
        "measured": jobs.measured,
        "outcome": np.array([OUTCOME_NAMES[code] for code in outcomes(run).tolist()], dtype=object),
    }
    parts = {name: getattr(run, name) for name in MEASURED_PARTS}
    columns |= {name: part for name, part in parts.items() if part is not None}
    if jobs.elastic is not None:
        columns |= {"least_gpus": jobs.elastic.least_gpus, "most_gpus": jobs.elastic.most_gpus}
    if jobs.precedence is not None:
        columns |= {"workflow": jobs.precedence.workflow, "blocked": blocked_at_arrival(run)}
    return columns


def job_frame(run: Run) -> pd.DataFrame:
    """The same as a frame."""
    import pandas as pd

    return pd.DataFrame(job_columns(run))


def as_parquet(frame: pd.DataFrame) -> bytes:
    """The frame as the bytes of a parquet file."""
    buffer = BytesIO()
    frame.to_parquet(buffer, index=False)
    return buffer.getvalue()
