"""The linear score in one compiled loop."""

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.engine.looping import CheckedLoop
from sim.jit import kernel
from sim.kernel.advance import DECIDE, FULL, ILLEGAL, PAUSE, advance_until_decision
from sim.kernel.apply import LEGAL, apply_decision
from sim.kernel.layout import State
from sim.kernel.log import log_half_full
from sim.linear.deciding import decide_all
from sim.linear.plan import Plan


@kernel
def _play(state: State, plan: Plan, no_lease: FloatArray, until: int, book: IntArray) -> int:
    """Run on; writes decisions made, and what was refused (verdict, job, what), to `book`."""
    world, orders = state.world[0], plan.orders[0]
    while True:
        if log_half_full(state):
            return FULL
        verdict = advance_until_decision(state)
        if verdict != DECIDE:
            return verdict
        book[0] += 1
        queued = state.queue[world.queue_first : world.queue_first + world.num_queued]
        decide_all(plan, queued, state.running[: world.num_running], world.now_s)
        book[1], book[2], book[3] = apply_decision(
            state,
            plan.preempt[: orders.num_preempts],
            plan.forward[: orders.num_forwards],
            plan.start_job[: orders.num_starts],
            plan.start_first[: orders.num_starts + 1],
            plan.start_gpus,
            no_lease,
            np.nan if np.isinf(orders.wake_s) else orders.wake_s,
        )
        if book[1] != LEGAL:
            return ILLEGAL
        if book[0] >= until:
            return PAUSE


class LinearLoop(CheckedLoop):
    """Plays the linear score."""

    def __init__(self, state: State, plan: Plan) -> None:
        """For a run that begins, and the plan of its scheduler."""
        super().__init__()
        self._state, self._plan = state, plan
        self._no_lease = np.full(len(plan.start_job), np.nan)

    def play(self, until_decision: int) -> int:
        """Run on; OVER, STUCK, FULL, PAUSE or ILLEGAL."""
        return int(_play(self._state, self._plan, self._no_lease, until_decision, self.book))
