"""One agent's observation, written into arrays that the caller owns."""

from typing import NamedTuple

import numpy as np

from marl.codec.ahead import ahead_of, starts_in_s
from marl.codec.candidates import MODES, completed, place_outwards, still_usable
from marl.codec.costs import placement_costs
from marl.codec.fit import Fit, fit_of
from marl.codec.rows import context_row, hide_others, job_row, left_s, peer_rows, server_rows
from marl.codec.summary import Summary
from marl.codec.tables import Tables
from sim.arrays import FloatArray, IntArray
from sim.jit import array_kernel
from sim.linear.ahead import (
    Ahead,
    compact_in_s,
    holds_up,
    prolongs,
    wait_difference,
    wait_over_loss,
)
from sim.linear.there import effects_there
from sim.scoring.table import OfForward, OfJob, OfPair


class Limits(NamedTuple):
    """What may be done now."""

    now_s: float
    max_forwards: int
    only_placeable: bool
    sharing: bool
    patience_s: float
    pressed: bool  # nothing runs in the partition, and it has waited: it has to start a job
    alone: bool  # nothing is seen of other partitions, and no job sent there


class Begun(NamedTuple):
    """A gang of which some workers have a place already, where agents place worker by worker."""

    row: int  # of its job in the window
    mode: int
    gpus: IntArray  # of its workers so far


class Canvas(NamedTuple):
    """The observation's arrays, all zero before; shapes in `Layout.shapes`."""

    jobs: FloatArray
    gpus: FloatArray
    servers: FloatArray
    server_rack: IntArray
    pairs: FloatArray
    peers: FloatArray
    forwards: FloatArray
    context: FloatArray
    action_mask: IntArray


@array_kernel
def _pair_rows(
    tables: Tables, ahead: Ahead, own: int, job: int, servers: IntArray,
    compact: float, first_mode: int, last_mode: int, placed: IntArray,
    pairs: FloatArray, mask: IntArray,
) -> bool:  # fmt: skip
    """Fill pairs (S, MODES, OfPair) and mask (S * MODES,); whether any start is legal.

    `placed` are GPUs of workers that have a place already; with none a start is of a whole gang.
    """
    any_legal = False
    job_s = left_s(tables, job)
    wait_s = compact_in_s(ahead, ahead.release_s, tables.num_gpus[job], own)
    for mode in range(first_mode, last_mode + 1):
        counts = still_usable(tables, job, servers, mode, placed)
        for i in range(len(servers)):
            if len(placed) == 0:
                gpus = place_outwards(tables, job, servers, counts, i, mode)
            else:
                gpus = completed(tables, job, servers, counts, i, mode, placed)
            if len(gpus) == 0:
                continue
            any_legal = True
            row = pairs[i, mode]
            row[OfPair.LEGAL] = 1.0
            placement_costs(
                tables, job, gpus, ahead.largest[own], row[OfPair.SPREAD : OfPair.COMPACT]
            )
            row[OfPair.COMPACT] = row[OfPair.SERVERS] * 8.0 <= compact
            slowed = row[OfPair.SPREAD] + row[OfPair.CONTENTION] + row[OfPair.OWN_SLOWDOWN]
            row[OfPair.WAIT_OVER_LOSS] = wait_over_loss(wait_s, slowed, job_s)
            row[OfPair.PROLONGS] = prolongs(ahead, gpus, job_s)
            row[OfPair.HOLDS_UP] = holds_up(ahead, gpus, job_s, own)
            mask[i * MODES + mode] = 1
    return any_legal


@array_kernel
def _work_ahead_h(tables: Tables, queued: IntArray, job: int, count: int) -> FloatArray:
    """(M,) GPU-hours of waiting jobs of each partition that are predicted shorter than `job`."""
    ahead = np.zeros(count)
    mine_s = left_s(tables, job)
    for other in queued:
        work_s = left_s(tables, other)
        if other != job and work_s <= mine_s:
            ahead[tables.partition[other]] += work_s * tables.num_gpus[other] / 3600.0
    return ahead


@array_kernel
def _forward_rows(
    tables: Tables, summary: Summary, ahead: Ahead, fit: Fit, job: int, own: int,
    ahead_h: FloatArray, start_s: FloatArray, hops_left: int, only_placeable: bool,
    rows: FloatArray, mask: IntArray,
) -> None:  # fmt: skip
    """Fill rows (M, OfForward) and mask (M,)."""
    gang, job_s = tables.num_gpus[job], left_s(tables, job)
    load = summary.wanted / summary.capacity
    here_s = compact_in_s(ahead, ahead.release_s, gang, own)
    stuck = gang > fit.most[own]
    for m in range(len(summary.capacity)):
        now = fit.compact[m]
        legal = m != own and hops_left > 0 and gang <= fit.most[m]
        legal = legal and (now or stuck or not only_placeable)
        row = rows[m]
        row[OfForward.LEGAL] = legal
        row[OfForward.PLACEABLE] = now
        row[OfForward.LOAD_DIFFERENCE] = min(max(load[m] - load[own], -4.0), 4.0)
        row[OfForward.WORK_AHEAD] = np.log1p(ahead_h[m] / summary.capacity[m])
        row[OfForward.WORK_AHEAD_HERE] = np.log1p(ahead_h[own] / summary.capacity[own])
        row[OfForward.HOPS_LEFT] = hops_left / 3.0
        there_s = compact_in_s(ahead, ahead.release_s, gang, m)
        row[OfForward.WAIT_DIFFERENCE] = wait_difference(here_s, there_s)
        row[OfForward.START_DIFFERENCE] = wait_difference(start_s[own], start_s[m])
        there = effects_there(ahead, gang, job_s, m)
        row[OfForward.PROLONGS] = there.prolongs
        row[OfForward.FRAGMENTS] = there.fragments
        row[OfForward.PUTS_OFF] = there.puts_off
        if legal:
            mask[m] = 1


@array_kernel
def _state_rows(
    tables: Tables, summary: Summary, own: int, servers: IntArray, alone: bool, canvas: Canvas
) -> None:
    """Fill what does not depend on the waiting jobs one by one."""
    server_rows(tables, servers, canvas.gpus, canvas.servers)
    peer_rows(summary, own, canvas.peers)
    context_row(tables, summary, own, servers, canvas.context)
    if alone:
        hide_others(own, canvas.peers, canvas.context)
    racks = tables.server_rack[servers]  # not always neighbours: numbered from 0 all the same
    canvas.server_rack[: len(racks)] = np.searchsorted(np.unique(racks), racks)


@array_kernel
def observe_agent(
    tables: Tables, summary: Summary, own: int, servers: IntArray, window: IntArray,
    queued: IntArray, limits: Limits, canvas: Canvas,
) -> int:  # fmt: skip
    """Fill the observation of partition `own`; the number of legal actions besides *wait*.

    `queued` are the waiting jobs of the whole cluster, `window` its own first ones by predicted
    work left. Where `limits.pressed` and a start is legal, only starts are; where a job older than
    the patience fits compactly on empty GPUs, *wait* is not legal: waiting cannot starve anyone.
    Servers that are away are no part of any of it.
    """
    width, room = canvas.jobs.shape[0], canvas.servers.shape[0]
    starts = canvas.action_mask[: width * room * MODES].reshape(width, room * MODES)
    sends = canvas.action_mask[width * room * MODES : -1].reshape(width, -1)
    _state_rows(tables, summary, own, servers, limits.alone, canvas)
    ahead = ahead_of(tables, summary, own, window)
    start_s = starts_in_s(tables, ahead, queued, window, width)
    can_start, overdue = False, False
    last_mode = MODES - 1 if limits.sharing else 0
    nobody = np.empty(0, dtype=np.int64)
    for w in range(len(window)):
        job = window[w]
        fit = fit_of(tables, summary, job)
        compact = fit.fewest[own]
        legal = _pair_rows(tables, ahead, own, job, servers, compact, 0, last_mode, nobody,
                           canvas.pairs[w], starts[w])  # fmt: skip
        can_start = can_start or legal
        fits_compact = fit.compact[own]
        age_s = limits.now_s - tables.submit_s[job]
        old = age_s >= limits.patience_s
        overdue = overdue or (fits_compact and old)
        hops = tables.forwards[job]
        job_row(tables, job, age_s, hops, w / width, legal, fits_compact, canvas.jobs[w])
        canvas.jobs[w, OfJob.OLD] = old
        if not limits.alone:
            ahead_h = _work_ahead_h(tables, queued, job, len(summary.capacity))
            _forward_rows(tables, summary, ahead, fit, job, own, ahead_h, start_s[w],
                          limits.max_forwards - hops, limits.only_placeable, canvas.forwards[w],
                          sends[w])  # fmt: skip
    if limits.pressed and can_start:
        sends[:] = 0
    elif not overdue:
        canvas.action_mask[-1] = 1
    return int(canvas.action_mask[:-1].sum())


@array_kernel
def observe_next_worker(
    tables: Tables, summary: Summary, own: int, servers: IntArray, window: IntArray,
    limits: Limits, begun: Begun, canvas: Canvas,
) -> int:  # fmt: skip
    """Fill the observation of partition `own` amid a gang; how many places its next worker has.

    A place is a server from which the rest of the gang can be completed; its row of `pairs` is
    that of the whole gang, if the workers after this one go outwards from here. Nothing else is
    legal: whoever has begun a gang completes it.
    """
    width, room = canvas.jobs.shape[0], canvas.servers.shape[0]
    starts = canvas.action_mask[: width * room * MODES].reshape(width, room * MODES)
    _state_rows(tables, summary, own, servers, limits.alone, canvas)
    ahead = ahead_of(tables, summary, own, window)
    for w in range(len(window)):
        job = window[w]
        fit = fit_of(tables, summary, job)
        legal = False
        if w == begun.row:
            legal = _pair_rows(tables, ahead, own, job, servers, fit.fewest[own], begun.mode,
                               begun.mode, begun.gpus, canvas.pairs[w], starts[w])  # fmt: skip
        age_s = limits.now_s - tables.submit_s[job]
        hops = tables.forwards[job]
        job_row(tables, job, age_s, hops, w / width, legal, fit.compact[own], canvas.jobs[w])
        canvas.jobs[w, OfJob.OLD] = age_s >= limits.patience_s
    return int(canvas.action_mask.sum())
