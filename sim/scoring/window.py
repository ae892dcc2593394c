"""The scratch as a decision begins, and which waiting jobs of a partition are looked at.

What the state does not keep of partitions and of who waits; when those looked at would start, here
and elsewhere.

"""

from sim.arrays import IntArray
from sim.jit import kernel
from sim.kernel.layout import QUEUED
from sim.scoring.ahead import (
    NEVER_S,
    compact_in_s,
    forget_gangs,
    line_up,
    list_gang,
    sort_release,
    take_back,
)
from sim.scoring.room import is_old, left_s, most_workers, waits_in
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
    for size in range(1, sizes.shape[1]):  # ascending: the last one found is the largest
        part.up += size * sizes[m, size]
        if sizes[m, size] > 0:
            part.largest = size


@kernel
def _lay_out_jobs(scratch: Scratch) -> None:
    state, largest_gang = scratch.state, 1
    world, jobs = state.world[0], state.job
    for at in range(world.num_running):  # in any order: sums and a maximum
        job = state.running[at]
        part = scratch.partition[jobs[job].partition]
        largest_gang = max(largest_gang, scratch.job[job].gang)
        part.running += 1
        part.wanted += scratch.job[job].gang
    for i in range(world.num_queued):  # ascending, so that rows are in order of submission
        job = state.queue[world.queue_first + i]
        part = scratch.partition[jobs[job].partition]
        write_waiting(scratch, i, job)
        largest_gang = max(largest_gang, scratch.job[job].gang)
        part.wanted += scratch.job[job].gang
        part.waiting += scratch.job[job].gang
        part.jobs_waiting += 1
        part.due = 1
    scratch.scalars[0].num_waiting = world.num_queued
    scratch.ahead.largest_gang[0] = largest_gang


@kernel
def write_waiting(scratch: Scratch, at: int, job: int) -> None:
    """Let row `at` of `waiting` be that of a job."""
    row = scratch.waiting[at]
    row.job = job
    row.moved = 0
    row.last = 0
    predicted = scratch.scalars[0].use_durations != 0
    row.key = left_s(scratch, job) if predicted else scratch.job[job].gang


@kernel
def measure_room(scratch: Scratch, m: int) -> None:
    """See where partition `m` has empty GPUs, and when the others are predicted to fall empty."""
    part, tally = scratch.partition[m], scratch.state.free_gpus.tally
    part.whole = tally[m, part.largest]
    part.roomiest = part.largest - 1
    while part.roomiest > 0 and tally[m, part.roomiest] == 0:
        part.roomiest -= 1
    if scratch.scalars[0].look_ahead != 0:
        _measure_release(scratch, m)


@kernel
def _measure_release(scratch: Scratch, m: int) -> None:
    state, ahead = scratch.state, scratch.ahead
    ahead.largest[m] = scratch.partition[m].largest
    for i in range(state.partition[m].first_own, state.partition[m].last_own):  # all: time passes
        where = state.server[state.own[i]]
        for gpu in range(where.first_gpu, where.last_gpu):  # each has tenants of its own
            free_s = NEVER_S if where.closed > 0 else 0.0
            for k in range(state.gpu[gpu].tenants):  # who stays longest decides
                free_s = max(free_s, left_s(scratch, state.tenant[gpu, k]))
            ahead.free_s[gpu] = free_s
    sort_release(ahead, m)


@kernel
def begin_gang(scratch: Scratch, gpus: IntArray) -> None:
    """From now on the gang at hand has workers on `gpus` that stay there; none: a new gang."""
    for i in range(scratch.scalars[0].num_placed):  # those listed: all marks would be many more
        scratch.gpu[scratch.placed[i]].placed = 0
    scratch.scalars[0].num_placed = len(gpus)
    for i in range(len(gpus)):  # in both forms: listed in order, marked to be asked for
        scratch.placed[i] = gpus[i]
        scratch.gpu[gpus[i]].placed = 1


OLD_SHARE = 4  # at most a 1 / OLD_SHARE of the window is for jobs out of patience


@kernel
def _is_in_window(scratch: Scratch, at: int) -> bool:
    found = False
    for i in range(scratch.scalars[0].num_window):  # short; asked only where old jobs came first
        found = found or scratch.window[i] == at
    return found


@kernel
def choose_window(scratch: Scratch, m: int) -> None:
    """Fill `window` with rows of `waiting`: by key, then row; those that are `last` at the end.

    If more wait than it holds, the oldest few that are old come first: the shortest prediction (or
    the smallest gang) alone would keep the long jobs of a long queue out of sight for ever.
    """
    scalars = scratch.scalars[0]
    scalars.num_window = 0
    crowded = scratch.partition[m].jobs_waiting > scalars.window
    for at in range(scalars.num_waiting):  # in order of submission
        if not crowded or scalars.num_window >= scalars.window // OLD_SHARE:
            break
        if not is_old(scratch, scratch.waiting[at].job):
            break
        if waits_in(scratch, at, m):
            scratch.window[scalars.num_window] = at
            scalars.num_window += 1
    old, end = scalars.num_window, scalars.window - 1
    for at in range(scalars.num_waiting):  # all: a key does not follow the order of rows
        if not waits_in(scratch, at, m):
            continue
        full = scalars.num_window == scalars.window
        if full and (old == scalars.window or not _goes_before(scratch, at, scratch.window[end])):
            continue
        if old > 0 and _is_in_window(scratch, at):
            continue
        _insert(scratch, at, old)


@kernel
def _is_before(scratch: Scratch, at: int, other: int) -> bool:
    """Whether waiting row `at` comes before another: by key, then by submission."""
    mine, theirs = scratch.waiting[at].key, scratch.waiting[other].key
    return bool(mine < theirs or (mine == theirs and at < other))


@kernel
def _goes_before(scratch: Scratch, at: int, other: int) -> bool:
    """The same in a window, where some come last."""
    mine, theirs = scratch.waiting[at].last, scratch.waiting[other].last
    return bool(mine < theirs or (mine == theirs and _is_before(scratch, at, other)))


@kernel
def _insert(scratch: Scratch, at: int, first: int) -> None:
    """Put `at` in its place from `first` on; who falls out of the window's end is gone."""
    scalars = scratch.scalars[0]
    place = scalars.num_window
    if place == scalars.window:
        place -= 1
    else:
        scalars.num_window += 1
    while place > first and _goes_before(scratch, at, scratch.window[place - 1]):  # few: insertion
        scratch.window[place] = scratch.window[place - 1]
        place -= 1
    scratch.window[place] = at


@kernel
def put_off_the_homeless(scratch: Scratch, m: int) -> None:
    """Jobs that partition `m` could hold only with servers that are away come last in its window.

    So they keep nobody out of it. To be called before `choose_window`.
    """
    state, away = scratch.state, False
    for i in range(state.partition[m].first_own, state.partition[m].last_own):  # one is enough
        away = away or state.server[state.own[i]].closed > 0
    for at in range(scratch.scalars[0].num_waiting if away else 0):  # all up: nobody is homeless
        row = scratch.waiting[at]
        gang = scratch.job[row.job].gang
        if waits_in(scratch, at, m) and most_workers(scratch, row.job, m, False) < gang:
            row.last = most_workers(scratch, row.job, m, True) >= gang


@kernel
def look_at_window(scratch: Scratch, m: int) -> None:
    """What the features that look ahead need to know of the window of partition `m`."""
    forget_gangs(scratch.ahead)
    for i in range(scratch.scalars[0].num_window):
        list_gang(scratch.ahead, scratch.job[scratch.waiting[scratch.window[i]].job].gang, m)
    if len(scratch.partition) > 1:
        _measure_starts(scratch)


@kernel
def _measure_starts(scratch: Scratch) -> None:
    """Fill `start_in_s` for the jobs of the window.

    In every partition the shortest jobs that wait there, as many as a window has, are thought to
    start in order of their length, each as soon as it has a compact place.
    """
    _sort_window(scratch)
    _measure_lines(scratch)
    for target in range(len(scratch.partition)):  # a forward compares its start here and there
        done = 0
        for i in range(scratch.scalars[0].num_window):  # by key, so each line is gone through once
            at = scratch.window[scratch.by_key[i]]
            # those before it in line have taken their places when it starts
            while done < scratch.line_count[target] and _is_before(
                scratch, scratch.line[target, done], at
            ):
                job = scratch.waiting[scratch.line[target, done]].job
                line_up(scratch.ahead, scratch.job[job].gang, left_s(scratch, job), target)
                done += 1
            gang = scratch.job[scratch.waiting[at].job].gang
            in_s = compact_in_s(scratch.ahead, scratch.ahead.after_s, gang, target)
            scratch.start_in_s[target, scratch.by_key[i]] = in_s
        if done > 0:
            take_back(scratch.ahead, target)


@kernel
def _sort_window(scratch: Scratch) -> None:
    """Let `by_key` be the places of the window by key; in the window old jobs come first."""
    for i in range(scratch.scalars[0].num_window):  # insertion: in order, but for the old ones
        at = i
        # rows break ties, so there is one order only
        while at > 0 and _is_before(
            scratch, scratch.window[i], scratch.window[scratch.by_key[at - 1]]
        ):
            scratch.by_key[at] = scratch.by_key[at - 1]
            at -= 1
        scratch.by_key[at] = i


@kernel
def _measure_lines(scratch: Scratch) -> None:
    """Fill `line` of every partition with its first waiting rows by key."""
    scratch.line_count[:] = 0
    for at in range(scratch.scalars[0].num_waiting):
        row = scratch.state.job[scratch.waiting[at].job]
        if row.status == QUEUED:
            _join_line(scratch, at, row.partition)


@kernel
def _join_line(scratch: Scratch, at: int, m: int) -> None:
    """Let the waiting row `at` stand in line in partition `m`, if it is among the first."""
    line, most, place = scratch.line, scratch.line.shape[1], scratch.line_count[m]
    if place == most:
        if not _is_before(scratch, at, line[m, most - 1]):
            return
        place -= 1
    else:
        scratch.line_count[m] += 1
    while place > 0 and _is_before(scratch, at, line[m, place - 1]):  # insertion: lines are short
        line[m, place] = line[m, place - 1]
        place -= 1
    line[m, place] = at
