"""How the cluster was used over the whole run: makespan, busy, shared, down and wasted GPU time."""

import numpy as np

from sim.event_log import Kind
from sim.metrics.gpu_changes import gpu_changes
from sim.metrics.over_time import available_over_time, gpus_over_time, queue_over_time, span_s
from sim.metrics.steps import Steps, combined
from sim.run import Run

HOUR_S = 3600.0


def cluster_metrics(run: Run) -> dict[str, float | int]:
    """Metrics of all jobs, from the first submission to the last event."""
    start_s, end_s = span_s(run)
    changes = gpu_changes(run.log)
    busy, shared = gpus_over_time(changes, tenants=1), gpus_over_time(changes, tenants=2)
    queue = queue_over_time(run)
    util = busy.scaled(1.0 / run.topology.num_gpus)
    busy_mean = busy.mean(start_s, end_s)
    steady = run.jobs.submit_s[run.jobs.measured]
    available = available_over_time(run)
    idle = combined(available, busy, lambda up, used: up - used)
    wasted = combined(idle, queue, lambda free, waiting: free * (waiting > 0))
    return {
        "makespan_s": end_s - start_s,
        "gpu_util_frac": util.mean(start_s, end_s),
        "gpu_util_steady_frac": util.mean(steady[0], steady[-1]) if len(steady) else float("nan"),
        "gpu_idle_while_queued_frac": wasted.mean(start_s, end_s) / run.topology.num_gpus,
        "shared_gpu_frac": shared.mean(start_s, end_s) / busy_mean if busy_mean > 0 else 0.0,
        "busy_gpu_s": busy_mean * (end_s - start_s),
        "queue_len_mean": queue.mean(start_s, end_s),
        **_availability(run, available, busy_mean),
    }


def _availability(run: Run, available: Steps, busy_mean: float) -> dict[str, float | int]:
    """GPU time that servers offered, and how much of that was used."""
    start_s, end_s = span_s(run)
    gpus = run.topology.num_gpus
    up = available.mean(start_s, end_s) if end_s > start_s else float(gpus)
    return {
        "gpu_nominal_h": gpus * (end_s - start_s) / HOUR_S,
        "gpu_available_h": up * (end_s - start_s) / HOUR_S,
        "availability_frac": up / gpus,
        "gpu_util_available_frac": busy_mean / up if up > 0 else float("nan"),
        "servers_down": int(np.count_nonzero(run.log.kind == Kind.SERVER_DOWN)),
    }
