"""The loop: events, then a decision wherever somebody waits, until nothing happens any more."""

import numpy as np

from sim import codes
from sim.codes import ASKED, FIXED, QUANTA, STEAL
from sim.engine.acting import close_decision, open_decision
from sim.engine.asking import Asking, begin
from sim.engine.filling import least_gang, note_timers, order_counts
from sim.engine.given import called, numbers
from sim.engine.layout import FILL, IDLE, QUANTUM, RAISED, ROUTE, SERVE, Memory
from sim.engine.preempting import rejoin
from sim.engine.queues import attained_gpu_s, follow, progress_s, put_in_order
from sim.engine.rule import Child, Composition, Filling, Ranking
from sim.errors import GpuYardError
from sim.handle import ask, count, tell
from sim.jit import array_kernel, kernel
from sim.kernel.layout import Row, State
from sim.kernel.records import log_half_full
from sim.kernel.step import DECIDE, FULL, ILLEGAL, LEGAL, PAUSE, advance_instant, observe
from sim.protocols import Fault
from sim.view import ViewMaker

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
    if rule.ages != 0:
        put_in_order(state, memory)
    for m in range(len(state.partition)):  # all before any takes: who has room at home stays there
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
        for m in range(len(state.partition)):  # in order of numbers: who comes first takes first
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
    while True:  # an instant a turn; left where Python has to act, or the run is over
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
    for m in range(len(state.partition)):  # one in which the order counts is enough to ask for it
        if order_counts(state, memory, m, False, least):
            return False
    if rule.forwarding == STEAL:
        for m in range(len(state.partition)):  # who may take from others chooses among other jobs
            if order_counts(state, memory, m, True, least):
                return False
    return True


@kernel
def _known(state: State, memory: Memory, step: Row, job: int, runs: int) -> float:
    """What a step reads of a job, as a view would show it now."""
    row = state.job[job]
    if step.code == codes.COLUMN:
        return float(memory.columns[step.a, job])
    if step.code == codes.PROGRESS:
        return progress_s(state, job) if runs != 0 else float(row.seen_progress_s)
    if step.code == codes.ATTAINED:
        return attained_gpu_s(state, job) if runs != 0 else float(row.attained_gpu_s)
    if step.code == codes.NOW:
        return float(state.world[0].now_s)
    return float(row.preemptions if step.code == codes.PREEMPTIONS else row.restarts)


@kernel
def _made(code: int, a: float, b: float) -> float:
    """What a step makes of those before it, as NumPy does."""
    if code in (codes.PLUS, codes.MINUS):
        return a + b if code == codes.PLUS else a - b
    if code in (codes.TIMES, codes.OVER):
        return a * b if code == codes.TIMES else float(np.divide(a, b))
    if code in (codes.LEAST, codes.MOST):
        return float(np.minimum(a, b) if code == codes.LEAST else np.maximum(a, b))
    if code in (codes.BELOW, codes.AT_MOST):
        return 1.0 if (a < b if code == codes.BELOW else a <= b) else 0.0
    if code == codes.FLOOR:
        return float(np.floor(a))
    return float(np.sqrt(a) if code == codes.ROOT else np.abs(a))


@kernel
def work_out(state: State, memory: Memory, job: int, runs: int) -> float:
    """The key of a job that waits, or `runs`, by `Memory.steps`; NaN is told as an error."""
    steps, value = memory.steps, 0.0
    for at in range(len(steps)):  # a step reads steps before it alone, so one pass is enough
        step = steps[at]
        if step.code >= codes.PLUS:
            step.value = _made(step.code, steps[step.a].value, steps[step.b].value)
        elif step.code != codes.NUMBER:
            step.value = _known(state, memory, step, job, runs)
        value = step.value
    if np.isnan(value):
        memory.scalars[0].verdict = RAISED
    return float(value)


class EngineLoop:
    """Plays a queue scheduler, one a partition or one for all (`sim.protocols.Loop`)."""

    def __init__(
        self, *, scheduler: Composition, state: State, memory: Memory, views: ViewMaker
    ) -> None:
        """`scheduler` is asked for keys or orders where these are its own."""
        self._child, self._state, self._memory, self._views = (
            scheduler.child, state, memory, views
        )  # fmt: skip
        self._asking = Asking(scheduler, state, memory, {})
        self._has_keys = memory.rule[0]["order"] == FIXED
        self.asks = _asked_of(self._child) if memory.rule[0]["order"] == ASKED else ""

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
            if verdict == ILLEGAL and self.fault[0] == RAISED:
                self._tell_of_nan()
            if verdict != ASK:
                return verdict
            if self._has_keys:
                write_keys(self._child, self._views, self._memory)
                self._memory.scalars["keyed"] = 1
                continue
            self._asking.decide(self._views.view())

    def _tell_of_nan(self) -> None:
        """Raise what is told of a priority that is no number, by asking for it."""
        observe(self._state)
        view = self._views.view()
        child, jobs = self._child, np.concatenate((view.running, view.queued))
        assert isinstance(child, Ranking)
        numbers(child, "priority", child.priority(view, jobs), len(jobs))


def _asked_of(child: Child) -> str:
    """The method of an own order that Python is asked for where who comes first counts."""
    if isinstance(child, Filling):
        return f"{type(child).__name__}.fill"
    return f"{type(child).__name__}.{'priority' if child.preempts else 'order'}"


def write_keys(child: Child, views: ViewMaker, memory: Memory) -> None:
    """Write down the keys of an own order, as of now.

    Raises:
        GpuYardError: they are not one number a job, or running jobs are preempted by them and they
            change, otherwise than by `sim.engine.arithmetic.as_arithmetic`.
    """
    jobs = views.view().jobs
    keys = numbers(child, "keys", child.keys(jobs), len(jobs.num_gpus))
    if child.preempts:
        later = numbers(child, "keys", child.keys(views.partly_done()), len(keys))
        for job in np.flatnonzero(keys != later)[:1]:
            raise GpuYardError(
                f"{called(child)}.keys of job row {job} is {keys[job]:g} at first and "
                f"{later[job]:g} once it has run, and running jobs are preempted by it: keys may "
                "change by sums, products, quotients, np.minimum, np.maximum, np.floor, np.sqrt "
                "and np.abs of columns; else give it priority(self, view, jobs) instead"
            )
    memory.waiter["key"] = keys
