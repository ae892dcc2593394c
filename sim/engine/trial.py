"""One decision for whoever asks for its orders: carried out on a copy of the run's state."""

from typing import Any

import numpy as np

from sim.arrays import IntArray
from sim.decision import Decision, Forward, Start
from sim.engine.asking import Asking, begin
from sim.engine.building import asked_memory
from sim.engine.layout import NOBODY
from sim.engine.rule import Composition
from sim.kernel import records
from sim.kernel.layout import NO_JOB, State
from sim.kernel.step import LEGAL
from sim.view import ClusterView, held_in, state_of

# Members of the state that are shown whole, and what of its world is not.
WHOLE = ("world", "gpu", "tenant", "server", "free_gpus", "partition", "rack")
NOT_SHOWN = (
    "shared_links", "links_matter", "host_matters", "num_dirty", "heap_size", "num_logged",
    "num_logged_gpus", "num_joined",
)  # fmt: skip


class Mirror:
    """What happens to `state` happens to nobody; what was logged there are orders."""

    def __init__(self, view: ClusterView) -> None:
        """A copy of the state of which `view` is."""
        self._of = state_of(view)
        self.state: State = state_of(view).copied(shared=State.FIXED)
        self._whole = [
            pair for name in WHOLE
            for pair in _pairs(getattr(self.state, name), getattr(state_of(view), name))
        ]  # fmt: skip
        self._jobs = _rows(self.state.job), _rows(state_of(view).job)

    def is_of(self, view: ClusterView) -> bool:
        """Whether it can show what this view shows."""
        return state_of(view) is self._of

    def look(self, view: ClusterView) -> None:
        """Have the copy show the run as it stands: all but who neither waits nor runs.

        Speeds are not worked out on it, so links, hosts and what comes next are left out.
        """
        mine, theirs = self.state, state_of(view)
        for one, other in self._whole:
            one[:] = other
        world = mine.world[0]
        for name in NOT_SHOWN:
            world[name] = 0
        first, queued = int(world["queue_first"]), int(world["num_queued"])
        mine.queue[first : first + queued] = theirs.queue[first : first + queued]
        running = int(world["num_running"])
        mine.running[:running] = theirs.running[:running]
        live = np.concatenate([view.queued, view.running])
        self._jobs[0][live] = self._jobs[1][live]
        mine.job["heap_at"][view.running] = NO_JOB
        mine.job["dirty"][live] = 0
        left_now = theirs.job["left_s"][view.queued] == view.now_s  # may be renewed where it was
        at = _places(theirs, np.concatenate([view.queued[left_now], view.running]))
        mine.placed[at] = theirs.placed[at]

    def decision(self, wake_s: float, refused: Start | None) -> Decision:
        """What has been carried out since `look`.

        Args:
            wake_s: when the scheduler wants to be asked again; inf: whenever something happens.
            refused: a start that was not carried out, for the run to refuse it in words.
        """
        state = self.state
        rows = state.log[: int(state.world[0]["num_logged"])]
        last = np.cumsum(rows["gpus"])
        orders: dict[int, list[Any]] = {records.PREEMPT: [], records.FORWARD: [], records.START: []}
        for row, end in zip(rows, last.tolist(), strict=True):
            job, gpus = int(row["job"]), state.log_gpus[end - int(row["gpus"]) : end]
            orders[int(row["kind"])].append(_order(int(row["kind"]), job, row, gpus))
        if refused is not None:
            orders[records.START].append(refused)
        return Decision(
            starts=tuple(orders[records.START]), preempts=tuple(orders[records.PREEMPT]),
            forwards=tuple(orders[records.FORWARD]), wake_s=wake_s if np.isfinite(wake_s) else None,
        )  # fmt: skip


def _order(kind: int, job: int, row: Any, gpus: IntArray) -> Any:
    if kind == records.PREEMPT:
        return job
    return (
        Forward(job, int(row["partition"])) if kind == records.FORWARD else Start(job, gpus.copy())
    )


def _places(state: State, jobs: IntArray) -> IntArray:
    """Where the GPUs of these jobs stand in `placed`."""
    first, held = state.job["first"][jobs], state.job["held"][jobs]
    begin = np.cumsum(held) - held
    return np.repeat(first - begin, held) + np.arange(held.sum())


def _rows(jobs: Any) -> IntArray:
    """(J, words) the same rows as plain numbers, which are copied much faster."""
    words: IntArray = jobs.view(np.int64).reshape(len(jobs), -1)
    return words


def _pairs(mine: Any, theirs: Any) -> list[tuple[IntArray, IntArray]]:
    """The bytes of arrays and of those that they are to be like."""
    if isinstance(mine, tuple):
        each = zip(mine, theirs, strict=True)
        return [pair for one, other in each for pair in _pairs(one, other)]
    return [(mine.reshape(-1).view(np.uint8), theirs.reshape(-1).view(np.uint8))]


class Trial:
    """The orders that a scheduler would give in a run; nothing of the run changes."""

    def __init__(self, scheduler: Composition, view: ClusterView) -> None:
        """On a copy of the state of which `view` is."""
        self._mirror = Mirror(view)
        state = self._mirror.state
        self._memory = asked_memory(scheduler, state, view)
        self._shown = held_in(state)
        self._asking = Asking(scheduler, state, self._memory, self._shown)

    def is_of(self, view: ClusterView) -> bool:
        """Whether it can answer for this view."""
        return self._mirror.is_of(view)

    def decide(self, view: ClusterView) -> Decision:
        """The scheduler's orders; what its own parts raise is raised."""
        self._mirror.look(view)
        self._forget()
        begin(self._mirror.state, self._memory)
        self._asking.decide(view)
        if self._asking.error is not None:
            raise self._asking.error
        return self._mirror.decision(float(self._memory.scalars[0]["wake_s"]), self._refused())

    def _forget(self) -> None:
        """What was learned of the copy before is void: it was another."""
        memory = self._memory
        self._shown["spares"].forget()
        memory.tried["refused"] = NOBODY
        memory.joined_at[:] = NOBODY
        memory.seen_at[:] = NOBODY
        memory.counted_at[:] = NOBODY
        memory.scalars["verdict"] = LEGAL

    def _refused(self) -> Start | None:
        """The start that was refused, for the run to refuse it in words."""
        scalars = self._memory.scalars[0]
        if self._asking.refused is not None or scalars["verdict"] == LEGAL:
            return self._asking.refused
        job, jobs = int(scalars["job"]), self._mirror.state.job
        gang = int(jobs[job]["num_gpus"]) if 0 <= job < len(jobs) else 1
        return Start(job, np.full(gang, max(int(scalars["what"]), 0)))
