"""Which waiting jobs of a partition are looked at; when they would start, here and elsewhere."""

from sim.jit import kernel
from sim.scoring.ahead import compact_in_s, forget_gangs, line_up, list_gang, sort_release
from sim.scoring.desk import Desk
from sim.scoring.room import is_old, left_s, most_workers, waits_in

OLD_SHARE = 4  # at most a 1 / OLD_SHARE of the window is for jobs out of patience


@kernel
def _seats_in(desk: Desk, at: int) -> bool:
    found = False
    for i in range(desk.game[0].num_window):
        found = found or desk.window[i] == at
    return found


@kernel
def choose_window(desk: Desk, m: int) -> None:
    """Fill `window` with rows of `waiting`: by key, then row; those that are `last` at the end.

    If more wait than it holds, the oldest few that are old come first: the shortest prediction (or
    the smallest gang) alone would keep the long jobs of a long queue out of sight for ever.
    """
    game = desk.game[0]
    game.num_window = 0
    crowded = desk.partition[m].jobs_waiting > game.window
    for at in range(game.num_waiting):  # in order of submission
        if not crowded or game.num_window >= game.window // OLD_SHARE:
            break
        if not is_old(desk, desk.waiting[at].job):
            break
        if waits_in(desk, at, m):
            desk.window[game.num_window] = at
            game.num_window += 1
    old = game.num_window
    for at in range(game.num_waiting):
        if not waits_in(desk, at, m):
            continue
        full = game.num_window == game.window
        if full and (old == game.window or not _goes_before(desk, at, desk.window[-1])):
            continue
        if old > 0 and _seats_in(desk, at):
            continue
        _insert(desk, at, old)


@kernel
def _is_before(desk: Desk, at: int, other: int) -> bool:
    """Whether waiting row `at` comes before another: by key, then by submission."""
    mine, theirs = desk.waiting[at].key, desk.waiting[other].key
    return bool(mine < theirs or (mine == theirs and at < other))


@kernel
def _goes_before(desk: Desk, at: int, other: int) -> bool:
    """The same in a window, where some come last."""
    mine, theirs = desk.waiting[at].last, desk.waiting[other].last
    return bool(mine < theirs or (mine == theirs and _is_before(desk, at, other)))


@kernel
def _insert(desk: Desk, at: int, first: int) -> None:
    """Put `at` in its place from `first` on; who falls out of the window's end is gone."""
    game = desk.game[0]
    place = game.num_window
    if place == game.window:
        place -= 1
    else:
        game.num_window += 1
    while place > first and _goes_before(desk, at, desk.window[place - 1]):
        desk.window[place] = desk.window[place - 1]
        place -= 1
    desk.window[place] = at


@kernel
def put_off_the_homeless(desk: Desk, m: int) -> None:
    """Jobs that partition `m` could hold only with servers that are away come last in its window.

    So they keep nobody out of it. To be called before `choose_window`.
    """
    state, away = desk.state, False
    for i in range(state.partition[m].first_own, state.partition[m].last_own):
        away = away or state.server[state.own[i]].closed > 0
    for at in range(desk.game[0].num_waiting if away else 0):
        row = desk.waiting[at]
        gang = desk.job[row.job].gang
        if waits_in(desk, at, m) and most_workers(desk, row.job, m, False) < gang:
            row.last = most_workers(desk, row.job, m, True) >= gang


@kernel
def look_at_window(desk: Desk, m: int) -> None:
    """What the features that look ahead need to know of the window of partition `m`."""
    forget_gangs(desk.ahead)
    for i in range(desk.game[0].num_window):
        list_gang(desk.ahead, desk.job[desk.waiting[desk.window[i]].job].gang, m)
    if len(desk.partition) > 1:
        _measure_starts(desk)


@kernel
def _measure_starts(desk: Desk) -> None:
    """Fill `start_in_s` for the jobs of the window.

    In every partition the shortest jobs that wait there, as many as a window has, are thought to
    start in order of their length, each as soon as it has a compact place.
    """
    _sort_window(desk)
    for target in range(len(desk.partition)):
        _measure_line(desk, target)
        done = 0
        for i in range(desk.game[0].num_window):
            at = desk.window[desk.by_key[i]]
            while done < desk.line_count[target] and _is_before(desk, desk.line[target, done], at):
                job = desk.waiting[desk.line[target, done]].job
                line_up(desk.ahead, desk.job[job].gang, left_s(desk, job), target)
                done += 1
            gang = desk.job[desk.waiting[at].job].gang
            in_s = compact_in_s(desk.ahead, desk.ahead.after_s, gang, target)
            desk.start_in_s[target, desk.by_key[i]] = in_s
        if done > 0:
            sort_release(desk.ahead, target)


@kernel
def _sort_window(desk: Desk) -> None:
    """Let `by_key` be the places of the window by key; in the window old jobs come first."""
    for i in range(desk.game[0].num_window):
        at = i
        while at > 0 and _is_before(desk, desk.window[i], desk.window[desk.by_key[at - 1]]):
            desk.by_key[at] = desk.by_key[at - 1]
            at -= 1
        desk.by_key[at] = i


@kernel
def _measure_line(desk: Desk, m: int) -> None:
    """Fill `line` of partition `m` with its first waiting rows by key."""
    most, count = desk.line.shape[1], 0
    for at in range(desk.game[0].num_waiting):
        if not waits_in(desk, at, m):
            continue
        place = count
        if count == most:
            if not _is_before(desk, at, desk.line[m, most - 1]):
                continue
            place -= 1
        else:
            count += 1
        while place > 0 and _is_before(desk, at, desk.line[m, place - 1]):
            desk.line[m, place] = desk.line[m, place - 1]
            place -= 1
        desk.line[m, place] = at
    desk.line_count[m] = count
