"""The per-job table of a run: one row a job, as `jobs.parquet` holds it."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING

from sim.metrics.job_times import jct_s, queue_delay_s
from sim.run import Run

if TYPE_CHECKING:
    import pandas as pd


def job_frame(run: Run) -> pd.DataFrame:
    """All jobs in order of submission; NaN where a job never started or finished."""
    import pandas as pd

    jobs = run.jobs
    return pd.DataFrame(
        {
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
        }
    )


def as_parquet(frame: pd.DataFrame) -> bytes:
    """The frame as the bytes of a parquet file."""
    buffer = BytesIO()
    frame.to_parquet(buffer, index=False)
    return buffer.getvalue()
