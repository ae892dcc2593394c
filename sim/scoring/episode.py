"""A whole run without a log: what tuning plays thousands of."""

import numpy as np

from sim.engine.looping import drive
from sim.errors import SimulationError
from sim.kernel.advance import ILLEGAL, STUCK
from sim.run import Run
from sim.scoring.linear_score import LinearScore
from sim.simulator import Simulator


def unlogged(simulator: Simulator, scheduler: LinearScore) -> Run:
    """What becomes of the jobs; no log is kept.

    Raises:
        SimulationError: jobs wait for ever, or the scheduler broke a rule.
    """
    scheduler.reset(0)
    loop = scheduler.loop(simulator.state, simulator.views(scheduler.needs))
    verdict = drive(loop, simulator.forget_log, lambda: None)
    simulator.forget_log()
    if verdict in {STUCK, ILLEGAL}:
        fault = "jobs wait for ever" if verdict == STUCK else "an order was refused"
        raise SimulationError(f"{scheduler.name}: {fault} at t={simulator.now_s:.1f} s")
    return simulator.outcome(scheduler.name, loop.decisions, np.nan, np.nan)
