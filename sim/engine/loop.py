"""The loop: events, then a decision wherever somebody waits, until nothing happens any more."""

import numpy as np

from sim.arrays import FloatArray
from sim.codes import ASKED, FIXED, LWF, QUANTA, STEAL
from sim.engine.acting import close_decision, open_decision
from sim.engine.asking import Asking, begin
from sim.engine.composed import Composed, QueueScheduler, child_of
from sim.engine.filling import least_gang, note_timers, order_counts
from sim.engine.given import as_line, numbers
from sim.engine.layout import FILL, IDLE, QUANTUM, ROUTE, SERVE, Memory
from sim.engine.preempting import rejoin
from sim.engine.queues import follow
from sim.handle import ask, count, tell
from sim.jit import array_kernel, kernel
from sim.kernel.layout import State
from sim.kernel.records import log_half_full
from sim.kernel.step import DECIDE, FULL, ILLEGAL, LEGAL, PAUSE, advance_instant
from sim.protocols import Fault
from sim.view import JobColumns, Signal, ViewMaker

ASKED_FOR = 2  # `SCALARS.due` of a decision that Python is asked for
GOES_ON = -1
ASK = 6  # what `play` returns where Python has to tell keys, or to put who waits in order


@kernel
def _waits(state: State, m: int) -> bool:
    """Whether anybody waits in partition `m`."""
    world = state.world[0]
    if len(state.partition) == 1:
        return bool(world.num_queued > 0)
    waits = False
    for at in range(world.queue_first, world.queue_first + world.num_queued):
        waits = waits or state.job[state.queue[at]].partition == m
    return waits


@array_kernel
def _decide(state: State, memory: Memory) -> None:
    """Partitions serve their own queues in order, then those with room take from others."""
    rule, routine = memory.rule[0], memory.routine
    open_decision(state, memory)
    if routine[ROUTE] != 0:
        tell(routine[ROUTE], state, memory)
    for m in range(len(state.partition)):
        if (memory.num_live[m] if rule.listed == 0 else state.world[0].num_queued) == 0:
            continue
        if rule.preempts != 0 and rule.listed == 0:
            tell(routine[SERVE], state, memory, m)
            if rule.order == QUANTA and _waits(state, m):
                tell(routine[QUANTUM], state, memory, m)
        else:
            count(routine[FILL], state, memory, m, 0)
    note_timers(state, memory)
    if rule.forwarding == STEAL and state.world[0].num_queued > 0:
        for m in range(len(state.partition)):
            if count(routine[FILL], state, memory, m, 1) > 0 and rule.order == QUANTA:
                memory.scalars[0].lost_wake_s = np.inf
                tell(routine[QUANTUM], state, memory, m)


@kernel
def _next_due(state: State, memory: Memory) -> int:
    """Let an instant pass; DECIDE, ASK (Python first), GOES_ON, or why the run cannot go on."""
    scalars = memory.scalars[0]
    if scalars.due == 0 and scalars.keyed == 0:
        if log_half_full(state):
            return FULL
        verdict = advance_instant(state)
        if verdict >= 0 and verdict != DECIDE:
            return int(verdict)
        scalars.due = int(verdict == DECIDE)
    if not follow(state, memory):
        return ASK
    if scalars.due == 0:
        return GOES_ON
    if memory.rule[0].order == ASKED and not ask(memory.routine[IDLE], state, memory):
        begin(state, memory)
        scalars.due = ASKED_FOR
        return ASK
    return DECIDE


@array_kernel
def _end_decision(state: State, memory: Memory, until_decision: int) -> int:
    """End the decision that has been made; GOES_ON, PAUSE or ILLEGAL."""
    scalars = memory.scalars[0]
    rejoin(state, memory)
    close_decision(state, memory)
    scalars.due = 0
    if scalars.verdict != LEGAL:
        return ILLEGAL
    return PAUSE if scalars.decisions >= until_decision else GOES_ON


@array_kernel
def play(state: State, memory: Memory, until_decision: int) -> int:
    """Run on; OVER, STUCK, FULL (flush the log), PAUSE (so many decisions), ILLEGAL or ASK.

    A decision whose orders were asked for is ended here, so that Python calls once for each.
    """
    while True:
        verdict = DECIDE
        if memory.scalars[0].due != ASKED_FOR:
            verdict = _next_due(state, memory)
            if verdict == DECIDE:
                _decide(state, memory)
        if verdict == DECIDE:
            verdict = _end_decision(state, memory, until_decision)
        if verdict != GOES_ON:
            return verdict


@array_kernel
def order_is_idle(state: State, memory: Memory) -> bool:
    """Whether an own order would change nothing: then nobody has to be asked."""
    rule, several = memory.rule[0], len(state.partition) > 1
    if rule.judges_job != 0 or (several and memory.routine[ROUTE] != 0):
        return False
    if state.world[0].num_queued < (1 if rule.preempts != 0 else 2):
        return True  # nobody to put in an order
    least = least_gang(state)
    for m in range(len(state.partition)):
        if order_counts(state, memory, m, False, least):
            return False
    if rule.forwarding == STEAL:
        for m in range(len(state.partition)):
            if order_counts(state, memory, m, True, least):
                return False
    return True


class EngineLoop:
    """Plays a queue scheduler, one a partition or one for all (`sim.protocols.Loop`)."""

    def __init__(
        self, *, scheduler: Composed, state: State, memory: Memory, views: ViewMaker
    ) -> None:
        """`scheduler` is asked for keys or orders where these are its own."""
        self._child, self._state, self._memory, self._views = (
            child_of(scheduler), state, memory, views
        )  # fmt: skip
        self._asking = Asking(scheduler, state, memory, {})
        self._has_keys = memory.rule[0]["order"] == FIXED

    @property
    def decisions(self) -> int:
        """Made so far."""
        return int(self._memory.scalars[0]["decisions"])

    @property
    def fault(self) -> Fault:
        """Why a decision was refused: verdict, job, GPU."""
        scalars = self._memory.scalars[0]
        return int(scalars["verdict"]), int(scalars["job"]), int(scalars["what"])

    def play(self, until_decision: int) -> int:
        """Run on; OVER, STUCK, FULL, PAUSE or ILLEGAL."""
        while True:
            verdict = int(play(self._state, self._memory, until_decision))
            if verdict != ASK:
                return verdict
            if self._has_keys:
                write_keys(self._child, self._views, self._memory)
                self._memory.scalars["keyed"] = 1
                continue
            self._asking.decide(self._views.view())


def write_keys(child: QueueScheduler, views: ViewMaker, memory: Memory) -> None:
    """Write down the keys of an own order, as of now.

    Raises:
        GpuYardError: they are not one number a job, or running jobs are preempted by them and they
            change otherwise than with the work left.
    """
    shown = [views.view().jobs]
    if child.preempts:  # the second time as if neighbours had slowed them
        shown += [views.partly_done(0.5, 1), views.partly_done(0.25, 3)]
    keys = [numbers(child, "keys", child.keys(jobs), len(jobs.num_gpus)) for jobs in shown]
    waiter = memory.waiter
    waiter["key"] = keys[0]
    if child.preempts:
        guesses = memory.rule[0]["placer"] == LWF  # the same column, with estimates
        lefts = [_left_s(child.order_needs, jobs, guesses) for jobs in shown]
        waiter["base"], waiter["per_left_s"] = as_line(child, keys, lefts)
        if waiter["per_left_s"].any():
            waiter["estimate_s"] = lefts[0]


def _left_s(needs: Signal, jobs: JobColumns, guesses: bool) -> FloatArray:
    """(J,) work left as an order of these needs may see it; zeros where it sees none."""
    if Signal.PREDICTION in needs:
        return jobs.predicted_remaining_s
    if Signal.DURATION in needs and not guesses:
        return jobs.remaining_s
    return np.zeros(len(jobs.num_gpus))
