"""One decision: partition by partition, the best of all candidates until *wait* wins."""

import numpy as np

from sim.jit import kernel
from sim.kernel.apply import LEGAL
from sim.kernel.layout import QUEUED
from sim.routine import address_of, tell
from sim.scoring.acting import forward, open_decision, start, suspend
from sim.scoring.filling import fill_outwards, place
from sim.scoring.plan import (
    BEGIN,
    BEST_OLD,
    BEST_START,
    CLEAR,
    LOOK,
    MAKE_ROOM,
    MOVE,
    SUSPEND,
    Plan,
)
from sim.scoring.room import (
    ALONE,
    BESIDE,
    could_run,
    count_usable,
    fewest_servers,
    is_old,
    load_of,
    most_workers,
    waits_in,
)
from sim.scoring.scores import (
    forward_score,
    start_score,
    suspend_score,
    weigh_job,
    weigh_newcomer,
    weigh_partition,
)
from sim.scoring.suspending import make_room, may_make_room, next_room, place_in_room
from sim.scoring.window import choose_window, look_at_window

NOTHING, WAIT = -1e300, 0.0
OUTSIDE = -1  # of the window


def link(plan: Plan) -> None:
    """Write down where scoring and starting a job stand: much is under them, compiled once."""
    plan.routine[LOOK] = address_of(_look_at, tell, plan, numbers=3)
    plan.routine[BEGIN] = address_of(start, tell, plan, numbers=2)
    if plan.orders["suspends"][0]:  # else these need not be compiled
        plan.routine[CLEAR] = address_of(_look_at_victims, tell, plan, numbers=2)
        plan.routine[MAKE_ROOM] = address_of(_suspend, tell, plan, numbers=0)


@kernel
def decide_all(plan: Plan) -> None:
    """Decide at one instant: what is ordered has happened, but for new speeds (`close_decision`).

    A partition that is handed a job decides anew; every job is forwarded, suspended and started
    at most once a decision, so this ends.
    """
    desk, again = plan.desk, True
    open_decision(plan)
    while again:
        again = False
        for m in range(len(desk.partition)):
            if desk.partition[m].due != 0:
                again = True
                desk.partition[m].due = 0
                while plan.orders[0].verdict == LEGAL and _act(plan, m):
                    pass
    _ask_again(plan)


@kernel
def _ask_again(plan: Plan) -> None:
    """Set `wake_s` to when the next job that still waits runs out of patience."""
    desk, orders = plan.desk, plan.orders[0]
    orders.wake_s = np.inf
    for at in range(desk.game[0].num_waiting):
        job = desk.waiting[at].job
        if desk.state.job[job].status == QUEUED and not is_old(desk, job):
            old_s = desk.job[job].submit_s + desk.game[0].patience_s
            orders.wake_s = min(orders.wake_s, old_s)


@kernel
def _act(plan: Plan, m: int) -> bool:
    """Carry out the best that partition `m` can do; False if that is to wait."""
    desk = plan.desk
    choose_window(desk, m)
    if desk.game[0].num_window == 0:
        return False
    for row in (BEST_START, BEST_OLD, MOVE, SUSPEND):
        plan.best[row].score = NOTHING
    weigh_partition(plan, m)
    if desk.game[0].look_ahead != 0:
        look_at_window(desk, m)
    for i in range(desk.game[0].num_window):
        tell(plan.routine[LOOK], plan, i, desk.window[i], m)
        if plan.orders[0].suspends != 0:
            tell(plan.routine[CLEAR], plan, desk.window[i], m)
    best, move, room = plan.best[BEST_START], plan.best[MOVE], plan.best[SUSPEND]
    if max(best.score, move.score, room.score) <= WAIT:
        return _must(plan, m)
    if room.score > max(best.score, move.score):
        tell(plan.routine[MAKE_ROOM], plan)
    elif move.score > best.score:
        forward(plan, move.row, move.server)
    else:
        _start(plan, BEST_START, m)
    return True


@kernel
def _must(plan: Plan, m: int) -> bool:
    """What may not be kept waiting: old jobs with a compact place, and an idle partition."""
    if plan.best[BEST_OLD].score > NOTHING:
        _start(plan, BEST_OLD, m)
        return True
    if _send_away(plan, m):
        return True
    if plan.desk.partition[m].running > 0:
        return False
    if plan.best[BEST_START].score == NOTHING:
        _look_at_all(plan, m)
    if plan.best[BEST_START].score == NOTHING:
        return False
    _start(plan, BEST_START, m)
    return True


@kernel
def _look_at_all(plan: Plan, m: int) -> None:
    """The first waiting job, beyond the window, that has room."""
    desk = plan.desk
    for at in range(desk.game[0].num_waiting):
        if waits_in(desk, at, m):
            tell(plan.routine[LOOK], plan, OUTSIDE, at, m)
            if plan.best[BEST_START].score > NOTHING:
                return


@kernel
def _look_at(plan: Plan, i: int, at: int, m: int) -> None:
    """Score the placements of waiting row `at`, place `i` of the window, and its forwards."""
    desk = plan.desk
    job = desk.waiting[at].job
    room = count_usable(desk, job, m)
    if room >= BESIDE:
        weigh_job(plan, job)
    if room == ALONE:
        _try_places(plan, at, m, 0)
    if room >= BESIDE and desk.state.tenant.shape[1] > 1:
        _try_places(plan, at, m, 1)
    if (
        i != OUTSIDE
        and desk.waiting[at].moved == 0
        and desk.state.job[job].forwards < desk.game[0].max_forwards
    ):
        for target in range(len(desk.partition)):
            if target != m and could_run(desk, job, target):
                _keep(plan, MOVE, at, target, forward_score(plan, i, m, target))


@kernel
def _look_at_victims(plan: Plan, at: int, m: int) -> None:
    """Score what could be suspended for waiting row `at`, here or where it could be forwarded."""
    desk = plan.desk
    job, hops = desk.waiting[at].job, desk.game[0].max_forwards
    may_go = desk.waiting[at].moved == 0 and desk.state.job[job].forwards < hops
    weigh_newcomer(plan, job)
    desk.here[0].shared = 0
    for target in range(len(desk.partition)):
        if not may_make_room(desk, job, m, target, may_go):
            continue
        i = next_room(desk, job, target, 0)
        while i >= 0:
            score = suspend_score(plan, job, m, target)
            _keep(plan, SUSPEND, at, desk.here[0].server, score)
            i = next_room(desk, job, target, i + 1)


@kernel
def _suspend(plan: Plan) -> None:
    """Do what plan.best[SUSPEND] stands for: victims go, the job comes, from elsewhere if so."""
    desk, best = plan.desk, plan.best[SUSPEND]
    job, target = desk.waiting[best.row].job, desk.state.server[best.server].partition
    desk.here[0].server = best.server
    make_room(desk, job, target)
    place_in_room(desk, job, target)
    for k in range(desk.game[0].num_victims):
        suspend(plan, desk.victim[k])
    if desk.state.job[job].partition != target:
        forward(plan, best.row, target)
    tell(plan.routine[BEGIN], plan, best.row, target)


@kernel
def _try_places(plan: Plan, at: int, m: int, shared: int) -> None:
    desk = plan.desk
    job, part, here = desk.waiting[at].job, desk.state.partition[m], desk.here[0]
    old = is_old(desk, job)
    fewest = fewest_servers(desk, job, m) if old else 0
    for i in range(part.first_own, part.last_own):
        here.server = desk.state.own[i]
        here.shared = shared
        if not fill_outwards(desk, job, m):
            continue
        score = start_score(plan, job, m)
        _keep(plan, BEST_START, at, here.server, score)
        if old and shared == 0 and desk.game[0].num_used <= fewest:
            _keep(plan, BEST_OLD, at, here.server, score)


@kernel
def _keep(plan: Plan, row: int, at: int, server: int, score: float) -> None:
    """Remember a candidate if it is the best of its kind so far; the first one on ties."""
    best = plan.best[row]
    if score > best.score:
        best.row = at
        best.server = server
        best.shared = plan.desk.here[0].shared
        best.score = score


@kernel
def _start(plan: Plan, row: int, m: int) -> None:
    """Make the start that plan.best[row] stands for."""
    best = plan.best[row]
    place(plan.desk, plan.desk.waiting[best.row].job, m, best.server, best.shared)
    tell(plan.routine[BEGIN], plan, best.row, m)


@kernel
def _send_away(plan: Plan, m: int) -> bool:
    """Hand on a job that partition `m` could never run, to the least loaded that could."""
    desk = plan.desk
    for i in range(desk.game[0].num_window):
        row = desk.waiting[desk.window[i]]
        if row.moved != 0 or desk.state.job[row.job].forwards >= desk.game[0].max_forwards:
            continue
        if most_workers(desk, row.job, m, True) >= desk.job[row.job].gang:
            continue
        best = -1
        for target in range(len(desk.partition)):
            fits = target != m and could_run(desk, row.job, target)
            if fits and (best < 0 or load_of(desk, target) < load_of(desk, best)):
                best = target
        if best >= 0:
            forward(plan, desk.window[i], best)
            return True
    return False
