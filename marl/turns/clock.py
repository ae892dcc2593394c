"""When agents act: at every event, or at multiples of an interval only.

What happens within an interval is put off to its end, so jobs that arrive meanwhile are placed
together. An interval in which nothing happened is passed by.
"""

import numpy as np

from marl.turns.memory import Memory
from sim.jit import kernel


@kernel
def pause_s(memory: Memory, interval_s: float, now_s: float) -> float:
    """When agents act next; NaN: now. Asked again at one instant it says the same.

    That is the first multiple of the interval at or after an event; with an interval of 0 agents
    act at every event.
    """
    turn = memory.turn[0]
    if interval_s == 0.0 or now_s == turn.acting_s:
        return np.nan
    if np.isnan(turn.due_s):
        turn.due_s = np.ceil(now_s / interval_s) * interval_s
    if now_s < turn.due_s:
        return float(turn.due_s)
    turn.due_s = np.nan
    turn.acting_s = now_s
    return np.nan
