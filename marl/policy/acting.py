"""Many turns of one instant at once, in compiled code; what was ordered is read from the log."""

import numpy as np

from marl.env.playing import Play, find_turn
from marl.env.plays import ordered
from marl.policy.network import ACT, CHOOSE, Net
from sim.arrays import IntArray
from sim.decision import Decision, Forward, Start
from sim.handle import ask, count
from sim.jit import kernel
from sim.kernel.layout import State
from sim.kernel.records import FORWARD, START, log_half_full
from sim.kernel.step import FULL, ILLEGAL, OVER

TURNS = 1000  # at once


@kernel
def take_turns(play: Play, net: Net, ends: IntArray) -> int:
    """Let agents act until none has a choice: OVER; ILLEGAL if one is refused.

    Before that FULL once the log wants to be flushed, or `ends` (N,) is full: how many events the
    log had after each turn. `turn.decisions` counts the turns.
    """
    turn, state = play.memory.turn[0], play.scratch.state
    turn.decisions = 0
    while turn.decisions < len(ends) and not log_half_full(state):  # orders are read from the log
        if not find_turn(play):
            return OVER
        if not ask(net.routine[ACT], play, count(net.routine[CHOOSE], play, net)):
            return ILLEGAL
        ends[turn.decisions] = state.world[0].num_logged
        turn.decisions += 1
    return FULL


def act_on(play: Play, net: Net, ends: IntArray) -> tuple[list[Decision], int]:
    """What agents order from here on, and the verdict of `take_turns`.

    All of it has been carried out, but for the last order after ILLEGAL. `ends` is scratch.
    """
    state = play.scratch.state
    first = int(state.world["num_logged"][0]), int(state.world["num_logged_gpus"][0])
    verdict = int(take_turns(play, net, ends))
    found = _logged(state, first, ends[: int(play.memory.turn["decisions"][0])].tolist())
    if verdict != FULL:
        found.append(Decision() if verdict == OVER else ordered(play.memory))
    return found, verdict


def _logged(state: State, first: tuple[int, int], ends: list[int]) -> list[Decision]:
    """The orders of turns that end with these events; `first`: event and GPU of the log."""
    at, at_gpu = first
    rows = state.log[at : ends[-1] if ends else at]
    kinds, jobs, partitions, held = (
        rows[name].tolist() for name in ("kind", "job", "partition", "gpus")
    )
    gpus = state.log_gpus[: at_gpu + sum(held)].copy()  # the log is going to be forgotten
    found, begin = list[Decision](), 0
    for end in ends:
        preempts, forwards, starts = list[int](), list[Forward](), list[Start]()
        for i in range(begin, end - at):
            if kinds[i] == START:
                starts.append(Start(jobs[i], gpus[at_gpu : at_gpu + held[i]]))
            elif kinds[i] == FORWARD:
                forwards.append(Forward(jobs[i], partitions[i]))
            else:
                preempts.append(jobs[i])
            at_gpu += held[i]
        found.append(Decision(tuple(starts), tuple(preempts), tuple(forwards), again=True))
        begin = end - at
    return found


def new_ends() -> IntArray:
    """Scratch of `act_on`."""
    return np.zeros(TURNS, dtype=np.int64)
