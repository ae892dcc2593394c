"""The epoch's rules, compiled: whose turn it is, what it sees, what its action does, and on.

One agent acts at a time: it goes on until it waits, then the next does, and so on around until
all have waited since they last got a job. So it sees what the others have done in this epoch, and
two agents never send their jobs to the same empty GPUs. A job is sent once an epoch: whoever gets
jobs chooses among all of them.
"""

from dataclasses import dataclass

import numpy as np

from marl.env.actions import FORWARD, KINDS, ORDERS, START, WAIT, carry_out, decode, order
from marl.env.memory import NOBODY, Memory, gather, is_sent
from marl.env.observe import (
    SEES,
    Begun,
    Buffers,
    Limits,
    begin_turn,
    blank,
    hide_peers,
    observe_agent,
    observe_next_worker,
)
from sim.arrays import IntArray
from sim.compiling import Routine, write_addresses
from sim.handle import Handle, at_address, count, tell
from sim.jit import kernel
from sim.kernel.layout import State
from sim.kernel.records import log_half_full
from sim.kernel.step import DECIDE, FULL, ILLEGAL, PAUSE, advance_until_decision
from sim.scoring.scratch import Scratch
from sim.scoring.table import OfForward
from sim.scoring.window import begin_gang, refresh

TURN = -1  # an agent is to act; the other ends of `play_on` are OVER, STUCK, FULL and PAUSE


# In Play.routine, the last two of each kind of action that a rule allows: of SEES, of ORDERS.
SEE, NEXT_WORKER, SEE_KIND, ORDER_KIND = 0, 1, 2, 2 + len(KINDS)


@dataclass(frozen=True, eq=False)
class Play(Handle):
    """One run under the rules of the world: its state, the driver's memory, what is seen."""

    scratch: Scratch  # holds the run's state
    routine: IntArray  # (ROUTINES,) addresses (`sim.handle`) of these
    memory: Memory
    buffers: Buffers  # what the agent of this turn sees
    racks: IntArray  # (S,) of the servers in `state.own`, numbered from 0 within each partition
    numbers: IntArray  # see `marl.env.actions.Sizes.table`
    max_forwards: int
    only_placeable: bool
    sharing: bool
    alone: bool
    blind_peers: bool
    by_worker: bool
    interval_s: float
    gathers: bool  # delay and progress


@kernel
def pause_s(memory: Memory, interval_s: float, now_s: float) -> float:
    """When agents act next; NaN: now. Asked again at one instant it says the same.

    That is the first multiple of the interval at or after an event, so what happens within one is
    put off to its end, and jobs that arrive meanwhile are placed together. An interval in which
    nothing happened is passed by. With an interval of 0 agents act at every event.
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


@kernel
def open_epoch(play: Play) -> None:
    """Everybody may act."""
    memory = play.memory
    turn = memory.turn[0]
    turn.epoch += 1
    turn.agent = NOBODY
    turn.last = 0
    turn.begun = 0
    memory.waited[:] = 0
    memory.pressed[:] = 0


@kernel
def is_idle(state: State, agent: int) -> bool:
    """Whether nothing runs in the partition."""
    for at in range(state.world[0].num_running):
        if state.job[state.running[at]].partition == agent:
            return False
    return True


@kernel
def _keep_sent(play: Play) -> int:
    """Make forwards of jobs that were sent in this epoch illegal; how many of them were legal."""
    scratch, buffers, kept, width = play.scratch, play.buffers, 0, play.numbers[FORWARD, 2]
    for row in range(scratch.scalars[0].num_window):  # any may have been sent in this epoch
        if not is_sent(play.memory, scratch.waiting[scratch.window[row]].job):
            continue
        first = play.numbers[FORWARD, 0] + row * width
        for m in range(width):  # mask and row must say the same
            kept += buffers.action_mask[first + m]
            buffers.action_mask[first + m] = 0
            buffers.forwards[row, m, OfForward.LEGAL] = 0.0
    return kept


@kernel
def _keep_window(play: Play) -> None:
    """Remember the jobs of the scratch's window: they are what this turn's actions are about."""
    scratch, memory = play.scratch, play.memory
    memory.turn[0].in_window = scratch.scalars[0].num_window
    for i in range(scratch.scalars[0].num_window):
        memory.window[i] = scratch.waiting[scratch.window[i]].job


@kernel
def _limits(play: Play, agent: int) -> Limits:
    pressed = play.memory.pressed[agent] != 0 and play.scratch.partition[agent].running == 0
    return Limits(play.max_forwards, play.only_placeable != 0, play.sharing != 0,
                  pressed, play.alone != 0)  # fmt: skip


@kernel
def _see_next_worker(play: Play, agent: int) -> int:
    """Fill the buffers amid a gang that is placed worker by worker; how many actions are legal."""
    scratch, memory, turn = play.scratch, play.memory, play.memory.turn[0]
    begun = Begun(turn.begun_row, turn.begun_mode, memory.begun_gpus[: turn.begun])
    begin_gang(scratch, begun.gpus)
    return int(observe_next_worker(scratch, agent, _limits(play, agent), begun, play.buffers))


@kernel
def _see_kinds(play: Play, agent: int) -> int:
    """Fill what belongs to kinds of actions that a rule allows; how many of these are legal."""
    limits, legal = _limits(play, agent), 0
    most = 0 if limits.alone else limits.max_forwards
    for kind in range(len(play.numbers) - 1):  # kinds without a rule have no address here
        sees, first = play.routine[SEE_KIND + kind], play.numbers[kind, 0]
        if sees != 0:
            legal += count(
                sees, play.scratch, play.memory, play.buffers, agent, first, most, limits.pressed
            )
    return legal


@kernel
def _see(play: Play, agent: int, silent: bool) -> int:
    """Fill the buffers with what `agent` sees; how many actions besides *wait* are legal."""
    scratch, memory, buffers = play.scratch, play.memory, play.buffers
    turn, part = memory.turn[0], scratch.state.partition[agent]
    begin_turn(scratch, agent)
    blank(buffers)
    for i in range(part.last_own - part.first_own):  # fixed, yet `blank` clears them
        buffers.server_rack[i] = play.racks[part.first_own + i]
    for m in range(min(len(buffers.all_racks), len(scratch.partition))):  # none unless all are seen
        each = scratch.state.partition[m]
        for i in range(each.last_own - each.first_own):  # each is padded by itself
            buffers.all_racks[m, i] = play.racks[each.first_own + i]
    if turn.begun == 0 or silent:
        begin_gang(scratch, memory.begun_gpus[:0])
        legal = observe_agent(scratch, agent, _limits(play, agent), buffers)
        legal += _see_kinds(play, agent) - _keep_sent(play)
    else:
        legal = count(play.routine[NEXT_WORKER], play, agent)
    if play.blind_peers:
        hide_peers(agent, buffers)
    if not silent:
        _keep_window(play)
    return legal


@kernel
def _look(play: Play, agent: int, silent: bool) -> bool:
    """Fill the buffers for `agent`; whether it is its turn, which it is if it has a choice.

    An agent whose turn it is not, or that is `silent`, has only *wait* in its mask.
    """
    turn, mask = play.memory.turn[0], play.buffers.action_mask
    legal = count(play.routine[SEE], play, agent, silent)
    if silent or legal == 0:
        if not silent:
            play.memory.waited[agent] = 1
        mask[:] = 0
        mask[play.numbers[WAIT, 0]] = 1
        return False
    turn.agent = agent
    turn.last = agent
    for action in range(len(mask)):  # a slice assigned to another would make arrays
        play.memory.mask[action] = mask[action]
    return True


def routines(play: Play) -> list[Routine]:
    """What fills the buffers: it is compiled once, for all who look."""
    found = [Routine(SEE, _see, count, (play,), 2)]
    if play.by_worker:
        found.append(Routine(NEXT_WORKER, _see_next_worker, count, (play,), 1))
    ordered = play.scratch, play.memory
    for kind in (each for each in SEES if play.numbers[each, 0] < play.numbers[each + 1, 0]):
        found.append(Routine(SEE_KIND + kind, SEES[kind], count, (*ordered, play.buffers), 4))
        found.append(Routine(ORDER_KIND + kind, ORDERS[kind], tell, ordered, 2))
    return found


def link(play: Play) -> None:
    """Write down where what fills the buffers stands; before anybody looks."""
    write_addresses((play.routine, routines(play)))


@kernel
def _refresh(play: Play) -> None:
    refresh(play.scratch)
    # Who was started or suspended in this epoch is not suspended in it (again).
    play.scratch.scalars[0].decision = play.memory.turn[0].epoch


@kernel
def look_at(play: Play, agent: int, silent: bool) -> bool:
    """As `find_turn`, for one agent."""
    _refresh(play)
    return _look(play, agent, silent)


@kernel
def find_turn(play: Play) -> bool:
    """Whether somebody has a choice in this epoch still; the first one's observation is there."""
    memory, state = play.memory, play.scratch.state
    turn, agents = memory.turn[0], len(memory.waited)
    turn.agent = NOBODY
    # At most epochs most partitions have no job that waits, hence nothing to choose.
    memory.busy[:] = 0
    first = state.world[0].queue_first
    for at in range(first, first + state.world[0].num_queued):  # once for all partitions
        memory.busy[state.job[state.queue[at]].partition] = 1
    asked = False
    for m in range(agents):  # who has nothing to choose has no turn
        if memory.busy[m] == 0:
            memory.waited[m] = 1
        asked = asked or memory.waited[m] == 0
    if not asked:
        return False
    _refresh(play)
    last, amid = turn.last, turn.begun > 0
    for i in range(agents):  # on from the last: it acts until it waits
        agent = (last + i) % agents
        if memory.waited[agent] == 0 and not (amid and agent != last):  # noqa: SIM102  (compiled)
            if _look(play, agent, False):
                return True
    return False


@kernel
def is_legal(play: Play, agent: int, action: int) -> bool:
    """Whether `agent` may do that now; who has no turn may wait."""
    if agent != play.memory.turn[0].agent:
        return bool(action == play.numbers[WAIT, 0])
    return bool(0 <= action < len(play.memory.mask) and play.memory.mask[action] != 0)


@kernel
def choose(play: Play, action: int) -> None:
    """Let the agent of this turn take a legal action; what it orders is written down."""
    memory = play.memory
    agent = memory.turn[0].agent
    chosen = decode(play.numbers, action)
    order(play.scratch, memory, play.by_worker != 0, chosen, play.routine[ORDER_KIND + chosen.kind])
    if chosen.kind == WAIT:
        _wait(play, agent)


@kernel
def _wait(play: Play, agent: int) -> None:
    """Who waits while nothing runs in its partition is asked again, and has to start a job."""
    memory, can_start = play.memory, False
    for action in range(play.numbers[START, 0], play.numbers[START + 1, 0]):
        can_start = can_start or memory.mask[action] != 0
    if can_start and is_idle(play.scratch.state, agent):
        memory.pressed[agent] = 1
    else:
        memory.waited[agent] = 1


@kernel
def act(play: Play, action: int) -> bool:
    """Choose a legal action and carry it out; False if the simulator refuses it."""
    choose(play, action)
    return carry_out(play.scratch.state, play.memory)


@kernel
def _pass_time(play: Play) -> int:
    """Let time pass to the next epoch: DECIDE; or OVER, STUCK, FULL, PAUSE (`halt`, `stop_s`)."""
    memory = play.memory
    turn, world = memory.turn[0], play.scratch.state.world[0]
    world.wake_s = min(world.wake_s, turn.stop_s)
    verdict = advance_until_decision(play.scratch.state)
    if verdict == FULL:
        return FULL
    if play.gathers:
        gather(play.scratch.state, memory)
    if verdict != DECIDE:
        return verdict
    if world.now_s >= turn.stop_s:
        return PAUSE
    open_epoch(play)
    until_s = pause_s(memory, play.interval_s, world.now_s)
    if np.isnan(until_s):
        turn.is_open = 1
        return DECIDE
    world.wake_s = until_s  # nobody acts now; an epoch is due then whatever happens
    turn.decisions += 1
    return PAUSE if turn.decisions >= turn.halt else DECIDE


@kernel
def play_on(play: Play) -> int:
    """Let turns and time pass until somebody has a choice: TURN; or OVER, STUCK, FULL, PAUSE.

    After FULL (the log wants to be flushed) and PAUSE (`halt` decisions are over, and nobody has a
    choice; or it is `stop_s`) call it again.
    """
    turn = play.memory.turn[0]
    while not log_half_full(play.scratch.state):  # an instant must not fill the log
        if turn.is_open != 0:
            turn.decisions += 1
            if find_turn(play):
                return TURN
            turn.is_open = 0
            if turn.decisions >= turn.halt:
                return PAUSE
        verdict = _pass_time(play)
        if verdict != DECIDE:
            return verdict
    return FULL


@kernel
def play_all_on(addresses: IntArray, like: Play, actions: IntArray, verdicts: IntArray) -> None:
    """Act in N runs, and play each on to its next turn.

    Args:
        addresses: (N,) of plays of the same type.
        like: one of them.
        actions: (N,) legal ones of the agents whose turns it is; below 0: none.
        verdicts: (N,) filled with TURN, OVER, STUCK, FULL, or ILLEGAL if an action was refused.
    """
    for i in range(len(addresses)):
        play = at_address(addresses[i], like)
        if actions[i] >= 0 and not act(play, actions[i]):
            verdicts[i] = ILLEGAL
        else:
            verdicts[i] = play_on(play)
