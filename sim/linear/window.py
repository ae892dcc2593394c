"""Which waiting jobs of a partition are looked at."""

from sim.jit import kernel
from sim.linear.desk import Desk

OLD_SHARE = 4  # at most a 1 / OLD_SHARE of the window is for jobs out of patience


@kernel
def _seats_in(desk: Desk, at: int) -> bool:
    found = False
    for i in range(desk.game[0].num_window):
        found = found or desk.window[i] == at
    return found


@kernel
def is_old(desk: Desk, job: int) -> bool:
    """Whether the job has waited so long that it must not be kept from a compact place."""
    return bool(desk.game[0].now_s >= desk.job[job].submit_s + desk.game[0].patience_s)


@kernel
def choose_window(desk: Desk, m: int) -> None:
    """Fill `window` with rows of `waiting`: the oldest few that are old, then by key, then row.

    The shortest prediction (or the smallest gang) alone would keep the long jobs of a long queue
    out of sight for ever.
    """
    game = desk.game[0]
    game.num_window = 0
    for at in range(game.num_waiting):  # in order of submission
        if game.num_window >= game.window // OLD_SHARE:
            break
        row = desk.waiting[at]
        if not is_old(desk, row.job):
            break
        if row.partition == m and row.started == 0:
            desk.window[game.num_window] = at
            game.num_window += 1
    old = game.num_window
    for at in range(game.num_waiting):
        row = desk.waiting[at]
        if row.partition != m or row.started != 0:
            continue
        full = game.num_window == game.window
        if full and (old == game.window or row.key >= _key(desk, game.num_window - 1)):
            continue
        if old > 0 and _seats_in(desk, at):
            continue
        _insert(desk, at, old)


@kernel
def _key(desk: Desk, place: int) -> float:
    return float(desk.waiting[desk.window[place]].key)


@kernel
def _insert(desk: Desk, at: int, first: int) -> None:
    """Put `at` behind those of the same key; who falls out of the window's end is gone."""
    game = desk.game[0]
    place = game.num_window
    if place == game.window:
        place -= 1
    else:
        game.num_window += 1
    while place > first and _key(desk, place - 1) > desk.waiting[at].key:
        desk.window[place] = desk.window[place - 1]
        place -= 1
    desk.window[place] = at
