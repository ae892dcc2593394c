"""A queue scheduler whose belief of co-location follows the speeds that it observes."""

from dataclasses import replace

import numpy as np

from interference.online.evidence import Evidence, no_evidence, updated
from interference.online.observing import observe
from interference.online.posterior import Spread, posterior_table
from sim.arrays import FloatArray
from sim.decision import Decision
from sim.engine.composed import PartitionedScheduler, QueueScheduler
from sim.errors import GpuYardError
from sim.physics.physics import Physics
from sim.protocols import Scheduler
from sim.signals import Signal
from sim.view import ClusterView

NOISE_STREAM = 1  # of a run's seed; the scheduler inside has the seed itself


class OnlineScheduler:
    """Decides as the scheduler inside does, telling it an updated belief.

    At the first decision, and then at the first one `observe_every_s` or more after the last time,
    it reads the steps of the running jobs (`observe`), adds them to the evidence (`updated`) and
    works out the table (`posterior_table`). The scheduler inside is told the new table once some
    slow-down differs by more than `least_move` (in ln) from the one it was told.

    It is asked in Python: compiled code copies a belief once a run.
    """

    def __init__(
        self,
        *,
        scheduler: Scheduler,
        spread: Spread,
        half_life_s: float,
        observe_every_s: float,
        least_move: float,
        noise_sigma: float,
        start: Evidence | None = None,
    ) -> None:
        """Wrap `scheduler`.

        Args:
            scheduler: a queue scheduler, with partitions or without, that needs INTERFERENCE.
            spread: how wrong the belief may be, and one observation.
            half_life_s: age at which an observation counts half; inf: nothing is forgotten.
            observe_every_s: least time between two looks at the speeds.
            least_move: in ln(slow-down), above 0: what is less is not worth telling.
            noise_sigma: each step read is off by a log-normal factor of this sigma, drawn anew.
            start: evidence from before the run, its `at_s` on this run's clock; None: none.

        Raises:
            GpuYardError: the scheduler cannot be told anew, or a number is out of range.
        """
        _check_scheduler(scheduler)
        for key, value, least in (
            ("half_life_s", half_life_s, "above 0"),
            ("least_move", least_move, "above 0"),
            ("observe_every_s", observe_every_s, "0 or more"),
            ("noise_sigma", noise_sigma, "0 or more"),
        ):
            if not (value > 0 or (value == 0 and least == "0 or more")):
                raise GpuYardError(f"belief.update.{key} is {value!r}; it must be {least}")
        self.scheduler = scheduler
        self.name = f"{scheduler.name}+online"
        self.needs = scheduler.needs | Signal.PROFILE | Signal.INTERFERENCE | Signal.SPEED
        self._spread, self._half_life_s = spread, half_life_s
        self._observe_every_s, self._least_move = observe_every_s, least_move
        self._noise_sigma, self._start = noise_sigma, start
        self.reset(0)

    def reset(self, seed: int) -> None:
        """Forget all but the evidence it was made with."""
        self.scheduler.reset(seed)
        self._rng = np.random.default_rng([seed, NOISE_STREAM])
        self._evidence = self._start
        self._look_s = -np.inf
        self._told: Physics | None = None  # what the scheduler inside goes by

    @property
    def evidence(self) -> Evidence | None:
        """What was observed so far; None before the first decision of a run without a start."""
        return self._evidence

    def continued(self, start: Evidence | None) -> "OnlineScheduler":
        """The same scheduler for another run, beginning with `start`."""
        return OnlineScheduler(
            scheduler=self.scheduler,
            spread=self._spread,
            half_life_s=self._half_life_s,
            observe_every_s=self._observe_every_s,
            least_move=self._least_move,
            noise_sigma=self._noise_sigma,
            start=start,
        )

    def decide(self, view: ClusterView) -> Decision:
        """The orders of the scheduler inside, under the belief of now."""
        told = view.belief if self._told is None else self._told
        if view.now_s >= self._look_s:
            self._look_s = view.now_s + self._observe_every_s
            told = self._told = self._after_a_look(view, told)
        return self.scheduler.decide(replace(view, known_physics=told))

    def _after_a_look(self, view: ClusterView, told: Physics) -> Physics:
        """What to tell once the running jobs were observed: `told` itself if little changes."""
        prior = view.belief.pairs
        before = self._evidence or no_evidence(*prior.slowdown.shape[:2])
        seen = observe(view, self._measured_s(view))
        self._evidence = updated(before, seen, self._half_life_s)
        table = posterior_table(prior, self._evidence, self._spread)
        moved = np.abs(np.log(table.slowdown / told.pairs.slowdown))
        return replace(told, pairs=table) if moved.max() > self._least_move else told

    def _measured_s(self, view: ClusterView) -> FloatArray:
        """(J,) steps as a monitor of this noise reads them."""
        step_s = view.jobs.step_s
        if self._noise_sigma == 0.0:
            return step_s
        running = view.running
        step_s[running] *= np.exp(self._rng.normal(0.0, self._noise_sigma, len(running)))
        return step_s


def _check_scheduler(scheduler: Scheduler) -> None:
    if not isinstance(scheduler, QueueScheduler | PartitionedScheduler):
        raise GpuYardError(
            f"scheduler {scheduler.name} reads its belief once a run; belief=online needs a queue "
            "scheduler (an order with a placer and a sharing rule)"
        )
