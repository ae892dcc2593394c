"""Picking jobs as a Gymnasium environment: one decision a step."""

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from marl.env.game import Game
from marl.env.legal_actions import LegalActions
from marl.topdrl.codec import GPU_COLUMNS, NEEDS, SLOT_COLUMNS, Codec, Observation
from marl.topdrl.spec import NetworkSpec, Reward, RewardSpec, SightSpec
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


MOST_SEED = 2**31 - 1
Step = tuple[Observation, float, bool, bool, dict[str, Any]]


class PickJobEnv(gym.Env[Observation, np.int64]):
    """Which waiting job starts next, on the GPUs closest to each other.

    Observation: dict of float32 arrays (`marl.topdrl.codec`). Action: a slot of the queue window,
    or hold (the last number), by `action_mask`; an illegal action raises TopDrlError. A start takes
    no time; after a hold time passes to the next event at which some job could start. Holding is
    not legal while nothing runs, so nobody starves in an empty cluster.

    Reward: see `marl.topdrl.spec`. Truncation: the last job has come (what is left
    then is the same work for everybody). Termination: all jobs are done by then. The jobs of an
    episode come from `make_jobs(seed)`; equal seeds give equal episodes.
    """

    def __init__(
        self,
        *,
        game: Game,
        sight: SightSpec,
        network: NetworkSpec,
        reward: RewardSpec,
        make_jobs: Callable[[int], JobTable],
    ) -> None:
        """`make_jobs` gets a number drawn from the environment's own stream at each reset."""
        self._game, self._spec, self._network, self._told = game, sight, network, reward
        self._make_jobs = make_jobs
        self._actions = LegalActions(sight.slots + 1)
        self.action_space = self._actions
        self.observation_space = observation_space(sight, network)
        self._run: GameRun | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """The first instant at which some job can start.

        `options={"jobs": JobTable}` plays these jobs.
        """
        super().reset(seed=seed)
        jobs = (options or {}).get("jobs")
        if jobs is None:
            jobs = self._make_jobs(int(self.np_random.integers(MOST_SEED)))
        self._run = GameRun(self._game, jobs)
        self._run.advance()
        self._codec = Codec(self._run.view, self._spec, self._network)
        self._last_s = float(jobs.submit_s[-1])
        self._reward = Reward(
            self._told,
            worth=self._codec.worth,
            gangs=jobs.num_gpus,
            gpu_s=self._game.topology.num_gpus * max(self._last_s, 1.0) / len(jobs),
        )
        self._sight = self._codec.see(self._run.view)
        if not self._sight.has_choice:
            self._wait()
        return self._observed(), {}

    def step(self, action: np.int64 | int) -> Step:
        """Start or hold; then on to the next decision."""
        assert self._run is not None, "reset first"
        alive = True
        decision = self._sight.decision(int(action))
        if decision.starts:
            place = self._sight.places[int(action)]
            assert place is not None  # the mask says so
            job = decision.starts[0].job
            left_s = float(self._run.view.jobs.predicted_remaining_s[job])
            self._reward.start(job, left_s, place.speed)
        self._run.apply(decision)
        if decision.again:
            self._sight = self._codec.see(self._run.view)
        if not decision.again or not self._sight.has_choice:
            alive = self._wait()
        over = not alive
        cut = not over and self._run.view.now_s >= self._last_s
        return self._observed(), self._reward.take(self._run.work()), over, cut, {}

    def _wait(self) -> bool:
        """Let time pass to the next choice; False at the end."""
        assert self._run is not None
        while self._advance():
            self._sight = self._codec.see(self._run.view)
            if self._sight.has_choice:
                return True
        self._sight = self._codec.see(self._run.view)
        return False

    def _advance(self) -> bool:
        assert self._run is not None
        now_s, idle = self._run.view.now_s, float(self._run.view.server_free.sum())
        somebody = len(self._run.view.queued) > 0
        alive = self._run.advance()
        if somebody:
            self._reward.idle(idle * (self._run.view.now_s - now_s))
        return alive

    def _observed(self) -> Observation:
        self._actions.legal = self._sight.observation["action_mask"].astype(np.int8)
        return self._sight.observation


def observation_space(sight: SightSpec, network: NetworkSpec) -> spaces.Dict:
    """Shapes and bounds of an observation."""

    def unit(*shape: int) -> spaces.Box:
        return spaces.Box(0.0, 1.0, shape, np.float32)

    cluster = network.racks, network.rack_servers, network.server_gpus
    return spaces.Dict(
        {
            "gpus": unit(*cluster, GPU_COLUMNS),
            "slots": unit(sight.slots, SLOT_COLUMNS),
            "backlog": spaces.Box(0.0, 10.0, (1,), np.float32),
            "action_mask": unit(sight.slots + 1),
        }
    )
