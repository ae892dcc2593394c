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
from sim.scoring.suspending import make_room, may_make_room, next_room, place_in_room
from sim.scoring.window import choose_window, look_at_window

NOTHING, WAIT = -1e300, 0.0
OUTSIDE = -1  # of the window


def link(plan: Plan, *, plays: bool) -> None:
    """Write down where scoring and starting a job stand; `plays`: whole runs, in `LinearLoop`."""
    routines = [Routine(LOOK, _look_at, tell, (plan,), 3), Routine(BEGIN, start, tell, (plan,), 2)]
    if plan.orders["suspends"][0]:  # else these need not be compiled
        routines.append(Routine(CLEAR, _look_at_victims, tell, (plan,), 2))
        routines.append(Routine(MAKE_ROOM, _suspend, tell, (plan,)))
    entry = (_play, signature_of(plan, numbers=1)) if plays else None
    write_addresses((plan.routine, routines), entry=entry)


@kernel
def decide_all(plan: Plan) -> None:
    """Decide at one instant: what is ordered has happened, but for new speeds (`close_decision`).

    A partition that is handed a job decides anew; every job is forwarded, suspended and started
    at most once a decision, so this ends.
    """
    scratch, again = plan.scratch, True
    open_decision(plan)
    while again:
        again = False
        for m in range(len(scratch.partition)):
            if scratch.partition[m].due != 0:
                again = True
                scratch.partition[m].due = 0
                while plan.orders[0].verdict == LEGAL and _act(plan, m):
                    pass
    _ask_again(plan)


@kernel
def _ask_again(plan: Plan) -> None:
    """Set `wake_s` to when the next job that still waits runs out of patience."""
    scratch, orders = plan.scratch, plan.orders[0]
    orders.wake_s = np.inf
    for at in range(scratch.scalars[0].num_waiting):
        job = scratch.waiting[at].job
        if scratch.state.job[job].status == QUEUED and not is_old(scratch, job):
            old_s = scratch.job[job].submit_s + scratch.scalars[0].patience_s
            orders.wake_s = min(orders.wake_s, old_s)


@kernel
def _act(plan: Plan, m: int) -> bool:
    """Carry out the best that partition `m` can do; False if that is to wait."""
    scratch = plan.scratch
    choose_window(scratch, m)
    if scratch.scalars[0].num_window == 0:
        return False
    for row in (BEST_START, BEST_OLD, MOVE, SUSPEND):
        plan.best[row].score = NOTHING
    weigh_partition(plan, m)
    if scratch.scalars[0].look_ahead != 0:
        look_at_window(scratch, m)
    for i in range(scratch.scalars[0].num_window):
        tell(plan.routine[LOOK], plan, i, scratch.window[i], m)
        if plan.orders[0].suspends != 0:
            tell(plan.routine[CLEAR], plan, scratch.window[i], m)
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
    if plan.scratch.partition[m].running > 0:
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
    scratch = plan.scratch
    for at in range(scratch.scalars[0].num_waiting):
        if waits_in(scratch, at, m):
            tell(plan.routine[LOOK], plan, OUTSIDE, at, m)
            if plan.best[BEST_START].score > NOTHING:
                return


@kernel
def _look_at(plan: Plan, i: int, at: int, m: int) -> None:
    """Score the placements of waiting row `at`, place `i` of the window, and its forwards."""
    scratch = plan.scratch
    job = scratch.waiting[at].job
    room = count_usable(scratch, job, m)
    if room >= BESIDE:
        weigh_job(plan, job)
    if room == ALONE:
        _try_places(plan, at, m, 0)
    if room >= BESIDE and scratch.state.tenant.shape[1] > 1:
        _try_places(plan, at, m, 1)
    if (
        i != OUTSIDE
        and scratch.waiting[at].moved == 0
        and scratch.state.job[job].forwards < scratch.scalars[0].max_forwards
    ):
        for target in range(len(scratch.partition)):
            if target != m and could_run(scratch, job, target):
                _keep(plan, MOVE, at, target, forward_score(plan, i, m, target))


@kernel
def _look_at_victims(plan: Plan, at: int, m: int) -> None:
    """Score what could be suspended for waiting row `at`, here or where it could be forwarded."""
    scratch = plan.scratch
    job, hops = scratch.waiting[at].job, scratch.scalars[0].max_forwards
    may_go = scratch.waiting[at].moved == 0 and scratch.state.job[job].forwards < hops
    weigh_newcomer(plan, job)
    scratch.here[0].shared = 0
    for target in range(len(scratch.partition)):
        if not may_make_room(scratch, job, m, target, may_go):
            continue
        i = next_room(scratch, job, target, 0)
        while i >= 0:
            score = suspend_score(plan, job, m, target)
            _keep(plan, SUSPEND, at, scratch.here[0].server, score)
            i = next_room(scratch, job, target, i + 1)


@kernel
def _suspend(plan: Plan) -> None:
    """Do what plan.best[SUSPEND] stands for: victims go, the job comes, from elsewhere if so."""
    scratch, best = plan.scratch, plan.best[SUSPEND]
    job, target = scratch.waiting[best.row].job, scratch.state.server[best.server].partition
    scratch.here[0].server = best.server
    make_room(scratch, job, target)
    place_in_room(scratch, job, target)
    for k in range(scratch.scalars[0].num_victims):
        suspend(plan, scratch.victim[k])
    if scratch.state.job[job].partition != target:
        forward(plan, best.row, target)
    tell(plan.routine[BEGIN], plan, best.row, target)


@kernel
def _try_places(plan: Plan, at: int, m: int, shared: int) -> None:
    scratch = plan.scratch
    job, part, here = scratch.waiting[at].job, scratch.state.partition[m], scratch.here[0]
    old = is_old(scratch, job)
    fewest = fewest_servers(scratch, job, m) if old else 0
    for i in range(part.first_own, part.last_own):
        here.server = scratch.state.own[i]
        here.shared = shared
        if not fill_outwards(scratch, job, m):
            continue
        score = start_score(plan, job, m)
        _keep(plan, BEST_START, at, here.server, score)
        if old and shared == 0 and scratch.scalars[0].num_used <= fewest:
            _keep(plan, BEST_OLD, at, here.server, score)


@kernel
def _keep(plan: Plan, row: int, at: int, server: int, score: float) -> None:
    """Remember a candidate if it is the best of its kind so far; the first one on ties."""
    best = plan.best[row]
    if score > best.score:
        best.row = at
        best.server = server
        best.shared = plan.scratch.here[0].shared
        best.score = score


@kernel
def _start(plan: Plan, row: int, m: int) -> None:
    """Make the start that plan.best[row] stands for."""
    best = plan.best[row]
    place(plan.scratch, plan.scratch.waiting[best.row].job, m, best.server, best.shared)
    tell(plan.routine[BEGIN], plan, best.row, m)


@kernel
def _send_away(plan: Plan, m: int) -> bool:
    """Hand on a job that partition `m` could never run, to the least loaded that could."""
    scratch = plan.scratch
    for i in range(scratch.scalars[0].num_window):
        row = scratch.waiting[scratch.window[i]]
        if row.moved != 0 or scratch.state.job[row.job].forwards >= scratch.scalars[0].max_forwards:
            continue
        if most_workers(scratch, row.job, m, True) >= scratch.job[row.job].gang:
            continue
        best = -1
        for target in range(len(scratch.partition)):
            fits = target != m and could_run(scratch, row.job, target)
            if fits and (best < 0 or load_of(scratch, target) < load_of(scratch, best)):
                best = target
        if best >= 0:
            forward(plan, scratch.window[i], best)
            return True
    return False


@array_kernel
def _play(plan: Plan, until_decision: int) -> int:
    orders, state = plan.orders[0], plan.scratch.state
    while True:
        if log_half_full(state):
            return FULL
        verdict = advance_until_decision(state)
        if verdict != DECIDE:
            return verdict
        decide_all(plan)
        if orders.verdict != LEGAL:
            return ILLEGAL
        close_decision(plan)
        if plan.scratch.scalars[0].decision >= until_decision:
            return PAUSE


class LinearLoop:
    """Plays the linear score (`sim.protocols.Loop`)."""

    def __init__(self, plan: Plan) -> None:
        """For a run that begins, and the plan of its scheduler."""
        self._plan = plan

    @property
    def decisions(self) -> int:
        """Made so far."""
        return int(self._plan.scratch.scalars[0]["decision"])

    @property
    def fault(self) -> Fault:
        """Why a decision was refused."""
        orders = self._plan.orders[0]
        return int(orders["verdict"]), int(orders["job"]), int(orders["what"])

    def play(self, until_decision: int) -> int:
        """Run on; OVER, STUCK, FULL, PAUSE or ILLEGAL."""
        return int(_play(self._plan, until_decision))
