"""One run under way: its views, and the work that is done."""

import numpy as np

from marl.env.game import Game
from marl.topdrl.codec import NEEDS
from sim.arrays import FloatArray
from sim.decision import Decision
from sim.jobs import JobTable
from sim.kernel.layout import RUNNING
from sim.view import ClusterView


class GameRun:
    """Mutable; an environment makes one at each reset."""

    def __init__(self, game: Game, jobs: JobTable) -> None:
        """At time 0, before the first arrival."""
        self._simulator = game.simulator(jobs)
        self._views = self._simulator.views(NEEDS)
        self.view: ClusterView = self._views.view()

    def advance(self) -> bool:
        """Let time pass to the next decision epoch; False at the end."""
        alive = self._simulator.advance()
        self.view = self._views.view()
        return alive

    def apply(self, decision: Decision) -> None:
        """One decision."""
        self._simulator.apply(decision)
        self.view = self._views.view()

    def work(self) -> FloatArray:
        """(J,) work done so far, in seconds at speed 1."""
        row = self._simulator.state.job
        running = row["status"] == RUNNING
        done_s: FloatArray = np.where(running, row["seen_progress_s"], row["progress_s"])
        return done_s
