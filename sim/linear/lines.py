"""When the jobs of a window would start here and elsewhere, behind the shorter ones that wait."""

from sim.jit import kernel
from sim.linear.ahead import compact_in_s, line_up, sort_release
from sim.linear.costs import left_s
from sim.linear.desk import Desk


@kernel
def measure_starts(desk: Desk) -> None:
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
def _is_before(desk: Desk, at: int, other: int) -> bool:
    """Whether waiting row `at` comes before another: by key, then by submission."""
    mine, theirs = desk.waiting[at].key, desk.waiting[other].key
    return bool(mine < theirs or (mine == theirs and at < other))


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
        row = desk.waiting[at]
        if row.partition != m or row.started != 0:
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
