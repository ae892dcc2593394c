"""A whole run in compiled code: what tuning plays thousands of."""

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.errors import SimulationError
from sim.jit import kernel
from sim.kernel.advance import DECIDE, FULL, STUCK, advance_until_decision
from sim.kernel.apply import LEGAL, apply_decision
from sim.kernel.layout import FINISHED, State
from sim.kernel.log import log_half_full
from sim.linear.deciding import decide_all
from sim.linear.desk import Desk
from sim.linear.seeing import see_state
from sim.schedulers.linear_score import LinearScore
from sim.simulator import Simulator

ILLEGAL = -1
NO_INTS: IntArray = np.empty(0, dtype=np.int64)


@kernel
def _play(state: State, desk: Desk, none: IntArray, no_lease: FloatArray) -> int:
    """Run on; OVER, STUCK, FULL (empty the log) or ILLEGAL."""
    world, game = state.world[0], desk.game[0]
    while True:
        if log_half_full(state):
            return FULL
        verdict = advance_until_decision(state)
        if verdict != DECIDE:
            return verdict
        see_state(desk, state)
        queued = state.queue[world.queue_first : world.queue_first + world.num_queued]
        decide_all(desk, queued, state.running[: world.num_running], world.now_s)
        legal, _, _ = apply_decision(
            state,
            none,
            desk.forward[: game.num_forwards],
            desk.start_job[: game.num_starts],
            desk.start_first[: game.num_starts + 1],
            desk.start_gpus,
            no_lease,
            np.nan if np.isinf(game.wake_s) else game.wake_s,
        )
        if legal != LEGAL:
            return ILLEGAL


def played_jct_s(simulator: Simulator, scheduler: LinearScore) -> float:
    """Mean JCT of the measured jobs, as `simulate` and `sim.metrics` give it; no log is kept.

    Raises:
        SimulationError: jobs wait for ever, or the scheduler broke a rule.
    """
    state = simulator.state
    scheduler.reset(0)
    desk = scheduler.desk(simulator.views(scheduler.needs).view())
    no_lease = np.full(len(desk.start_job), np.nan)
    while (verdict := _play(state, desk, NO_INTS, no_lease)) == FULL:
        state.world["num_logged"] = 0
        state.world["num_logged_gpus"] = 0
    if verdict in {STUCK, ILLEGAL}:
        fault = "jobs wait for ever" if verdict == STUCK else "an order was refused"
        raise SimulationError(f"{scheduler.name}: {fault} at t={simulator.now_s:.1f} s")
    counted = simulator.jobs.measured & (state.job["status"] == FINISHED)
    jct_s = state.job["finish_s"][counted] - simulator.jobs.submit_s[counted]
    return float(jct_s.mean())
