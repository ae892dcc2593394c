"""One decision of a queue scheduler for whoever asks: made on a copy of the run's state."""

from typing import Any

import numpy as np

from sim.arrays import IntArray, read_only
from sim.decision import Decision, Forward, Start
from sim.engine.asking import Asking
from sim.engine.building import asked_memory
from sim.engine.composed import Composed
from sim.engine.layout import NOBODY
from sim.kernel import log
from sim.kernel.apply import LEGAL
from sim.kernel.layout import NO_JOB, State
from sim.view import ClusterView


class Trial:
    """The orders that a scheduler would give in a run; nothing of the run changes."""

    def __init__(self, scheduler: Composed, view: ClusterView) -> None:
        """A copy of the state of which `view` is."""
        self._of = view.state
        self._state = view.state.copied(shared=State.FIXED)
        self._told = view.known_physics
        self._memory = asked_memory(scheduler, self._state, view)
        self._scheduler = scheduler
        state = self._state
        self._windows = {
            "tenants": read_only(state.gpu["tenants"]),
            "tenant": read_only(state.tenant),
            "server_free": read_only(state.rooms.usable),
            "server_cpu_free_milli": read_only(state.server["cpu_free_milli"]),
            "server_memory_free_mib": read_only(state.server["memory_free_mib"]),
            "gpu_milli": read_only(state.gpu["milli"]),
        }
        self._asking = Asking(scheduler, state, self._memory, self._windows)

    def is_of(self, view: ClusterView) -> bool:
        """Whether it can answer for this view."""
        return view.state is self._of

    def decide(self, view: ClusterView) -> Decision:
        """The scheduler's orders; what its own parts raise is raised."""
        if view.known_physics is not self._told:
            self._told = view.known_physics
            routed = self._memory.waiter["routed"]
            self._memory = asked_memory(self._scheduler, self._state, view)
            self._memory.waiter["routed"] = routed
            self._asking = Asking(self._scheduler, self._state, self._memory, self._windows)
        self._look(view)
        self._asking.decide(view)
        if self._asking.error is not None:
            raise self._asking.error
        return self._orders()

    def _look(self, view: ClusterView) -> None:
        """Have the copy show the run as it stands: all but who neither waits nor runs.

        Speeds are not worked out on it, so links, hosts and what comes next are left out.
        """
        mine, theirs = self._state, view.state
        for name in ("world", "gpu", "tenant", "server", "rooms", "partition", "rack"):
            _overwrite(getattr(mine, name), getattr(theirs, name))
        world = mine.world[0]
        for name in ("shared_links", "links_matter", "host_matters", "num_dirty", "heap_size"):
            world[name] = 0
        for name in ("num_logged", "num_logged_gpus", "num_joined"):
            world[name] = 0
        first, queued = int(world["queue_first"]), int(world["num_queued"])
        mine.queue[first : first + queued] = theirs.queue[first : first + queued]
        running = int(world["num_running"])
        mine.running[:running] = theirs.running[:running]
        live = np.concatenate([view.queued, view.running])
        _rows(mine.job)[live] = _rows(theirs.job)[live]
        mine.job["heap_at"][view.running] = NO_JOB
        mine.job["dirty"][live] = 0
        left_now = theirs.job["left_s"][view.queued] == view.now_s  # may be renewed where it was
        at = _places(theirs, np.concatenate([view.queued[left_now], view.running]))
        mine.placed[at] = theirs.placed[at]
        self._forget()

    def _forget(self) -> None:
        """What was learned of the copy before is void: it was another."""
        memory = self._memory
        memory.tried["refused"] = NOBODY
        memory.joined_at[:] = NOBODY
        memory.seen_at[:] = NOBODY
        memory.counted_at[:] = NOBODY
        memory.game["verdict"] = LEGAL

    def _orders(self) -> Decision:
        state, game = self._state, self._memory.game[0]
        rows = state.log[: int(state.world[0]["num_logged"])]
        last = np.cumsum(rows["gpus"])
        orders: dict[int, list[Any]] = {log.PREEMPT: [], log.FORWARD: [], log.START: []}
        for row, end in zip(rows, last.tolist(), strict=True):
            job, gpus = int(row["job"]), state.log_gpus[end - int(row["gpus"]) : end]
            orders[int(row["kind"])].append(_order(int(row["kind"]), job, row, gpus))
        starts = orders[log.START]
        if self._asking.refused is not None:
            starts.append(self._asking.refused)
        elif game["verdict"] != LEGAL:
            starts.append(self._illegal(int(game["job"]), int(game["what"])))
        wake_s = float(game["wake_s"])
        return Decision(
            starts=tuple(starts),
            preempts=tuple(orders[log.PREEMPT]),
            forwards=tuple(orders[log.FORWARD]),
            wake_s=wake_s if np.isfinite(wake_s) else None,
        )

    def _illegal(self, job: int, what: int) -> Start:
        """The start that was refused, for the run to refuse it in words."""
        known = 0 <= job < len(self._state.job)
        gang = int(self._state.job[job]["num_gpus"]) if known else 1
        return Start(job, np.full(gang, max(what, 0)))


def _order(kind: int, job: int, row: Any, gpus: IntArray) -> Any:
    if kind == log.PREEMPT:
        return job
    return Forward(job, int(row["partition"])) if kind == log.FORWARD else Start(job, gpus.copy())


def _places(state: State, jobs: IntArray) -> IntArray:
    """Where the GPUs of these jobs stand in `placed`."""
    first, held = state.job["first"][jobs], state.job["held"][jobs]
    begin = np.cumsum(held) - held
    at: IntArray = np.repeat(first - begin, held) + np.arange(held.sum())
    return at


def _rows(jobs: Any) -> IntArray:
    """(J, words) the same rows as plain numbers, which are copied much faster."""
    words: IntArray = jobs.view(np.int64).reshape(len(jobs), -1)
    return words


def _overwrite(mine: Any, theirs: Any) -> None:
    if isinstance(mine, tuple):
        for one, other in zip(mine, theirs, strict=True):
            _overwrite(one, other)
    elif mine.dtype.names is not None:
        _rows(mine)[:] = _rows(theirs)
    else:
        mine[:] = theirs
