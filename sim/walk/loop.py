"""A queue scheduler, with partitions or without, played in one compiled loop."""

import numpy as np

from sim.arrays import IntArray
from sim.compiled.plan import SRTF, STEAL
from sim.jit import array_kernel
from sim.kernel.advance import DECIDE, FULL, ILLEGAL, PAUSE, advance_until_decision
from sim.kernel.apply import LEGAL, apply_decision
from sim.kernel.layout import State
from sim.kernel.log import log_half_full
from sim.looping import CheckedLoop, Fault
from sim.view import ViewMaker
from sim.walk.desk import Desk, desk_of
from sim.walk.laying import lay_out
from sim.walk.plan import Rule
from sim.walk.pushing import fill_pushing
from sim.walk.queueing import queue_up
from sim.walk.routing import route
from sim.walk.walking import OWN, fill_own, steal


@array_kernel
def _decide(state: State, desk: Desk, rule: Rule) -> Fault:
    """Make and apply one decision; the verdict on it."""
    lay_out(desk, state)
    queue = queue_up(desk, state, rule)
    forward = np.empty((len(queue.job), 2), dtype=np.int64)
    forwards = route(desk, state, rule, queue, forward)
    preempt = np.empty(0, dtype=np.int64)
    if rule.order == SRTF:
        starts, preempt = fill_pushing(desk, state, queue)
    else:
        starts = fill_own(desk, rule, queue)
    if rule.forwarding == STEAL:
        starts = steal(desk, rule, queue, starts)
    for i in range(starts):
        if desk.taker[i] != OWN:
            forward[forwards, 0], forward[forwards, 1] = desk.job[i], desk.taker[i]
            forwards += 1
    if starts + forwards + len(preempt) == 0:
        return LEGAL, -1, -1
    return apply_decision(
        state,
        preempt,
        forward[:forwards],
        desk.job[:starts],
        desk.first[: starts + 1],
        desk.gpus,
        np.full(starts, np.nan),
        np.nan,
    )


@array_kernel
def _play(state: State, desk: Desk, rule: Rule, until_decision: int, book: IntArray) -> int:
    """Run on; writes decisions made, and what was refused (verdict, job, what), to `book`."""
    while True:
        if log_half_full(state):
            return FULL
        verdict = advance_until_decision(state)
        if verdict != DECIDE:
            return verdict
        book[0] += 1
        book[1], book[2], book[3] = _decide(state, desk, rule)
        if book[1] != LEGAL:
            return ILLEGAL
        if book[0] >= until_decision:
            return PAUSE


class WalkLoop(CheckedLoop):
    """Plays a rule."""

    def __init__(self, *, rule: Rule, state: State, views: ViewMaker) -> None:
        """For a run that begins; `views` grants what the scheduler's `needs` name.

        Raises:
            SignalError: the rule looks at predictions, and there are none.
        """
        super().__init__()
        self._rule, self._state = rule, state
        self._desk = desk_of(views.view(), rule)

    def play(self, until_decision: int) -> int:
        """Run on; OVER, STUCK, FULL, PAUSE or ILLEGAL."""
        return int(_play(self._state, self._desk, self._rule, until_decision, self.book))
