"""One decision: partition by partition, the best of all candidates until *wait* wins.

And the loop of whole runs.
"""

import numpy as np

from sim.compiling import Routine, write_addresses
from sim.handle import signature_of, tell
from sim.jit import array_kernel, kernel
from sim.kernel.layout import QUEUED
from sim.kernel.records import log_half_full
from sim.kernel.step import DECIDE, FULL, ILLEGAL, LEGAL, PAUSE, advance_until_decision
from sim.protocols import Fault
from sim.scoring.room import (
    ALONE,
    BESIDE,
    could_run,
    count_usable,
    fewest_servers,
    fill_outwards,
    is_old,
    load_of,
    most_workers,
    place,
    waits_in,
)
from sim.scoring.scores import (
    BEGIN,
    BEST_OLD,
    BEST_START,
    CLEAR,
    LOOK,
    MAKE_ROOM,
    MOVE,
    SUSPEND,
    Scoring,
    close_decision,
    forward,
    forward_score,
    open_decision,
    start,
    start_score,
    suspend,
    suspend_score,
    weigh_job,
    weigh_newcomer,
    weigh_partition,
)
from sim.scoring.suspending import make_room, may_make_room, next_room, place_in_room
from sim.scoring.window import choose_window, look_at_window

NOTHING, WAIT = -1e300, 0.0
OUTSIDE = -1  # of the window


def link(scoring: Scoring, *, plays: bool) -> None:
    """Write down where scoring and starting a job stand; `plays`: whole runs, in `LinearLoop`."""
    routines = [
        Routine(LOOK, _look_at, tell, (scoring,), 3),
        Routine(BEGIN, start, tell, (scoring,), 2),
    ]
    if scoring.orders["suspends"][0]:  # else these need not be compiled
        routines.append(Routine(CLEAR, _look_at_victims, tell, (scoring,), 2))
        routines.append(Routine(MAKE_ROOM, _suspend, tell, (scoring,)))
    entry = (_play, signature_of(scoring, numbers=1)) if plays else None
    write_addresses((scoring.routine, routines), entry=entry)


@kernel
def decide_all(scoring: Scoring) -> None:
    """Decide at one instant: what is ordered has happened, but for new speeds (`close_decision`).

    A partition that is handed a job decides anew; every job is forwarded, suspended and started
    at most once a decision, so this ends.
    """
    scratch, again = scoring.scratch, True
    open_decision(scoring)
    while again:  # a partition may have got a job after its turn
        again = False
        for m in range(len(scratch.partition)):  # ascending: each sees what those before it did
            if scratch.partition[m].due != 0:
                again = True
                scratch.partition[m].due = 0
                # one order at a time: each changes what all others are worth
                while scoring.orders[0].verdict == LEGAL and _act(scoring, m):
                    pass
    _ask_again(scoring)


@kernel
def _ask_again(scoring: Scoring) -> None:
    """Set `wake_s` to when the next job that still waits runs out of patience."""
    scratch, orders = scoring.scratch, scoring.orders[0]
    orders.wake_s = np.inf
    for at in range(scratch.scalars[0].num_waiting):
        job = scratch.waiting[at].job
        if scratch.state.job[job].status == QUEUED and not is_old(scratch, job):
            old_s = scratch.job[job].submit_s + scratch.scalars[0].patience_s
            orders.wake_s = min(orders.wake_s, old_s)


@kernel
def _act(scoring: Scoring, m: int) -> bool:
    """Carry out the best that partition `m` can do; False if that is to wait."""
    scratch = scoring.scratch
    choose_window(scratch, m)
    if scratch.scalars[0].num_window == 0:
        return False
    for row in (BEST_START, BEST_OLD, MOVE, SUSPEND):  # those of the order before are void
        scoring.best[row].score = NOTHING
    weigh_partition(scoring, m)
    if scratch.scalars[0].look_ahead != 0:
        look_at_window(scratch, m)
    for i in range(scratch.scalars[0].num_window):  # ties go to the first, mostly the shorter job
        tell(scoring.routine[LOOK], scoring, i, scratch.window[i], m)
        if scoring.orders[0].suspends != 0:
            tell(scoring.routine[CLEAR], scoring, scratch.window[i], m)
    best, move, room = scoring.best[BEST_START], scoring.best[MOVE], scoring.best[SUSPEND]
    if max(best.score, move.score, room.score) <= WAIT:
        return _must(scoring, m)
    if room.score > max(best.score, move.score):
        tell(scoring.routine[MAKE_ROOM], scoring)
    elif move.score > best.score:
        forward(scoring, move.row, move.server)
    else:
        _start(scoring, BEST_START, m)
    return True


@kernel
def _must(scoring: Scoring, m: int) -> bool:
    """What may not be kept waiting: old jobs with a compact place, and an idle partition."""
    if scoring.best[BEST_OLD].score > NOTHING:
        _start(scoring, BEST_OLD, m)
        return True
    if _send_away(scoring, m):
        return True
    if scoring.scratch.partition[m].running > 0:
        return False
    if scoring.best[BEST_START].score == NOTHING:
        _look_at_all(scoring, m)
    if scoring.best[BEST_START].score == NOTHING:
        return False
    _start(scoring, BEST_START, m)
    return True


@kernel
def _look_at_all(scoring: Scoring, m: int) -> None:
    """The first waiting job, beyond the window, that has room."""
    scratch = scoring.scratch
    for at in range(scratch.scalars[0].num_waiting):
        if waits_in(scratch, at, m):
            tell(scoring.routine[LOOK], scoring, OUTSIDE, at, m)
            if scoring.best[BEST_START].score > NOTHING:
                return


@kernel
def _look_at(scoring: Scoring, i: int, at: int, m: int) -> None:
    """Score the placements of waiting row `at`, place `i` of the window, and its forwards."""
    scratch = scoring.scratch
    job = scratch.waiting[at].job
    room = count_usable(scratch, job, m)
    if room >= BESIDE:
        weigh_job(scoring, job)
    if room == ALONE:
        _try_places(scoring, at, m, 0)
    if room >= BESIDE and scratch.state.tenant.shape[1] > 1:
        _try_places(scoring, at, m, 1)
    if (
        i != OUTSIDE
        and scratch.waiting[at].moved == 0
        and scratch.state.job[job].forwards < scratch.scalars[0].max_forwards
    ):
        for target in range(len(scratch.partition)):  # ties go to the lower partition
            if target != m and could_run(scratch, job, target):
                _keep(scoring, MOVE, at, target, forward_score(scoring, i, m, target))


@kernel
def _look_at_victims(scoring: Scoring, at: int, m: int) -> None:
    """Score what could be suspended for waiting row `at`, here or where it could be forwarded."""
    scratch = scoring.scratch
    job, hops = scratch.waiting[at].job, scratch.scalars[0].max_forwards
    may_go = scratch.waiting[at].moved == 0 and scratch.state.job[job].forwards < hops
    weigh_newcomer(scoring, job)
    scratch.here[0].shared = 0
    for target in range(len(scratch.partition)):  # ties go to the lower partition, then server
        if not may_make_room(scratch, job, m, target, may_go):
            continue
        i = next_room(scratch, job, target, 0)
        while i >= 0:  # scored at once: the scratch holds one place
            score = suspend_score(scoring, job, m, target)
            _keep(scoring, SUSPEND, at, scratch.here[0].server, score)
            i = next_room(scratch, job, target, i + 1)


@kernel
def _suspend(scoring: Scoring) -> None:
    """Do what scoring.best[SUSPEND] stands for: victims go, the job comes, from elsewhere if so."""
    scratch, best = scoring.scratch, scoring.best[SUSPEND]
    job, target = scratch.waiting[best.row].job, scratch.state.server[best.server].partition
    scratch.here[0].server = best.server
    make_room(scratch, job, target)
    place_in_room(scratch, job, target)
    for k in range(scratch.scalars[0].num_victims):  # before the start, which takes their GPUs
        suspend(scoring, scratch.victim[k])
    if scratch.state.job[job].partition != target:
        forward(scoring, best.row, target)
    tell(scoring.routine[BEGIN], scoring, best.row, target)


@kernel
def _try_places(scoring: Scoring, at: int, m: int, shared: int) -> None:
    scratch = scoring.scratch
    job, part, here = scratch.waiting[at].job, scratch.state.partition[m], scratch.here[0]
    old = is_old(scratch, job)
    fewest = fewest_servers(scratch, job, m) if old else 0
    for i in range(part.first_own, part.last_own):  # ties go to the lower server
        here.server = scratch.state.own[i]
        here.shared = shared
        if not fill_outwards(scratch, job, m):
            continue
        score = start_score(scoring, job, m)
        _keep(scoring, BEST_START, at, here.server, score)
        if old and shared == 0 and scratch.scalars[0].num_used <= fewest:
            _keep(scoring, BEST_OLD, at, here.server, score)


@kernel
def _keep(scoring: Scoring, row: int, at: int, server: int, score: float) -> None:
    """Remember a candidate if it is the best of its kind so far; the first one on ties."""
    best = scoring.best[row]
    if score > best.score:
        best.row = at
        best.server = server
        best.shared = scoring.scratch.here[0].shared
        best.score = score


@kernel
def _start(scoring: Scoring, row: int, m: int) -> None:
    """Make the start that scoring.best[row] stands for."""
    best = scoring.best[row]
    place(scoring.scratch, scoring.scratch.waiting[best.row].job, m, best.server, best.shared)
    tell(scoring.routine[BEGIN], scoring, best.row, m)


@kernel
def _send_away(scoring: Scoring, m: int) -> bool:
    """Hand on a job that partition `m` could never run, to the least loaded that could."""
    scratch = scoring.scratch
    for i in range(scratch.scalars[0].num_window):  # one at a time: then all are scored anew
        row = scratch.waiting[scratch.window[i]]
        if row.moved != 0 or scratch.state.job[row.job].forwards >= scratch.scalars[0].max_forwards:
            continue
        if most_workers(scratch, row.job, m, True) >= scratch.job[row.job].gang:
            continue
        best = -1
        for target in range(len(scratch.partition)):  # ties go to the lower partition
            fits = target != m and could_run(scratch, row.job, target)
            if fits and (best < 0 or load_of(scratch, target) < load_of(scratch, best)):
                best = target
        if best >= 0:
            forward(scoring, scratch.window[i], best)
            return True
    return False


@array_kernel
def _play(scoring: Scoring, until_decision: int) -> int:
    orders, state = scoring.orders[0], scoring.scratch.state
    while True:  # until Python is needed, or has to be told
        if log_half_full(state):
            return FULL
        verdict = advance_until_decision(state)
        if verdict != DECIDE:
            return verdict
        decide_all(scoring)
        if orders.verdict != LEGAL:
            return ILLEGAL
        close_decision(scoring)
        if scoring.scratch.scalars[0].decision >= until_decision:
            return PAUSE


class LinearLoop:
    """Plays the linear score (`sim.protocols.Loop`)."""

    def __init__(self, scoring: Scoring) -> None:
        """For a run that begins, and the scoring of its scheduler."""
        self._scoring = scoring

    @property
    def decisions(self) -> int:
        """Made so far."""
        return int(self._scoring.scratch.scalars[0]["decision"])

    @property
    def fault(self) -> Fault:
        """Why a decision was refused."""
        orders = self._scoring.orders[0]
        return int(orders["verdict"]), int(orders["job"]), int(orders["what"])

    def play(self, until_decision: int) -> int:
        """Run on; OVER, STUCK, FULL, PAUSE or ILLEGAL."""
        return int(_play(self._scoring, until_decision))
