"""The kinds of actions: their numbers, what they are called, what they order.

A new kind is one entry of `KINDS` and one function that writes down what it orders (`ORDERS`); its
rows of the observation (`marl.env.observe.SEES`), which say where it is legal; and for a network to
choose it its score, in torch and in compiled code (`marl.policy`): CONTRIBUTING.md.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from marl.env.memory import Memory
from sim.arrays import IntArray
from sim.handle import tell
from sim.jit import kernel
from sim.kernel.layout import State
from sim.kernel.step import LEGAL, apply_decision
from sim.scoring.room import place
from sim.scoring.scratch import Scratch
from sim.scoring.suspending import best_room, place_in_room
from sim.scoring.table import Column, OfSuspension
from sim.scoring.window import begin_gang

T = TypeVar("T", bound=np.generic)


@dataclass(frozen=True)
class Kind:
    """One kind of action."""

    axes: tuple[str, ...]  # what its numbers run over, see `Sizes`; the last runs fastest
    words: str  # what it does, given a place on each axis
    # Of a kind that agents have only if one of their rules, a flag, says so.
    rule: str = ""
    rows: str = ""  # its array of observations, one row an action
    columns: type[Column] = Column  # of that array

    @property
    def name(self) -> str:
        """In policy files."""
        return self.words.partition(" ")[0]


START, FORWARD, SUSPEND, WAIT = range(4)
EXCLUSIVE, SHARED = 0, 1  # modes of a start: on empty GPUs only, or one that shares
MODES = 2
TIE = 4  # decimals that tell the scores of two actions apart
KINDS = (
    Kind(("window", "servers", "modes"), "start job {} of the window from server {} in mode {}"),
    Kind(("window", "partitions"), "forward job {} of the window to partition {}"),
    Kind(
        ("window", "partitions"), "suspend others for job {} of the window in partition {}",
        "suspends", "suspensions", OfSuspension,
    ),
    Kind((), "wait"),
)  # fmt: skip
ROUTINES = 2 + 2 * len(KINDS)  # see `marl.env.playing`
MOST_AXES = max(len(kind.axes) for kind in KINDS)


@dataclass(frozen=True)
class Sizes:
    """How long the axes are: padded."""

    window: int
    servers: int
    partitions: int
    ruled: tuple[int, ...] = ()  # kinds that there are because of a rule
    modes: int = MODES

    def shape(self, kind: int) -> tuple[int, ...]:
        """Of the actions of a kind; () where there is but one, the last 0 where there are none."""
        shape = tuple(int(getattr(self, axis)) for axis in KINDS[kind].axes)
        return (*shape[:-1], 0) if KINDS[kind].rule and kind not in self.ruled else shape

    def first(self, kind: int) -> int:
        """The first action of a kind; how many actions there are for `len(KINDS)`."""
        return sum(math.prod(self.shape(earlier)) for earlier in range(kind))

    def action(self, kind: int, *at: int) -> int:
        """The action of a kind at a place on each of its axes."""
        shape = self.shape(kind)
        return self.first(kind) + (int(np.ravel_multi_index(at, shape)) if shape else 0)

    def part(self, kind: int, values: npt.NDArray[T]) -> npt.NDArray[T]:
        """Of one value an action, those of a kind: one axis each, a scalar where it has none."""
        return values[self.first(kind) : self.first(kind + 1)].reshape(self.shape(kind))

    def words(self, action: int) -> str:
        """The action in words."""
        if not 0 <= action < self.first(len(KINDS)):
            return f"there are {self.first(len(KINDS))} actions"
        kind = max(kind for kind in range(len(KINDS)) if self.first(kind) <= action)
        shape = self.shape(kind)
        at = np.unravel_index(action - self.first(kind), shape) if shape else ()
        return KINDS[kind].words.format(*at)

    def table(self) -> IntArray:
        """(K + 1, 1 + MOST_AXES) for `decode`: first action of each kind, lengths of its axes."""
        rows = np.ones((len(KINDS) + 1, 1 + MOST_AXES), dtype=np.int64)
        rows[:, 0] = [self.first(kind) for kind in range(len(KINDS) + 1)]
        for kind in range(len(KINDS)):
            shape = self.shape(kind)
            rows[kind, 1 : 1 + len(shape)] = shape
        return rows


class Chosen(NamedTuple):
    """An action, decoded."""

    kind: int
    row: int  # of the job in the window
    what: int  # own server of a start, partition of a forward or a suspension
    mode: int  # of a start


@kernel
def decode(table: IntArray, action: int) -> Chosen:
    """Kind of an action, and its place on each axis (0 on those that its kind has not)."""
    kind = 0
    while action >= table[kind + 1, 0]:
        kind += 1
    rest = action - table[kind, 0]
    mode = rest % table[kind, 3]
    rest //= table[kind, 3]
    return Chosen(kind, rest // table[kind, 2], rest % table[kind, 2], mode)


@kernel
def order(scratch: Scratch, memory: Memory, by_worker: bool, chosen: Chosen, address: int) -> None:
    """Write down what an action orders; one that waits orders nothing.

    Args:
        scratch: laid out for this turn.
        memory: changed; its window is that of the agent of the turn.
        by_worker: whether a start places one worker of its gang.
        chosen: the action.
        address: that of the function of ORDERS; 0: there is none.
    """
    turn = memory.turn[0]
    turn.preempts = 0
    turn.forwards = 0
    turn.starts = 0
    if chosen.kind == START:
        _order_start(scratch, memory, by_worker, chosen)
    elif chosen.kind == FORWARD:
        _order_forward(memory, chosen)
    elif address != 0:
        tell(address, scratch, memory, chosen.row, chosen.what)


@kernel
def _order_forward(memory: Memory, chosen: Chosen) -> None:
    """A forward; who gets the job acts again when its turn comes, also if it has waited."""
    turn, job = memory.turn[0], memory.window[chosen.row]
    memory.forward[0, 0] = job
    memory.forward[0, 1] = chosen.what
    turn.forwards = 1
    memory.waited[chosen.what] = 0
    memory.sent[job] = turn.epoch


@kernel
def _order_start(scratch: Scratch, memory: Memory, by_worker: bool, chosen: Chosen) -> None:
    """A start of the whole gang; none while workers of it are missing."""
    turn, job = memory.turn[0], memory.window[chosen.row]
    begin_gang(scratch, memory.begun_gpus[: turn.begun])
    state = scratch.state
    server = state.own[state.partition[turn.agent].first_own + chosen.what]
    place(scratch, job, turn.agent, server, chosen.mode)
    gang = scratch.job[job].gang
    if by_worker and turn.begun + 1 < gang:
        memory.begun_gpus[turn.begun] = scratch.chosen[turn.begun]
        turn.begun += 1
        turn.begun_row = chosen.row
        turn.begun_mode = chosen.mode
        return
    turn.begun = 0
    _write_start(scratch, memory, job)


@kernel
def _write_start(scratch: Scratch, memory: Memory, job: int) -> None:
    """Order the start of a job on the `chosen` GPUs."""
    gang = scratch.job[job].gang
    scratch.touched[job] = scratch.scalars[0].decision
    memory.turn[0].starts = 1
    memory.start_job[0] = job
    memory.start_first[1] = gang
    for i in range(gang):
        memory.start_gpus[i] = scratch.chosen[i]


@kernel
def order_suspension(scratch: Scratch, memory: Memory, row: int, m: int) -> None:
    """Whoever has to go goes, and the job starts there, handed over first if it is elsewhere.

    The agents of those who wait again act again.
    """
    turn, job = memory.turn[0], memory.window[row]
    begin_gang(scratch, memory.begun_gpus[:0])
    best_room(scratch, job, turn.agent, m)
    place_in_room(scratch, job, m)
    turn.preempts = scratch.scalars[0].num_victims
    for k in range(turn.preempts):  # touched, so that this epoch leaves them alone
        memory.preempt[k] = scratch.victim[k]
        scratch.touched[scratch.victim[k]] = scratch.scalars[0].decision
    memory.waited[m] = 0
    if m != turn.agent:
        _order_forward(memory, Chosen(FORWARD, row, m, 0))
    _write_start(scratch, memory, job)


# Of the kinds that have a rule, compiled where it holds alone: (scratch, memory, row, what).
ORDERS = {SUSPEND: order_suspension}


@kernel
def carry_out(state: State, memory: Memory) -> bool:
    """Apply what was ordered; False if the simulator refuses it, which `turn` then tells of."""
    turn = memory.turn[0]
    preempts, forwards, starts = turn.preempts, turn.forwards, turn.starts
    gpus = memory.start_first[starts]  # 0 of no start
    verdict, job, what = apply_decision(
        state,
        memory.preempt[:preempts],
        memory.forward[:forwards],
        memory.start_job[:starts],
        memory.start_first[: starts + 1],
        memory.start_gpus[:gpus],
        memory.no_lease[:starts],
        np.nan,
    )
    turn.verdict = verdict
    turn.refused_job = job
    turn.refused_what = what
    return bool(verdict == LEGAL)
