"""The desk at the beginning of a decision, and what planned orders change on it."""

import numpy as np

from sim.arrays import IntArray
from sim.jit import kernel
from sim.linear.ahead import NEVER_S, sort_release
from sim.linear.costs import left_s
from sim.linear.desk import Desk


@kernel
def lay_out(desk: Desk, queued: IntArray, running: IntArray) -> None:
    """Begin with what was seen."""
    shown, game = desk.shown, desk.game[0]
    game.num_starts = 0
    game.num_gpus = 0
    game.num_forwards = 0
    for gpu in range(len(desk.gpu)):
        _lay_out_gpu(desk, gpu)
    for server in range(len(desk.server)):
        where = desk.server[server]
        where.closed = shown.closed[server]
        where.cpu_free_milli = shown.cpu_free_milli[server]
        where.memory_free_mib = shown.memory_free_mib[server]
        where.nic_jobs = shown.nic_jobs[server]
    for rack in range(len(desk.rack)):
        desk.rack[rack].uplink_jobs = shown.uplink_jobs[rack]
    _lay_out_partitions(desk)
    _lay_out_jobs(desk, queued, running)


@kernel
def _lay_out_gpu(desk: Desk, gpu: int) -> None:
    shown, seat = desk.shown, desk.gpu[gpu]
    same = seat.tenants == shown.tenants[gpu]
    for k in range(shown.tenants[gpu]):
        same = same and desk.tenant[gpu, k] == shown.tenant[gpu, k]
        desk.tenant[gpu, k] = shown.tenant[gpu, k]
    seat.tenants = shown.tenants[gpu]
    seat.milli = shown.gpu_milli[gpu]
    if not same:
        _forget_cost(desk, gpu)


@kernel
def _forget_cost(desk: Desk, gpu: int) -> None:
    """The tenants of `gpu` have changed."""
    for p in range(len(desk.cost)):
        desk.cost[p, gpu] = np.nan


@kernel
def _lay_out_partitions(desk: Desk) -> None:
    for m in range(len(desk.partition)):
        part = desk.partition[m]
        part.up = 0
        part.largest = 1
        part.wanted = 0
        part.waiting = 0
        part.running = 0
        part.due = 0
        for i in range(part.first_own, part.last_own):
            where = desk.server[desk.own[i]]
            if where.closed == 0:
                size = where.last_gpu - where.first_gpu
                part.up += size
                part.largest = max(part.largest, size)
        measure_room(desk, m)


@kernel
def _lay_out_jobs(desk: Desk, queued: IntArray, running: IntArray) -> None:
    partition, largest_gang = desk.shown.partition, 1
    for job in running:
        part = desk.partition[partition[job]]
        largest_gang = max(largest_gang, desk.job[job].gang)
        part.running += 1
        part.wanted += desk.job[job].gang
    for i in range(len(queued)):
        row, job = desk.waiting[i], queued[i]
        part = desk.partition[partition[job]]
        row.job = job
        row.partition = partition[job]
        row.moved = 0
        row.started = 0
        row.key = left_s(desk, job) if desk.game[0].use_durations != 0 else desk.job[job].gang
        largest_gang = max(largest_gang, desk.job[job].gang)
        part.wanted += desk.job[job].gang
        part.waiting += desk.job[job].gang
        part.due = 1
    desk.game[0].num_waiting = len(queued)
    desk.ahead.largest_gang[0] = largest_gang


@kernel
def measure_room(desk: Desk, m: int) -> None:
    """Count the empty GPUs of partition `m`, and see when the others fall empty."""
    part = desk.partition[m]
    part.free = 0
    part.roomiest = 0
    part.whole = 0
    for i in range(part.first_own, part.last_own):
        where = desk.server[desk.own[i]]
        where.empty = 0
        if where.closed > 0:
            continue
        for gpu in range(where.first_gpu, where.last_gpu):
            where.empty += desk.gpu[gpu].tenants == 0
        part.free += where.empty
        if where.empty == part.largest:
            part.whole += 1
        else:
            part.roomiest = max(part.roomiest, where.empty)
    if desk.game[0].look_ahead != 0:
        _measure_release(desk, m)


@kernel
def _measure_release(desk: Desk, m: int) -> None:
    """See when the GPUs of partition `m` are predicted to fall empty."""
    part, ahead = desk.partition[m], desk.ahead
    ahead.largest[m] = part.largest
    for i in range(part.first_own, part.last_own):
        where = desk.server[desk.own[i]]
        for gpu in range(where.first_gpu, where.last_gpu):
            free_s = NEVER_S if where.closed > 0 else 0.0
            for k in range(desk.gpu[gpu].tenants):
                free_s = max(free_s, left_s(desk, desk.tenant[gpu, k]))
            ahead.free_s[gpu] = free_s
    sort_release(ahead, m)


@kernel
def book_start(desk: Desk, at: int, m: int) -> None:
    """Order a start of waiting row `at` on `seats`, of the servers `used` by the placement."""
    game, job = desk.game[0], desk.waiting[at].job
    row = desk.job[job]
    desk.start_job[game.num_starts] = job
    desk.start_first[game.num_starts + 1] = game.num_gpus + row.gang
    for i in range(row.gang):
        gpu = desk.seats[i]
        desk.start_gpus[game.num_gpus + i] = gpu
        seat = desk.gpu[gpu]
        desk.tenant[gpu, seat.tenants] = job
        seat.tenants += 1
        seat.milli += row.gpu_milli
        _forget_cost(desk, gpu)
        where = desk.server[seat.server]
        where.cpu_free_milli -= row.cpu_milli
        where.memory_free_mib -= row.memory_mib
    game.num_gpus += row.gang
    game.num_starts += 1
    desk.waiting[at].started = 1
    part = desk.partition[m]
    part.running += 1
    part.waiting -= row.gang
    _book_links(desk)
    measure_room(desk, m)


@kernel
def _book_links(desk: Desk) -> None:
    """The job now loads the NICs of its servers and the uplinks of its racks."""
    game = desk.game[0]
    if game.num_used < 2:  # noqa: PLR2004 - one server has no one to talk to
        return
    game.stamp += 1
    racks = 0
    for i in range(game.num_used):
        where = desk.server[desk.used[i]]
        where.nic_jobs += 1
        racks += desk.rack[where.rack].stamp != game.stamp
        desk.rack[where.rack].stamp = game.stamp
    if racks < 2:  # noqa: PLR2004
        return
    game.stamp += 1
    for i in range(game.num_used):
        rack = desk.rack[desk.server[desk.used[i]].rack]
        if rack.stamp != game.stamp:
            rack.uplink_jobs += 1
        rack.stamp = game.stamp


@kernel
def book_forward(desk: Desk, at: int, target: int) -> None:
    """Order that waiting row `at` is handed to `target`, which has to decide anew."""
    game, row = desk.game[0], desk.waiting[at]
    gang = desk.job[row.job].gang
    desk.forward[game.num_forwards, 0] = row.job
    desk.forward[game.num_forwards, 1] = target
    game.num_forwards += 1
    home, there = desk.partition[row.partition], desk.partition[target]
    home.wanted -= gang
    home.waiting -= gang
    there.wanted += gang
    there.waiting += gang
    there.due = 1
    row.partition = target
    row.moved = 1
