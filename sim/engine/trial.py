"""One decision of a queue scheduler for whoever asks: made on a copy of the run's state."""

import numpy as np

from sim.decision import Decision, Start
from sim.engine.asking import Asking, begin
from sim.engine.building import asked_memory
from sim.engine.composed import Composed
from sim.engine.layout import NOBODY
from sim.engine.mirror import Mirror
from sim.kernel.apply import LEGAL
from sim.view import ClusterView, held_in


class Trial:
    """The orders that a scheduler would give in a run; nothing of the run changes."""

    def __init__(self, scheduler: Composed, view: ClusterView) -> None:
        """On a copy of the state of which `view` is."""
        self._mirror = Mirror(view)
        self._told = view.known_physics
        self._scheduler = scheduler
        state = self._mirror.state
        self._memory = asked_memory(scheduler, state, view)
        self._windows = held_in(state)
        self._asking = Asking(scheduler, state, self._memory, self._windows)

    def is_of(self, view: ClusterView) -> bool:
        """Whether it can answer for this view."""
        return self._mirror.is_of(view)

    def decide(self, view: ClusterView) -> Decision:
        """The scheduler's orders; what its own parts raise is raised."""
        if view.known_physics is not self._told:
            state, routed = self._mirror.state, self._memory.waiter["routed"]
            self._told = view.known_physics
            self._memory = asked_memory(self._scheduler, state, view)
            self._memory.waiter["routed"] = routed
            self._asking = Asking(self._scheduler, state, self._memory, self._windows)
        self._mirror.look(view)
        self._forget()
        begin(self._mirror.state, self._memory)
        self._asking.decide(view)
        if self._asking.error is not None:
            raise self._asking.error
        return self._mirror.decision(float(self._memory.game[0]["wake_s"]), self._refused())

    def _forget(self) -> None:
        """What was learned of the copy before is void: it was another."""
        memory = self._memory
        self._windows["spares"].forget()
        memory.tried["refused"] = NOBODY
        memory.joined_at[:] = NOBODY
        memory.seen_at[:] = NOBODY
        memory.counted_at[:] = NOBODY
        memory.game["verdict"] = LEGAL

    def _refused(self) -> Start | None:
        """The start that was refused, for the run to refuse it in words."""
        game = self._memory.game[0]
        if self._asking.refused is not None or game["verdict"] == LEGAL:
            return self._asking.refused
        job, jobs = int(game["job"]), self._mirror.state.job
        gang = int(jobs[job]["num_gpus"]) if 0 <= job < len(jobs) else 1
        return Start(job, np.full(gang, max(int(game["what"]), 0)))
