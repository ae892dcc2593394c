"""Use of servers over time, in bins: an image of the whole run."""

import numpy as np

from sim.arrays import FloatArray
from sim.metrics.gpu_changes import GpuChanges, down_changes, gpu_changes
from sim.metrics.over_time import span_s
from sim.metrics.steps import steps_of_changes
from sim.run import Run


def busy_frac_by_server(run: Run, *, rows: int, bins: int) -> FloatArray:
    """(rows or fewer, bins) share of busy GPUs of neighbouring servers in bins of equal length."""
    return _frac_by_server(run, gpu_changes(run.log), rows, bins)


def down_frac_by_server(run: Run, *, rows: int, bins: int) -> FloatArray:
    """(rows or fewer, bins) share of GPUs of neighbouring servers that were away, in such bins."""
    return _frac_by_server(run, down_changes(run.log), rows, bins)


def _frac_by_server(run: Run, changes: GpuChanges, rows: int, bins: int) -> FloatArray:
    """Share of GPUs with at least one holder."""
    start_s, end_s = span_s(run)
    servers = run.topology.num_servers
    rows = min(rows, servers)
    row_of_server = np.arange(servers) * rows // servers
    gpus = np.bincount(row_of_server, weights=run.topology.gpus_per_server, minlength=rows)
    change = changes.gpus_with(1)
    row = row_of_server[run.topology.gpu_server[changes.gpu]]
    by_row = np.argsort(row, kind="stable")
    bounds = np.searchsorted(row[by_row], np.arange(rows + 1))
    edges_s = np.linspace(start_s, end_s, bins + 1)
    use = np.zeros((rows, bins))
    if end_s <= start_s:
        return use
    for number in range(rows):
        mine = by_row[bounds[number] : bounds[number + 1]]
        busy = steps_of_changes(changes.time_s[mine], change[mine]).integral(edges_s)
        use[number] = np.diff(busy) / np.diff(edges_s) / gpus[number]
    return np.clip(use, 0.0, 1.0)
