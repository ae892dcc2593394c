"""The summary of a run: every number of `metrics.json`, in its order."""

import numpy as np

from sim.arrays import FloatArray
from sim.metrics.balance import balance_metrics
from sim.metrics.cluster_use import cluster_metrics
from sim.metrics.consistency import check_run
from sim.metrics.decision_cost import decision_metrics
from sim.metrics.fairness import fairness_metrics
from sim.metrics.fragmentation import fragmentation_metrics
from sim.metrics.job_times import counted, jct_s, queue_delay_s, run_stretch, slowdown
from sim.metrics.leaving import withdrawn
from sim.metrics.locality import locality_metrics
from sim.metrics.outcome_metrics import deadline_metrics, outcome_metrics, workflow_metrics
from sim.metrics.power import energy_metrics
from sim.run import Run

HEADLINE_KEYS = (
    "jobs_finished",
    "jct_mean_s",
    "jct_p50_s",
    "jct_p95_s",
    "jct_p99_s",
    "queue_delay_mean_s",
    "makespan_s",
    "gpu_util_frac",
    "decision_ms_mean",
    "loop_wall_s",
)


def summarise(run: Run, *, decision_samples_s: FloatArray | None = None) -> dict[str, float | int]:
    """All metrics of a run; `docs/metrics.md` defines each key.

    Metrics of jobs cover the finished jobs of the measured part; those of the cluster cover the
    whole run. NaN where nothing is there to measure.

    Args:
        run: the run.
        decision_samples_s: wall seconds of single decisions, where they were taken.

    Raises:
        SimulationError: the run has no jobs, or its event log and its results disagree.
    """
    check_run(run)
    metrics: dict[str, float | int] = {
        **job_metrics(run),
        **cluster_metrics(run),
        **locality_metrics(run),
        **fairness_metrics(run),
        **fragmentation_metrics(run),
        **balance_metrics(run),
        **energy_metrics(run),
        **outcome_metrics(run),
        **deadline_metrics(run),
        **workflow_metrics(run),
        **decision_metrics(run, decision_samples_s),
    }
    order = [*HEADLINE_KEYS, *(key for key in metrics if key not in HEADLINE_KEYS)]
    return {key: metrics[key] for key in order}


def job_metrics(run: Run) -> dict[str, float | int]:
    """Times, slowdowns and counts of the measured jobs."""
    chosen, measured = counted(run), run.jobs.measured
    jct, delay, slow = jct_s(run)[chosen], queue_delay_s(run)[chosen], slowdown(run)[chosen]
    stretch, gone = run_stretch(run)[chosen], measured & withdrawn(run)
    return {
        "jobs_finished": int(chosen.sum()),
        "jobs_unfinished": int(measured.sum() - chosen.sum() - gone.sum()),
        "jobs_withdrawn": int(gone.sum()),
        "jct_mean_s": _mean(jct),
        "jct_p50_s": _percentile(jct, 50),
        "jct_p95_s": _percentile(jct, 95),
        "jct_p99_s": _percentile(jct, 99),
        "queue_delay_mean_s": _mean(delay),
        "queue_delay_p95_s": _percentile(delay, 95),
        "slowdown_mean": _mean(slow),
        "slowdown_p95": _percentile(slow, 95),
        "bounded_slowdown": _mean(np.maximum(slow, 1.0)),
        "run_stretch_mean": _mean(stretch[~np.isnan(stretch)]),
        "preemptions": int(run.preemptions[measured].sum()),
        "forwards": int(run.forwards[measured].sum()),
    }


def _mean(values: FloatArray) -> float:
    return float(np.mean(values)) if len(values) else float("nan")


def _percentile(values: FloatArray, percent: float) -> float:
    """Percentile with linear interpolation between order statistics."""
    return float(np.percentile(values, percent)) if len(values) else float("nan")
