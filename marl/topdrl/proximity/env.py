"""Picking GPUs for the job that came first, as a Gymnasium environment."""

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from marl.env.game import Game
from marl.env.legal_actions import LegalActions
from marl.topdrl.codec import Observation
from marl.topdrl.env import MOST_SEED, Step
from marl.topdrl.proximity.codec import NEEDS, Choosing, compactness, empty_queue_observation
from marl.topdrl.proximity.spec import ProximitySpec
from sim.decision import WAIT, Decision, Start
from sim.jobs import JobTable
from sim.simulator import Simulator
from sim.view import ClusterView

IDLE_REWARD = -1.0


class PickGpuEnv(gym.Env[Observation, np.int64]):
    """One GPU a step for the head of the queue; a whole gang starts.

    Observation: `Choosing.observation`. Action: a usable GPU, or idle (the last number), by
    `action_mask`; others raise ValueError. Reward: `compactness` where a gang starts, 0 for the
    GPUs before, -1 for idling. While the head does not fit, time passes. Termination: all jobs are
    done; truncation: the last has come.
    """

    def __init__(
        self, *, game: Game, spec: ProximitySpec, make_jobs: Callable[[int], JobTable]
    ) -> None:
        """`make_jobs` gets a number drawn from the environment's own stream at each reset."""
        self._game, self._spec, self._make_jobs = game, spec, make_jobs
        self._actions = LegalActions(spec.gpus + 1)
        self.action_space = self._actions
        self.observation_space = spaces.Dict(
            {
                "seen": spaces.Box(0.0, 1.0, (2 * spec.gpus + 2,), np.float32),
                "action_mask": spaces.Box(0.0, 1.0, (spec.gpus + 1,), np.float32),
            }
        )
        self._simulator: Simulator | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """The first job that fits; `options={"jobs": JobTable}` plays these jobs."""
        super().reset(seed=seed)
        jobs = (options or {}).get("jobs")
        if jobs is None:
            jobs = self._make_jobs(int(self.np_random.integers(MOST_SEED)))
        self._simulator = self._game.simulator(jobs)
        self._views = self._simulator.views(NEEDS)
        self._last_s = float(jobs.submit_s[-1])
        self._choosing: Choosing | None = None
        self._wait()
        return self._observed(), {}

    def step(self, action: np.int64 | int) -> Step:
        """Choose a GPU, or idle."""
        assert self._simulator is not None and self._choosing is not None, "reset first"
        chosen, alive, reward = int(action), True, 0.0
        if not self._actions.legal[chosen]:  # type: ignore[index]
            raise ValueError(f"action {chosen} is masked")
        if chosen == self._spec.gpus:
            reward = IDLE_REWARD
            self._simulator.apply(WAIT)
            alive = self._wait()
        else:
            self._choosing.choose(chosen)
            if self._choosing.whole:
                reward, alive = self._start()
        cut = alive and self._simulator.now_s >= self._last_s
        return self._observed(), reward, not alive, cut, {}

    def _start(self) -> tuple[float, bool]:
        """Start the gang; its reward, and whether somebody is left."""
        assert self._simulator is not None and self._choosing is not None
        gpus = np.array(self._choosing.chosen, dtype=np.int64)
        self._simulator.apply(Decision(starts=(Start(self._choosing.job, gpus),), again=True))
        self._choosing = _head(self._views.view(), self._spec)
        alive = self._choosing is not None or self._wait()
        return compactness(gpus, self._game.topology, self._spec), alive

    def _wait(self) -> bool:
        """Let time pass until the head of the queue fits; False at the end."""
        assert self._simulator is not None
        while self._simulator.advance():
            self._choosing = _head(self._views.view(), self._spec)
            if self._choosing is not None:
                return True
            self._simulator.apply(WAIT)
        return False

    def _observed(self) -> Observation:
        if self._choosing is None:
            seen = empty_queue_observation(self._spec)
        else:
            seen = self._choosing.observation()
        self._actions.legal = seen["action_mask"].astype(np.int8)
        return seen


def _head(view: ClusterView, spec: ProximitySpec) -> Choosing | None:
    """The first waiting job, if it fits."""
    if len(view.queued) == 0:
        return None
    choosing = Choosing(view, spec)
    return choosing if choosing.fits else None
