"""How the cluster was used over the whole run: makespan, busy, shared and wasted GPU time."""

import numpy as np

from sim.metrics.gpu_changes import gpu_changes
from sim.metrics.over_time import gpus_over_time, queue_over_time, span_s
from sim.metrics.steps import Steps
from sim.run import Run


def cluster_metrics(run: Run) -> dict[str, float]:
    """Metrics of all jobs, from the first submission to the last event."""
    start_s, end_s = span_s(run)
    changes = gpu_changes(run.log)
    busy, shared = gpus_over_time(changes, tenants=1), gpus_over_time(changes, tenants=2)
    queue = queue_over_time(run)
    util = busy.scaled(1.0 / run.topology.num_gpus)
    busy_mean = busy.mean(start_s, end_s)
    steady = run.jobs.submit_s[run.jobs.measured]
    return {
        "makespan_s": end_s - start_s,
        "gpu_util_frac": util.mean(start_s, end_s),
        "gpu_util_steady_frac": util.mean(steady[0], steady[-1]) if len(steady) else float("nan"),
        "gpu_idle_while_queued_frac": _idle_while_queued(util, queue, start_s, end_s),
        "shared_gpu_frac": shared.mean(start_s, end_s) / busy_mean if busy_mean > 0 else 0.0,
        "busy_gpu_s": busy_mean * (end_s - start_s),
        "queue_len_mean": queue.mean(start_s, end_s),
    }


def _idle_while_queued(util: Steps, queue: Steps, start_s: float, end_s: float) -> float:
    """Share of the cluster's GPU time that is idle although some job waits."""
    time_s = np.unique(np.concatenate([util.time_s, queue.time_s]))
    wasted = Steps(time_s, (1.0 - util.at(time_s)) * (queue.at(time_s) > 0))
    return wasted.mean(start_s, end_s)
