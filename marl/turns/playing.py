"""The epoch's rules, compiled: whose turn it is, what it sees, what its action does, and on.

One agent acts at a time: it goes on until it waits, then the next does, and so on around until
all have waited since they last got a job. So it sees what the others have done in this epoch, and
two agents never send their jobs to the same empty GPUs (docs/marl.md says what acting all at once
cost). A job is sent once an epoch: whoever gets jobs chooses among all of them.
"""

from dataclasses import dataclass

import numpy as np

from marl.codec.blind import hide_peers
from marl.codec.fit import awaits_servers
from marl.codec.observe import Begun, Canvas, Limits, observe_agent, observe_next_worker
from marl.codec.rows import all_left_s
from marl.codec.summary import Summary, summarise
from marl.codec.tables import Tables
from marl.turns.actions import FORWARD, START, WAIT, carry_out, decode, order
from marl.turns.gathering import gather
from marl.turns.memory import NOBODY, Memory
from sim.arrays import IntArray
from sim.handle import Handle, at_address
from sim.jit import array_kernel, kernel
from sim.kernel.advance import DECIDE, FULL, ILLEGAL, advance_until_decision
from sim.kernel.layout import State
from sim.kernel.log import log_half_full

OLD_SHARE = 4  # at most 1 / OLD_SHARE of a window is for jobs out of patience, if more wait
TURN = -1  # an agent is to act; the other ends of `play_on` are OVER, STUCK and FULL


@dataclass(frozen=True, eq=False)
class Play(Handle):
    """One run under the rules of the game: its state, the driver's memory, a canvas."""

    tables: Tables
    memory: Memory
    canvas: Canvas  # what the agent of this turn sees
    servers: IntArray  # (S,) partition by partition
    first: IntArray  # (M + 1,) where a partition's servers begin in that
    numbers: IntArray  # see `marl.turns.actions.Sizes.table`
    max_forwards: int
    only_placeable: bool
    sharing: bool
    patience_s: float
    alone: bool
    blind_peers: bool
    by_worker: bool
    interval_s: float
    gathers: bool  # delay and progress


@array_kernel
def own_servers(play: Play, agent: int) -> IntArray:
    """(s,) servers of a partition, ascending."""
    return play.servers[play.first[agent] : play.first[agent + 1]]


@array_kernel
def waiting(state: State) -> IntArray:
    """(q,) jobs that wait, ascending."""
    world = state.world[0]
    return state.queue[world.queue_first : world.queue_first + world.num_queued]


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


@array_kernel
def fill_window(play: Play, agent: int, now_s: float, out: IntArray) -> int:
    """The oldest few of the jobs that are out of patience, then the shortest predictions.

    Jobs that only servers now away can hold come last. Fills out (W,).

    Returns:
        How many jobs that are.
    """
    tables, state = play.tables, play.tables.state
    queued = waiting(state)
    mine = np.empty(len(queued), dtype=np.int64)
    count, done = 0, 0
    for job in queued:
        if state.job[job].partition == agent:
            mine[count] = job
            count += 1
    mine = mine[:count]
    if count > len(out):
        for job in mine:  # ascending, so the oldest come first
            old = now_s - tables.submit_s[job] >= play.patience_s
            if old and done < len(out) // OLD_SHARE:
                out[done] = job
                done += 1
    first = done
    for at in _in_order(play, agent, mine):
        taken = False
        for i in range(first):
            taken = taken or out[i] == mine[at]
        if done < len(out) and not taken:
            out[done] = mine[at]
            done += 1
    return done


@array_kernel
def _in_order(play: Play, agent: int, jobs: IntArray) -> IntArray:
    """Places in `jobs` by predicted work left; those that await servers come last."""
    servers, away = own_servers(play, agent), False
    places = np.argsort(all_left_s(play.tables, jobs), kind="mergesort")
    for server in servers:
        away = away or play.tables.state.server[server].closed > 0
    if not away:
        return places
    awaits = awaits_servers(play.tables, servers, jobs)
    return places[np.argsort(awaits[places].astype(np.int64), kind="mergesort")]


@kernel
def _blank(canvas: Canvas) -> None:
    canvas.jobs[:] = 0.0
    canvas.gpus[:] = 0.0
    canvas.servers[:] = 0.0
    canvas.server_rack[:] = 0
    canvas.pairs[:] = 0.0
    canvas.peers[:] = 0.0
    canvas.forwards[:] = 0.0
    canvas.context[:] = 0.0
    canvas.action_mask[:] = 0


@kernel
def _keep_sent(play: Play, window: IntArray) -> int:
    """Make forwards of jobs that were sent in this epoch illegal; how many that were legal."""
    memory, canvas, kept = play.memory, play.canvas, 0
    width = play.numbers[FORWARD, 2]
    for row in range(len(window)):
        if memory.sent[window[row]] != memory.turn[0].epoch:
            continue
        first = play.numbers[FORWARD, 0] + row * width
        for m in range(width):
            kept += canvas.action_mask[first + m]
            canvas.action_mask[first + m] = 0
            canvas.forwards[row, m, 0] = 0.0
    return kept


@array_kernel
def _see(play: Play, summary: Summary, agent: int, silent: bool) -> int:
    """Fill the canvas with what `agent` sees; how many actions besides *wait* are legal."""
    tables, memory, canvas = play.tables, play.memory, play.canvas
    state, turn = tables.state, memory.turn[0]
    now_s = state.world[0].now_s
    servers = own_servers(play, agent)
    room = memory.aside if silent else memory.window
    count = fill_window(play, agent, now_s, room)
    window = room[:count]
    pressed = memory.pressed[agent] != 0 and is_idle(state, agent)
    limits = Limits(now_s, play.max_forwards, play.only_placeable != 0, play.sharing != 0,
                    play.patience_s, pressed, play.alone != 0)  # fmt: skip
    _blank(canvas)
    if turn.begun == 0 or silent:
        legal = observe_agent(
            tables, summary, agent, servers, window, waiting(state), limits, canvas
        )
        legal -= _keep_sent(play, window)
    else:
        begun = Begun(turn.begun_row, turn.begun_mode, memory.begun_gpus[: turn.begun])
        legal = observe_next_worker(tables, summary, agent, servers, window, limits, begun, canvas)
    if play.blind_peers:
        hide_peers(agent, canvas)
    if not silent:
        turn.in_window = count
    return legal


@array_kernel
def _look(play: Play, summary: Summary, agent: int, silent: bool) -> bool:
    """Fill the canvas for `agent`; whether it is its turn, which it is if it has a choice.

    An agent whose turn it is not, or that is `silent`, has only *wait* in its mask.
    """
    turn, mask = play.memory.turn[0], play.canvas.action_mask
    legal = _see(play, summary, agent, silent)
    if silent or legal == 0:
        if not silent:
            play.memory.waited[agent] = 1
        mask[:] = 0
        mask[play.numbers[WAIT, 0]] = 1
        return False
    turn.agent = agent
    turn.last = agent
    play.memory.mask[:] = mask
    return True


@array_kernel
def _summary(play: Play) -> Summary:
    state = play.tables.state
    running = state.running[: state.world[0].num_running]
    return summarise(play.tables, waiting(state), running, len(play.memory.waited))


@array_kernel
def look_at(play: Play, agent: int, silent: bool) -> bool:
    """As `find_turn`, for one agent."""
    return _look(play, _summary(play), agent, silent)


@array_kernel
def find_turn(play: Play) -> bool:
    """Whether somebody has a choice in this epoch still; the canvas is what the first one sees."""
    memory, state = play.memory, play.tables.state
    turn, count = memory.turn[0], len(memory.waited)
    turn.agent = NOBODY
    # At most epochs most partitions have no job that waits, hence nothing to choose.
    busy = np.zeros(count, dtype=np.int64)
    for job in waiting(state):
        busy[state.job[job].partition] = 1
    asked = False
    for m in range(count):
        if busy[m] == 0:
            memory.waited[m] = 1
        asked = asked or memory.waited[m] == 0
    if not asked:
        return False
    summary, last, amid = _summary(play), turn.last, turn.begun > 0
    for i in range(count):
        agent = (last + i) % count
        if memory.waited[agent] == 0 and not (amid and agent != last):  # noqa: SIM102  (compiled)
            if _look(play, summary, agent, False):
                return True
    return False


@kernel
def is_legal(play: Play, agent: int, action: int) -> bool:
    """Whether `agent` may do that now; who has no turn may wait."""
    if agent != play.memory.turn[0].agent:
        return bool(action == play.numbers[WAIT, 0])
    return bool(0 <= action < len(play.memory.mask) and play.memory.mask[action] != 0)


@array_kernel
def choose(play: Play, action: int) -> None:
    """Let the agent of this turn take a legal action; what it orders is written down."""
    memory = play.memory
    agent = memory.turn[0].agent
    chosen = decode(play.numbers, action)
    order(play.tables, memory, own_servers(play, agent), play.by_worker != 0, chosen)
    if chosen.kind == WAIT:
        _wait(play, agent)


@kernel
def _wait(play: Play, agent: int) -> None:
    """Who waits while nothing runs in its partition is asked again, and has to start a job."""
    memory, can_start = play.memory, False
    for action in range(play.numbers[START, 0], play.numbers[START + 1, 0]):
        can_start = can_start or memory.mask[action] != 0
    if can_start and is_idle(play.tables.state, agent):
        memory.pressed[agent] = 1
    else:
        memory.waited[agent] = 1


@array_kernel
def act(play: Play, action: int) -> bool:
    """Choose a legal action and carry it out; False if the simulator refuses it."""
    choose(play, action)
    return carry_out(play.tables.state, play.memory)


@array_kernel
def play_on(play: Play) -> int:
    """Let turns and time pass until somebody has a choice: TURN; or OVER, STUCK, FULL.

    After FULL (the log wants to be flushed) call it again.
    """
    state, memory = play.tables.state, play.memory
    turn, world = memory.turn[0], state.world[0]
    if log_half_full(state):
        return FULL
    while True:
        if turn.is_open != 0:
            turn.decisions += 1
            if find_turn(play):
                return TURN
            turn.is_open = 0
        verdict = advance_until_decision(state)
        if verdict == FULL:
            return FULL
        if play.gathers:
            gather(state, memory)
        if verdict != DECIDE:
            return verdict
        open_epoch(play)
        until_s = pause_s(memory, play.interval_s, world.now_s)
        if np.isnan(until_s):
            turn.is_open = 1
        else:  # nobody acts now; an epoch is due then whatever happens
            world.wake_s = until_s
            turn.decisions += 1
        if log_half_full(state):
            return FULL


@array_kernel
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
