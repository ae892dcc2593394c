"""One agent's observation, written into arrays that the caller owns."""

import numpy as np
from numba import njit

from marl.codec.candidates import MODES_COUNT, place_outwards, usable_counts
from marl.codec.costs import SERVERS, placement_costs
from marl.codec.rows import context_row, job_row, left_s, peer_rows, server_rows
from marl.codec.summary import Summary, placeable_now
from marl.codec.tables import Tables
from sim.arrays import FloatArray, IntArray


@njit(cache=True)
def _pair_rows(
    tables: Tables, job: int, servers: IntArray, compact: float, modes: int, pairs: FloatArray,
    mask: IntArray,
) -> bool:  # fmt: skip
    """Fill pairs (S, MODES, PAIR_FEATURES) and mask (S * MODES,); whether any start is legal."""
    any_legal = False
    for mode in range(modes):
        counts = usable_counts(tables, job, servers, mode)
        for i in range(len(servers)):
            gpus = place_outwards(tables, job, servers, counts, i, mode)
            if len(gpus) == 0:
                continue
            any_legal = True
            row = pairs[i, mode]
            row[0] = 1.0
            placement_costs(tables, job, gpus, row[1:8])
            first, last = tables.server_first_gpu[servers[i]], tables.server_first_gpu[servers[i] + 1]
            row[8] = max(counts[i] - len(gpus), 0) / (last - first)
            row[9] = row[1 + SERVERS] * 8.0 <= compact
            mask[i * MODES_COUNT + mode] = 1
    return any_legal


@njit(cache=True)
def _work_ahead_h(
    tables: Tables, queued: IntArray, partition: IntArray, job: int, count: int
) -> FloatArray:
    """(M,) GPU-hours of waiting jobs of each partition that are predicted shorter than `job`."""
    ahead = np.zeros(count)
    mine_s = left_s(tables, job)
    for other in queued:
        work_s = left_s(tables, other)
        if other != job and work_s <= mine_s:
            ahead[partition[other]] += work_s * tables.num_gpus[other] / 3600.0
    return ahead


@njit(cache=True)
def _forward_rows(
    tables: Tables, summary: Summary, job: int, own: int, ahead_h: FloatArray, hops_left: int,
    only_placeable: bool, rows: FloatArray, mask: IntArray,
) -> None:  # fmt: skip
    """Fill rows (M, FORWARD_FEATURES) and mask (M,)."""
    gang = tables.num_gpus[job]
    load = summary.wanted / summary.capacity
    stuck = gang > summary.capacity[own]
    for m in range(len(summary.capacity)):
        now = placeable_now(summary, m, gang)
        legal = m != own and hops_left > 0 and gang <= summary.capacity[m]
        legal = legal and (now or stuck or not only_placeable)
        row = rows[m]
        row[0] = legal
        row[1] = now
        row[2] = min(max(load[m] - load[own], -4.0), 4.0)
        row[3] = np.log1p(ahead_h[m] / summary.capacity[m])
        row[4] = np.log1p(ahead_h[own] / summary.capacity[own])
        row[5] = hops_left / 3.0
        if legal:
            mask[m] = 1


@njit(cache=True)
def observe_agent(
    tables: Tables, summary: Summary, own: int, servers: IntArray, window: IntArray,
    queued: IntArray, partition: IntArray, submit_s: FloatArray, forwards: IntArray,
    now_s: float, max_forwards: int, only_placeable: bool, sharing: bool, idle: bool,
    jobs_out: FloatArray, gpus_out: FloatArray, servers_out: FloatArray, rack_out: IntArray,
    pairs_out: FloatArray, peers_out: FloatArray, forwards_out: FloatArray,
    context_out: FloatArray, mask_out: IntArray,
) -> int:  # fmt: skip
    """Fill the observation of partition `own`; the number of legal actions besides *wait*.

    `window` are its first waiting jobs by predicted work left. Where `idle` (nothing runs in the
    partition) and a start is legal, only starts are: waiting cannot starve anyone.
    """
    width, room = jobs_out.shape[0], servers_out.shape[0]
    starts = mask_out[: width * room * MODES_COUNT].reshape(width, room * MODES_COUNT)
    sends = mask_out[width * room * MODES_COUNT : -1].reshape(width, -1)
    size = summary.largest[own]
    server_rows(tables, servers, gpus_out, servers_out)
    peer_rows(summary, own, peers_out)
    context_row(tables, summary, own, servers, context_out)
    for i in range(len(servers)):
        rack_out[i] = tables.server_rack[servers[i]] - tables.server_rack[servers[0]]
    can_start = False
    modes = MODES_COUNT if sharing else 1
    for w in range(len(window)):
        job = window[w]
        gang = tables.num_gpus[job]
        compact = np.ceil(gang / size)
        legal = _pair_rows(tables, job, servers, compact, modes, pairs_out[w], starts[w])
        can_start = can_start or legal
        fits_compact = placeable_now(summary, own, gang)
        job_row(tables, job, now_s, submit_s[job], forwards[job], w / width, legal, fits_compact,
                jobs_out[w])  # fmt: skip
        ahead_h = _work_ahead_h(tables, queued, partition, job, len(summary.capacity))
        hops_left = max_forwards - forwards[job]
        _forward_rows(tables, summary, job, own, ahead_h, hops_left, only_placeable,
                      forwards_out[w], sends[w])  # fmt: skip
    if idle and can_start:
        sends[:] = 0
    else:
        mask_out[-1] = 1
    return int(mask_out[:-1].sum())
