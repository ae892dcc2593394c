"""The scratch as a decision begins: what the state does not keep of partitions and of who waits."""

from sim.arrays import IntArray
from sim.jit import kernel
from sim.scoring.ahead import NEVER_S, sort_release
from sim.scoring.room import left_s
from sim.scoring.scratch import Scratch


@kernel
def refresh(scratch: Scratch) -> None:
    """Begin with the state as it is."""
    begin_gang(scratch, scratch.state.queue[:0])
    for m in range(len(scratch.partition)):
        _measure_servers(scratch, m)
        measure_room(scratch, m)
    _lay_out_jobs(scratch)


@kernel
def _measure_servers(scratch: Scratch, m: int) -> None:
    """Count the GPUs of the servers of partition `m` that are up; nobody waits or runs so far."""
    part, sizes = scratch.partition[m], scratch.state.free_gpus.sizes
    part.up = 0
    part.largest = 1
    part.wanted = 0
    part.waiting = 0
    part.jobs_waiting = 0
    part.running = 0
    part.due = 0
    for size in range(1, sizes.shape[1]):
        part.up += size * sizes[m, size]
        if sizes[m, size] > 0:
            part.largest = size


@kernel
def _lay_out_jobs(scratch: Scratch) -> None:
    state, largest_gang = scratch.state, 1
    world, jobs = state.world[0], state.job
    for at in range(world.num_running):
        job = state.running[at]
        part = scratch.partition[jobs[job].partition]
        largest_gang = max(largest_gang, scratch.job[job].gang)
        part.running += 1
        part.wanted += scratch.job[job].gang
    for i in range(world.num_queued):
        job = state.queue[world.queue_first + i]
        part = scratch.partition[jobs[job].partition]
        write_waiting(scratch, i, job)
        largest_gang = max(largest_gang, scratch.job[job].gang)
        part.wanted += scratch.job[job].gang
        part.waiting += scratch.job[job].gang
        part.jobs_waiting += 1
        part.due = 1
    scratch.game[0].num_waiting = world.num_queued
    scratch.ahead.largest_gang[0] = largest_gang


@kernel
def write_waiting(scratch: Scratch, at: int, job: int) -> None:
    """Let row `at` of `waiting` be that of a job."""
    row = scratch.waiting[at]
    row.job = job
    row.moved = 0
    row.last = 0
    row.key = left_s(scratch, job) if scratch.game[0].use_durations != 0 else scratch.job[job].gang


@kernel
def measure_room(scratch: Scratch, m: int) -> None:
    """See where partition `m` has empty GPUs, and when the others are predicted to fall empty."""
    part, tally = scratch.partition[m], scratch.state.free_gpus.tally
    part.whole = tally[m, part.largest]
    part.roomiest = part.largest - 1
    while part.roomiest > 0 and tally[m, part.roomiest] == 0:
        part.roomiest -= 1
    if scratch.game[0].look_ahead != 0:
        _measure_release(scratch, m)


@kernel
def _measure_release(scratch: Scratch, m: int) -> None:
    state, ahead = scratch.state, scratch.ahead
    ahead.largest[m] = scratch.partition[m].largest
    for i in range(state.partition[m].first_own, state.partition[m].last_own):
        where = state.server[state.own[i]]
        for gpu in range(where.first_gpu, where.last_gpu):
            free_s = NEVER_S if where.closed > 0 else 0.0
            for k in range(state.gpu[gpu].tenants):
                free_s = max(free_s, left_s(scratch, state.tenant[gpu, k]))
            ahead.free_s[gpu] = free_s
    sort_release(ahead, m)


@kernel
def begin_gang(scratch: Scratch, gpus: IntArray) -> None:
    """From now on the gang at hand has workers on `gpus` that stay there; none: a new gang."""
    for i in range(scratch.game[0].num_placed):
        scratch.gpu[scratch.placed[i]].placed = 0
    scratch.game[0].num_placed = len(gpus)
    for i in range(len(gpus)):
        scratch.placed[i] = gpus[i]
        scratch.gpu[gpus[i]].placed = 1
