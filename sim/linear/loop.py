"""The linear score in one compiled loop."""

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.jit import kernel
from sim.kernel.advance import DECIDE, FULL, ILLEGAL, PAUSE, advance_until_decision
from sim.kernel.apply import LEGAL, apply_decision
from sim.kernel.layout import State
from sim.kernel.log import log_half_full
from sim.linear.deciding import decide_all
from sim.linear.desk import Desk
from sim.linear.seeing import see_state
from sim.looping import CheckedLoop

NO_INTS: IntArray = np.empty(0, dtype=np.int64)


@kernel
def _play(
    state: State, desk: Desk, none: IntArray, no_lease: FloatArray, until: int, book: IntArray
) -> int:
    """Run on; writes decisions made, and what was refused (verdict, job, what), to `book`."""
    world, game = state.world[0], desk.game[0]
    while True:
        if log_half_full(state):
            return FULL
        verdict = advance_until_decision(state)
        if verdict != DECIDE:
            return verdict
        book[0] += 1
        see_state(desk, state)
        queued = state.queue[world.queue_first : world.queue_first + world.num_queued]
        decide_all(desk, queued, state.running[: world.num_running], world.now_s)
        book[1], book[2], book[3] = apply_decision(
            state,
            none,
            desk.forward[: game.num_forwards],
            desk.start_job[: game.num_starts],
            desk.start_first[: game.num_starts + 1],
            desk.start_gpus,
            no_lease,
            np.nan if np.isinf(game.wake_s) else game.wake_s,
        )
        if book[1] != LEGAL:
            return ILLEGAL
        if book[0] >= until:
            return PAUSE


class LinearLoop(CheckedLoop):
    """Plays the linear score."""

    def __init__(self, state: State, desk: Desk) -> None:
        """For a run that begins, and the desk of its scheduler."""
        super().__init__()
        self._state, self._desk = state, desk
        self._no_lease = np.full(len(desk.start_job), np.nan)

    def play(self, until_decision: int) -> int:
        """Run on; OVER, STUCK, FULL, PAUSE or ILLEGAL."""
        return int(
            _play(self._state, self._desk, NO_INTS, self._no_lease, until_decision, self.book)
        )
