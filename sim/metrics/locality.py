"""Locality: over how many servers and racks the gangs were spread."""

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray
from sim.event_log import Kind
from sim.metrics.event_effects import gpu_lists
from sim.metrics.job_times import counted
from sim.run import Run


def last_start(run: Run) -> IntArray:
    """(J,) event of each job's last START; -1 if it never started."""
    starts = np.flatnonzero(run.log.kind == Kind.START)
    event = np.full(len(run.jobs), -1)
    event[run.log.job[starts]] = starts  # of equal indices the last assignment stays
    return event


def gangs(run: Run) -> BoolArray:
    """(J,) jobs that locality counts: measured, finished, more than one GPU."""
    return counted(run) & (run.jobs.num_gpus > 1)


def places_spanned(run: Run, place_of_gpu: IntArray) -> IntArray:
    """(J,) distinct places (`place_of_gpu` (G,)) of each job's last placement; 0 if none."""
    event = last_start(run)
    jobs = np.flatnonzero(event >= 0)
    if not len(jobs):
        return np.zeros(len(run.jobs), dtype=np.int64)
    lists = gpu_lists(run.log)
    is_last = np.zeros(len(lists), dtype=np.bool_)
    is_last[event[jobs]] = True
    row = np.repeat(np.arange(len(lists)), np.diff(lists.first))
    chosen = is_last[row]
    places = int(place_of_gpu.max()) + 1
    pairs = np.unique(run.log.job[row[chosen]] * places + place_of_gpu[lists.ids[chosen]])
    return np.bincount(pairs // places, minlength=len(run.jobs))


def servers_histogram(run: Run) -> FloatArray:
    """(m + 1,) share of multi-GPU jobs by servers spanned, entry k for k servers; empty if none."""
    spanned = places_spanned(run, run.topology.gpu_server)[gangs(run)]
    return np.bincount(spanned) / max(len(spanned), 1)


def locality_metrics(run: Run) -> dict[str, float]:
    """The histogram in four classes, and the shares of compact and of one-rack gangs.

    A gang is compact if fewer servers could not hold it even in an empty cluster (of servers as
    large as the largest). NaN where no multi-GPU job is counted.
    """
    chosen = gangs(run)
    servers = places_spanned(run, run.topology.gpu_server)[chosen]
    racks = places_spanned(run, run.topology.server_rack[run.topology.gpu_server])[chosen]
    fewest = -(-run.jobs.num_gpus[chosen] // int(run.topology.gpus_per_server.max()))
    classes = {
        "gang_servers_1_frac": servers == 1,
        "gang_servers_2_frac": servers == 2,  # noqa: PLR2004
        "gang_servers_3_4_frac": (servers == 3) | (servers == 4),  # noqa: PLR2004
        "gang_servers_5_up_frac": servers >= 5,  # noqa: PLR2004
        "gang_compact_frac": servers == fewest,
        "gang_racks_1_frac": racks == 1,
    }
    return {key: float(hit.mean()) if len(hit) else float("nan") for key, hit in classes.items()}
