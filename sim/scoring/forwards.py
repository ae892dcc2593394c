"""The features of a forward: a job of the window and the partition that it may be handed to."""

import numpy as np

from sim.jit import kernel
from sim.scoring.ahead import compact_in_s, effects_there, wait_difference
from sim.scoring.desk import Desk
from sim.scoring.room import left_s, placeable_now
from sim.scoring.table import OfForward


@kernel
def weigh_forward(desk: Desk, i: int, home: int, target: int) -> None:
    """Fill `forward` for place `i` of the window of partition `home`.

    All but what the rules of the agents' game, or those who wait there, say: `legal`,
    `load_difference`, `hops_left`, `work_ahead`. What looks ahead stays as it is unless
    `game.look_ahead`.
    """
    x, job = desk.forward, desk.waiting[desk.window[i]].job
    x[OfForward.PLACEABLE] = 1.0 if placeable_now(desk, job, target) else 0.0
    if desk.game[0].look_ahead == 0:
        return
    gang, starts_s, ahead = desk.job[job].gang, desk.start_in_s, desk.ahead
    here_s = compact_in_s(ahead, ahead.release_s, gang, home)
    there_s = compact_in_s(ahead, ahead.release_s, gang, target)
    x[OfForward.WAIT_DIFFERENCE] = wait_difference(here_s, there_s)
    x[OfForward.START_DIFFERENCE] = wait_difference(starts_s[home, i], starts_s[target, i])
    there = effects_there(ahead, gang, left_s(desk, job), target)
    x[OfForward.PROLONGS] = there.prolongs
    x[OfForward.FRAGMENTS] = there.fragments
    x[OfForward.PUTS_OFF] = there.puts_off


@kernel
def measure_work_ahead(desk: Desk, job: int) -> None:
    """Fill `work_ahead_h`: GPU-hours of waiting jobs that are predicted no longer than `job`."""
    mine_s = left_s(desk, job)
    desk.work_ahead_h[:] = 0.0
    for at in range(desk.game[0].num_waiting):
        row = desk.waiting[at]
        work_s = left_s(desk, row.job)
        if row.job != job and work_s <= mine_s:
            desk.work_ahead_h[row.partition] += work_s * desk.job[row.job].gang / 3600.0


@kernel
def log_work_ahead(desk: Desk, m: int) -> float:
    """ln(1 + GPU-hours a GPU) of what `measure_work_ahead` found in partition `m`."""
    return float(np.log1p(desk.work_ahead_h[m] / max(desk.partition[m].up, 1)))
