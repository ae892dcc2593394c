"""The summary of a run: every number of `metrics.json`, in its order."""

import math
from collections.abc import Mapping

import numpy as np

from sim.arrays import BoolArray, IntArray
from sim.report.balance import balance_metrics, check_run, fairness_metrics
from sim.report.gpu_use import fragmentation_metrics
from sim.report.job_times import (
    counted,
    deadline_metrics,
    given_up,
    jct_s,
    mean_of,
    outcome_metrics,
    percentile_of,
    queue_delay_s,
    run_stretch,
    slowdown,
    workflow_metrics,
)
from sim.report.timeline import (
    GpuChanges,
    Steps,
    available_over_time,
    combined,
    down_changes,
    gpu_changes,
    gpu_lists,
    gpus_over_time,
    last_start,
    queue_over_time,
    span_s,
)
from sim.run import Kind, Run
from sim.times import HOUR_S
from sim.topology.topology import Watts

JOULES_PER_KWH = 3.6e6


def energy_metrics(run: Run) -> dict[str, float]:
    """`energy_kwh` of all GPUs over the span.

    A GPU of a server that is down draws nothing. NaN where the power of a GPU type that the
    cluster has is not known.
    """
    gpu_type = run.topology.server_gpu_type[run.topology.gpu_server]  # (G,)
    busy, down = gpu_changes(run.log), down_changes(run.log)
    joules = 0.0
    for each in np.unique(gpu_type).tolist():
        watts = run.watts.get(run.topology.gpu_types[each])
        if watts is None:
            return {"energy_kwh": float("nan")}
        joules += _joules(run, busy, down, gpu_type == each, watts)
    return {"energy_kwh": joules / JOULES_PER_KWH}


def _joules(
    run: Run, busy: GpuChanges, down: GpuChanges, of_type: BoolArray, watts: Watts
) -> float:
    """Energy of the GPUs of one type, `of_type` (G,)."""
    start_s, end_s = span_s(run)
    busy_gpu_s, down_gpu_s = (
        gpus_over_time(changes.of(of_type[changes.gpu]), tenants=1).mean(start_s, end_s)
        * (end_s - start_s)
        for changes in (busy, down)
    )
    total_gpu_s = float(np.count_nonzero(of_type)) * (end_s - start_s)
    idle_gpu_s = total_gpu_s - busy_gpu_s - down_gpu_s
    return watts.busy * busy_gpu_s + watts.idle * idle_gpu_s


def gangs(run: Run) -> BoolArray:
    """(J,) jobs that locality counts: measured, finished, more than one GPU."""
    return counted(run) & (run.jobs.num_gpus > 1)


def places_spanned(run: Run, place_of_gpu: IntArray) -> IntArray:
    """(J,) distinct places (`place_of_gpu` (G,)) of each job's last placement; 0 if none."""
    event = last_start(run)
    jobs = np.flatnonzero(event >= 0)
    if not len(jobs):
        return np.zeros(len(run.jobs), dtype=np.int64)
    lists = gpu_lists(run.log.gpus)
    is_last = np.zeros(len(lists), dtype=np.bool_)
    is_last[event[jobs]] = True
    row = np.repeat(np.arange(len(lists)), np.diff(lists.first))
    chosen = is_last[row]
    places = int(place_of_gpu.max()) + 1
    pairs = np.unique(run.log.job[row[chosen]] * places + place_of_gpu[lists.ids[chosen]])
    return np.bincount(pairs // places, minlength=len(run.jobs))


def locality_metrics(run: Run) -> dict[str, float]:
    """The histogram in four classes, and the shares of compact and of one-rack gangs.

    A gang is compact if fewer servers could not hold it even in an empty cluster (of servers as
    large as the largest). NaN where no multi-GPU job is counted.
    """
    chosen = gangs(run)
    servers = places_spanned(run, run.topology.gpu_server)[chosen]
    racks = places_spanned(run, run.topology.server_rack[run.topology.gpu_server])[chosen]
    sizes = np.diff(gpu_lists(run.log.gpus).first)  # of elastic jobs not as they asked for
    fewest = -(-sizes[last_start(run)[chosen]] // int(run.topology.gpus_per_server.max()))
    classes = {
        "gang_servers_1_frac": servers == 1,
        "gang_servers_2_frac": servers == 2,  # noqa: PLR2004
        "gang_servers_3_4_frac": (servers == 3) | (servers == 4),  # noqa: PLR2004
        "gang_servers_5_up_frac": servers >= 5,  # noqa: PLR2004
        "gang_compact_frac": servers == fewest,
        "gang_racks_1_frac": racks == 1,
    }
    return {key: mean_of(hit.astype(np.float64)) for key, hit in classes.items()}


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
        "gpu_util_steady_frac": util.mean(steady[0], steady[-1])
        if len(steady) and steady[-1] > steady[0]
        else float("nan"),
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


NAN = float("nan")
MS_PER_S = 1000.0


def decision_metrics(run: Run) -> dict[str, float | int]:
    """Number and mean latency of decisions."""
    return {
        "decisions": run.decisions,
        "decision_ms_mean": MS_PER_S * run.decision_s / run.decisions if run.decisions else NAN,
        "loop_wall_s": run.loop_wall_s,
    }


HEADLINE_KEYS = (
    "jobs_finished", "jct_mean_s", "jct_p50_s", "jct_p95_s", "jct_p99_s", "queue_delay_mean_s",
    "makespan_s", "gpu_util_frac", "decision_ms_mean", "loop_wall_s",
)  # fmt: skip
LEFT_KEYS = ("jobs_unfinished", "jobs_withdrawn")


def headline(metrics: Mapping[str, float | int]) -> dict[str, str]:
    """The headline metrics as words, without a nan; who was not played to the end, if anybody."""
    shown = [*HEADLINE_KEYS[:1], *filter(metrics.get, LEFT_KEYS), *HEADLINE_KEYS[1:]]
    return {key: _words(key, metrics[key]) for key in shown}


def _words(key: str, value: float | int) -> str:
    """Counts as they are, simulated times in hours too, and words where nothing was measured."""
    if math.isnan(value):
        return "-  (compiled: not timed one by one)" if key == "decision_ms_mean" else "-"
    if isinstance(value, int):
        return f"{value:,}"
    text = f"{value:,.4g}" if abs(value) < 1 else f"{value:,.1f}"
    hours = f"{value / HOUR_S:,.2f}"
    simulated = key.endswith("_s") and key != "loop_wall_s" and hours != "0.00"
    return f"{text:12}  {hours} h" if simulated else text


def summarise(run: Run) -> dict[str, float | int]:
    """All metrics of a run; `docs/metrics.md` defines each key.

    Metrics of jobs cover the finished jobs of the measured part; those of the cluster cover the
    whole run. NaN where nothing is there to measure.

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
        **decision_metrics(run),
    }
    order = [*HEADLINE_KEYS, *(key for key in metrics if key not in HEADLINE_KEYS)]
    return {key: metrics[key] for key in order}


def job_metrics(run: Run) -> dict[str, float | int]:
    """Times, slowdowns and counts of the measured jobs."""
    chosen, measured = counted(run), run.jobs.measured
    jct, delay, slow = jct_s(run)[chosen], queue_delay_s(run)[chosen], slowdown(run)[chosen]
    stretch, gone = run_stretch(run)[chosen], measured & given_up(run)
    return {
        "jobs_finished": int(chosen.sum()),
        "jobs_unfinished": int(measured.sum() - chosen.sum() - gone.sum()),
        "jobs_withdrawn": int(gone.sum()),
        "jct_mean_s": mean_of(jct),
        "jct_p50_s": percentile_of(jct, 50),
        "jct_p95_s": percentile_of(jct, 95),
        "jct_p99_s": percentile_of(jct, 99),
        "queue_delay_mean_s": mean_of(delay),
        "queue_delay_p95_s": percentile_of(delay, 95),
        "slowdown_mean": mean_of(slow),
        "slowdown_p95": percentile_of(slow, 95),
        "bounded_slowdown": mean_of(np.maximum(slow, 1.0)),
        "run_stretch_mean": mean_of(stretch[~np.isnan(stretch)]),
        "preemptions": int(run.preemptions[measured].sum()),
        "forwards": int(run.forwards[measured].sum()),
    }
