"""One episode under way: a simulated run, its views, and what was gathered since last asked."""

import numpy as np

from marl.env.delay import accrue_delay, nothing_known
from marl.env.game import Game
from marl.env.progress import accrue_progress
from marl.env.reward import Gathered, nothing_gathered
from sim.decision import Decision
from sim.jobs import JobTable
from sim.kernel.layout import FINISHED
from sim.signals import Signal
from sim.view import ClusterView

NEEDS = Signal.PREDICTION | Signal.PROFILE | Signal.INTERFERENCE


class Episode:
    """Mutable; an environment makes one at each reset."""

    def __init__(self, game: Game, jobs: JobTable) -> None:
        """At time 0, before the first arrival."""
        self._simulator = game.simulator(jobs)
        self._views = self._simulator.views(NEEDS)
        self._known = nothing_known(len(jobs))
        self._known_progress = np.zeros(len(jobs))
        self._gathered = nothing_gathered(game.partitions)
        self.num_jobs = len(jobs)
        self.rounds = 0
        self.view: ClusterView = self._views.view()

    @property
    def over(self) -> bool:
        """Whether all jobs are done or withdrawn."""
        return self._simulator.finished() == self.num_jobs

    def apply(self, decision: Decision) -> None:
        """One turn's decision."""
        self._simulator.apply(decision)
        self.rounds += 1
        self.view = self._views.view()

    def pause(self, until_s: float) -> None:
        """Nobody acts now; a decision epoch is due at `until_s` whatever happens."""
        self._simulator.apply(Decision(wake_s=until_s))

    def advance(self) -> bool:
        """Let time pass to the next decision epoch; False at the end."""
        alive = self._simulator.advance()
        accrue_delay(self._simulator.state, self._known, self._gathered.delay_s)
        accrue_progress(self._simulator.state, self._known_progress, self._gathered.progress)
        self.view = self._views.view()
        return alive

    def take(self) -> Gathered:
        """What was gathered in each partition since the last call."""
        taken = self._gathered
        self._gathered = nothing_gathered(len(taken.delay_s))
        return taken

    def jct_mean_s(self) -> float:
        """Mean JCT of the jobs that are done; NaN before the first."""
        rows = self._simulator.state.job
        done = rows["status"] == FINISHED
        jct_s = rows["finish_s"][done] - rows["submit_s"][done]
        return float(jct_s.mean()) if done.any() else float("nan")
