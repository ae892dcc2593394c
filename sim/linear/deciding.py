"""One decision: partition by partition, the best of all starts and forwards until *wait* wins."""

import numpy as np

from sim.arrays import IntArray
from sim.jit import kernel
from sim.linear.ahead import forget_gangs, list_gang
from sim.linear.booking import book_forward, book_start, lay_out
from sim.linear.desk import Desk
from sim.linear.features import start_score, weigh_job, weigh_partition
from sim.linear.filling import fill_outwards, seat
from sim.linear.forwarding import forward_score, load_of, may_go
from sim.linear.layout import BEST_OLD, BEST_START, HERE, MOVE
from sim.linear.lines import measure_starts
from sim.linear.room import count_usable, fewest_servers, most_workers
from sim.linear.window import choose_window, is_old

NOTHING, WAIT = -1e300, 0.0
ALONE, BESIDE = 2, 1  # answers of count_usable
OUTSIDE = -1  # of the window


@kernel
def decide_all(desk: Desk, queued: IntArray, running: IntArray, now_s: float) -> None:
    """Plan the orders of one instant: `start`, `start_gpus` and `forward` of the desk.

    A partition that is handed a job decides anew; every job is forwarded at most once a decision,
    so this ends.
    """
    desk.game[0].now_s = now_s
    lay_out(desk, queued, running)
    again = True
    while again:
        again = False
        for m in range(len(desk.partition)):
            if desk.partition[m].due != 0:
                again = True
                desk.partition[m].due = 0
                while _act(desk, m):
                    pass
    _ask_again(desk)


@kernel
def _ask_again(desk: Desk) -> None:
    """Set `wake_s` to when the next job that still waits runs out of patience."""
    game = desk.game[0]
    game.wake_s = np.inf
    for at in range(game.num_waiting):  # in order of submission
        job = desk.waiting[at].job
        if desk.waiting[at].started == 0 and not is_old(desk, job):
            game.wake_s = desk.job[job].submit_s + game.patience_s
            return


@kernel
def _act(desk: Desk, m: int) -> bool:
    """Carry out the best that partition `m` can do; False if that is to wait."""
    choose_window(desk, m)
    if desk.game[0].num_window == 0:
        return False
    for row in (BEST_START, BEST_OLD, MOVE):
        desk.place[row].score = NOTHING
    weigh_partition(desk, m)
    if desk.game[0].look_ahead != 0:
        look_at_window(desk, m)
    for i in range(desk.game[0].num_window):
        _look_at(desk, i, desk.window[i], m)
    best, move = desk.place[BEST_START], desk.place[MOVE]
    if max(best.score, move.score) > WAIT:
        if move.score > best.score:
            book_forward(desk, move.row, move.server)
        else:
            _start(desk, BEST_START, m)
        return True
    return _must(desk, m)


@kernel
def look_at_window(desk: Desk, m: int) -> None:
    """What the features that look ahead need to know of the window of partition `m`."""
    forget_gangs(desk.ahead)
    for i in range(desk.game[0].num_window):
        list_gang(desk.ahead, desk.job[desk.waiting[desk.window[i]].job].gang, m)
    if len(desk.partition) > 1:
        measure_starts(desk)


@kernel
def _must(desk: Desk, m: int) -> bool:
    """What may not be kept waiting: old jobs with a compact place, and an idle partition."""
    if desk.place[BEST_OLD].score > NOTHING:
        _start(desk, BEST_OLD, m)
        return True
    if _send_away(desk, m):
        return True
    if desk.partition[m].running > 0:
        return False
    if desk.place[BEST_START].score == NOTHING:
        _look_at_all(desk, m)
    if desk.place[BEST_START].score == NOTHING:
        return False
    _start(desk, BEST_START, m)
    return True


@kernel
def _look_at_all(desk: Desk, m: int) -> None:
    """The first waiting job, beyond the window, that has room."""
    for at in range(desk.game[0].num_waiting):
        row = desk.waiting[at]
        if row.partition == m and row.started == 0:
            _look_at(desk, OUTSIDE, at, m)
            if desk.place[BEST_START].score > NOTHING:
                return


@kernel
def _look_at(desk: Desk, i: int, at: int, m: int) -> None:
    """Score the placements of waiting row `at`, place `i` of the window, and its forwards."""
    job = desk.waiting[at].job
    room = count_usable(desk, job, m)
    if room >= BESIDE:
        weigh_job(desk, job)
    if room == ALONE:
        _try_places(desk, at, m, 0)
    if room >= BESIDE and desk.tenant.shape[1] > 1:
        _try_places(desk, at, m, 1)
    if (
        i != OUTSIDE
        and desk.waiting[at].moved == 0
        and desk.shown.forwards[job] < desk.game[0].max_forwards
    ):
        for target in range(len(desk.partition)):
            if target != m and may_go(desk, job, target):
                _keep(desk, MOVE, at, target, forward_score(desk, i, m, target))


@kernel
def _try_places(desk: Desk, at: int, m: int, shared: int) -> None:
    job, part, here = desk.waiting[at].job, desk.partition[m], desk.place[HERE]
    old = is_old(desk, job)
    fewest = fewest_servers(desk, job, m) if old else 0
    for i in range(part.first_own, part.last_own):
        here.server = desk.own[i]
        here.shared = shared
        if not fill_outwards(desk, job, m):
            continue
        score = start_score(desk, job, m)
        _keep(desk, BEST_START, at, here.server, score)
        if old and shared == 0 and desk.game[0].num_used <= fewest:
            _keep(desk, BEST_OLD, at, here.server, score)


@kernel
def _keep(desk: Desk, row: int, at: int, server: int, score: float) -> None:
    """Remember a candidate if it is the best of its kind so far; the first one on ties."""
    best = desk.place[row]
    if score > best.score:
        best.row = at
        best.server = server
        best.shared = desk.place[HERE].shared
        best.score = score


@kernel
def _start(desk: Desk, row: int, m: int) -> None:
    """Order the start that desk.place[row] stands for."""
    best, here = desk.place[row], desk.place[HERE]
    here.server = best.server
    here.shared = best.shared
    job = desk.waiting[best.row].job
    count_usable(desk, job, m)
    fill_outwards(desk, job, m)
    seat(desk)
    book_start(desk, best.row, m)


@kernel
def _send_away(desk: Desk, m: int) -> bool:
    """Hand on a job that partition `m` could never run, to the least loaded that could."""
    for i in range(desk.game[0].num_window):
        row = desk.waiting[desk.window[i]]
        if row.moved != 0 or desk.shown.forwards[row.job] >= desk.game[0].max_forwards:
            continue
        if most_workers(desk, row.job, m, True) >= desk.job[row.job].gang:
            continue
        best = -1
        for target in range(len(desk.partition)):
            fits = target != m and may_go(desk, row.job, target)
            if fits and (best < 0 or load_of(desk, target) < load_of(desk, best)):
                best = target
        if best >= 0:
            book_forward(desk, desk.window[i], best)
            return True
    return False
