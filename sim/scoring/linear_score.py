"""A linear score over starts and forwards, with tuned weights."""

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np

from sim.decision import Decision, Start
from sim.engine.trial import Mirror
from sim.errors import SimulationError, check_numbers
from sim.kernel.layout import WITHDRAWN, State
from sim.kernel.step import ILLEGAL, LEGAL, STUCK
from sim.protocols import drive
from sim.run import Run
from sim.scoring.deciding import LinearLoop, decide_all, link
from sim.scoring.scores import Scoring, scoring_on
from sim.scoring.scratch import NEVER, Mind, scratch_of
from sim.scoring.weights import ScoreWeights, read_weights, score_weights_of
from sim.simulator import Simulator
from sim.view import ClusterView, Signal, ViewMaker, state_of


class LinearScore:
    """Does whatever scores most: start a job somewhere, forward one, or wait (score 0).

    No paper's rule, but the strongest heuristic that learned agents are held against: they see the
    same features and have the same actions, so what they gain beyond it is not the features'.

    Each partition looks at the `window` waiting jobs with the least predicted work left (without
    durations: the smallest gangs). A candidate is a job and a server: the gang is placed from that
    server outwards (same rack first, then the tightest server that finishes, else the roomiest),
    on empty GPUs, or also beside others where they fit. A forward is a job and another partition
    that could run it. The best of all is carried out and the rest scored anew, until waiting wins.
    Features and weights: `docs/policies/linear_score.md`.

    Waiting must starve nobody: where nothing runs the best start is made whatever it scores, a job
    older than `patience_s` with a compact place on empty GPUs is started, up to a quarter of the
    window belongs to such jobs, and a job that its partition could never run is sent away.
    """

    order_name = "linear_score"
    shares = True  # it may put a job beside others

    def __init__(
        self, *, window: int, patience_s: float, use_durations: bool, rest_share: float,
        rest_most_s: float | None = None, weights: dict[str, Any], weights_file: str | None,
    ) -> None:  # fmt: skip
        """Keep the weights.

        Args:
            window: waiting jobs that a partition looks at.
            patience_s: age from which a job must not be kept from a compact place.
            use_durations: False: nothing is read of predictions (information class none).
            rest_share: a job that has run for long is thought to have at least this share of what
                it has done before it, whatever was predicted.
            rest_most_s: at most so much is thought of it, so jobs that have run for longer do not
                go before each other for it; None: any share.
            weights: `start` and `forward`, each feature -> weight; `layers`, if there are any.
            weights_file: a YAML file of such weights, read instead; None: there is none.

        Raises:
            GpuYardError: a value is out of range, or a weight is missing.
        """
        check_numbers("scheduler", "1 or more", window=window)
        check_numbers("scheduler", "0 or more", patience_s=patience_s, rest_share=rest_share)
        check_numbers("scheduler", "null, or above 0", rest_most_s=rest_most_s)
        place = "scheduler.weights" if weights_file is None else str(weights_file)
        given: Mapping[str, Any] = weights if weights_file is None else read_weights(weights_file)
        self._weights = score_weights_of(given, place)
        self._mind = Mind(
            window=window, patience_s=patience_s, use_durations=use_durations,
            rest_share=rest_share, look_ahead=self._weights.looks_ahead(),
            rest_most_s=np.inf if rest_most_s is None else rest_most_s,
        )  # fmt: skip
        self.needs = Signal.PROFILE | Signal.INTERFERENCE
        if use_durations:
            self.needs |= Signal.PREDICTION
        self.name = self.order_name if use_durations else f"{self.order_name}_blind"
        self._scoring: Scoring | None = None
        self._mirror: Mirror | None = None  # where `decide` is asked
        self._of: State | None = None  # of the run that the scoring is for

    @property
    def weights(self) -> dict[str, dict[str, Any]]:
        """`start` and `forward`, each feature -> weight; `layers`, if there are any."""
        return self._weights.as_mapping()

    @property
    def preempts(self) -> bool:
        """Whether it has weights for suspending running jobs."""
        return self._weights.suspend is not None

    def weighing(self, weights: ScoreWeights) -> Self:
        """The same scheduler with other weights."""
        twin = copy.copy(self)
        twin._weights = weights
        twin._mind = self._mind._replace(look_ahead=weights.looks_ahead())
        twin.reset(0)
        return twin

    def reset(self, seed: int) -> None:
        """Forget the cluster of the last run; nothing is drawn."""
        del seed
        self._scoring, self._mirror, self._of = None, None, None

    def decide(self, view: ClusterView) -> Decision:
        """Starts, suspensions and forwards of all partitions, tried on a copy of the state."""
        mirror = self._mirror
        if mirror is None or not mirror.is_of(view):
            self._mirror = mirror = Mirror(view)
            copied = replace(view, _state=mirror.state)
            self._scoring, self._of = self._made(copied, plays=False), state_of(view)
        scoring = self.scoring(view)
        mirror.look(view)
        decide_all(scoring)
        moved = mirror.state.gpu["version"] != state_of(view).gpu["version"]
        # The run may come to other tenants than the copy.
        scoring.scratch.costed_at[:, moved] = NEVER
        orders, refused = scoring.orders[0], None
        if orders["verdict"] != LEGAL:
            job = int(orders["job"])
            refused = Start(job, scoring.scratch.chosen[: view.jobs.num_gpus[job]].copy())
        return mirror.decision(float(orders["wake_s"]), refused)

    def why_python(self) -> str:
        """A compiled loop always can."""
        return ""

    def loop(self, state: State, views: ViewMaker) -> LinearLoop:
        """The same decisions, a whole run at once."""
        del state  # that of the views
        self.reset(0)
        return LinearLoop(self.scoring(views.view(), plays=True))

    def scoring(self, view: ClusterView, *, plays: bool = False) -> Scoring:
        """The scoring of this run; where `decide` was asked, on its copy of the state.

        `plays`: a whole run is going to be played with it.
        """
        if self._scoring is None or self._of is not state_of(view):
            self._scoring = self._made(view, plays=plays)
            self._mirror, self._of = None, state_of(view)
        return self._scoring

    def _made(self, view: ClusterView, *, plays: bool) -> Scoring:
        scoring = scoring_on(scratch_of(view, self._mind), self._weights)
        link(scoring, plays=plays)
        return scoring


def unlogged(simulator: Simulator, scheduler: LinearScore) -> Run:
    """What becomes of the jobs; no log is kept.

    It would tell who was withdrawn: without it, these have no time of finish, so that none counts.

    Raises:
        SimulationError: jobs wait for ever, or the scheduler broke a rule.
    """
    scheduler.reset(0)
    loop = scheduler.loop(simulator.state, simulator.views(scheduler.needs))
    verdict = drive(loop, simulator.forget_log, lambda: None)
    simulator.forget_log()
    if verdict in {STUCK, ILLEGAL}:
        fault = "jobs wait for ever" if verdict == STUCK else "an order was refused"
        raise SimulationError(f"{scheduler.name}: {fault} at t={simulator.now_s:.1f} s")
    run = simulator.outcome(scheduler.name, loop.decisions, np.nan, np.nan)
    gone = simulator.state.job["status"] == WITHDRAWN
    return replace(run, finish_s=np.where(gone, np.nan, run.finish_s))
