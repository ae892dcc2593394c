"""What an agent can foresee: when GPUs fall empty, when jobs would start (`sim.linear.ahead`)."""

import numpy as np

from marl.codec.asks import PARTITION
from marl.codec.rows import all_left_s, left_s
from marl.codec.summary import Summary
from marl.codec.tables import Tables
from sim.arrays import FloatArray, IntArray
from sim.jit import array_kernel
from sim.linear.ahead import (
    NEVER_S,
    Ahead,
    compact_in_s,
    line_up,
    list_gang,
    sort_release,
)


@array_kernel
def ahead_of(tables: Tables, summary: Summary, own: int, window: IntArray) -> Ahead:
    """What can be foreseen at this turn, with the gangs that wait in the window of `own`."""
    gpus, count = len(tables.gpu_server), len(summary.up)
    belongs = tables.holds[:, PARTITION].copy()
    first = np.zeros(count + 1, dtype=np.int64)
    for m in belongs:
        first[m + 1] += 1
    ahead = Ahead(
        tables.server_first_gpu,
        tables.gpu_server,
        np.argsort(belongs, kind="mergesort"),
        np.cumsum(first),
        summary.largest.astype(np.int64),
        _free_s(tables),
        np.empty(gpus),
        np.empty(gpus),
        np.empty(len(belongs)),
        np.array([summary.largest_gang]),
        np.zeros(len(window) + 1, dtype=np.int64),
        np.zeros(len(window) + 1, dtype=np.int64),
        np.empty(len(window) + 1),
    )
    for m in range(count):
        sort_release(ahead, m)
    for job in window:
        list_gang(ahead, tables.num_gpus[job], own)
    return ahead


@array_kernel
def _free_s(tables: Tables) -> FloatArray:
    """(G,) when the last tenant of each GPU is predicted to leave, at full speed."""
    free_s = np.zeros(len(tables.gpu_server))
    for gpu in range(len(free_s)):
        if tables.state.server[tables.gpu_server[gpu]].closed > 0:
            free_s[gpu] = NEVER_S
        for k in range(tables.state.gpu[gpu].tenants):
            free_s[gpu] = max(free_s[gpu], left_s(tables, tables.state.tenant[gpu, k]))
    return free_s


@array_kernel
def starts_in_s(
    tables: Tables, ahead: Ahead, queued: IntArray, window: IntArray, most: int
) -> FloatArray:
    """(W, M) when the window's jobs would start in each partition, behind shorter ones there.

    In every partition the `most` shortest jobs that wait there are thought to start in order of
    their length, each as soon as it has a compact place.
    """
    count = len(ahead.largest)
    start_s = np.zeros((len(window), count))
    if count == 1:
        return start_s
    left = all_left_s(tables, queued)
    place = np.full(len(tables.num_gpus), -1)
    for w in range(len(window)):
        place[window[w]] = w
    lined = np.zeros(count, dtype=np.int64)
    for i in np.argsort(left, kind="mergesort"):
        job = queued[i]
        if place[job] >= 0:
            for m in range(count):
                in_s = compact_in_s(ahead, ahead.after_s, tables.num_gpus[job], m)
                start_s[place[job], m] = in_s
        m = tables.state.job[job].partition
        if lined[m] < most:
            line_up(ahead, tables.num_gpus[job], left[i], m)
            lined[m] += 1
    for m in range(count):
        sort_release(ahead, m)
    return start_s
