"""What deciding and simulating cost in wall time."""

import numpy as np

from sim.arrays import FloatArray
from sim.run import Run

NAN = float("nan")
MS_PER_S = 1000.0


def decision_metrics(run: Run, samples_s: FloatArray | None) -> dict[str, float | int]:
    """Number and latency of decisions.

    Args:
        run: the run.
        samples_s: wall seconds of single decisions, all or a sample; None: only the mean is known,
            and the percentiles are NaN.
    """
    known = samples_s is not None and len(samples_s) > 0
    p50_s, p99_s = np.percentile(samples_s, [50, 99]) if known else (NAN, NAN)  # type: ignore[arg-type]
    return {
        "decisions": run.decisions,
        "decision_ms_mean": MS_PER_S * run.decision_s / run.decisions if run.decisions else NAN,
        "decision_ms_p50": float(p50_s) * MS_PER_S,
        "decision_ms_p99": float(p99_s) * MS_PER_S,
        "loop_wall_s": run.loop_wall_s,
    }
