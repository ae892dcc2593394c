"""Proximity-DRL: first come, first served; a network picks GPUs (docs/policies/topdrl.md).

Picking GPUs as a Gymnasium environment, with what it is told; the network and its policy files.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from marl.env import SPEC, write_policy
from marl.env.scheduling_env import LegalActions
from marl.env.world import World, draw_window
from marl.topdrl.codec import NEEDS, Observation, Pricing, TopDrlError, UntilFree
from marl.topdrl.env import MOST_SEED, Step
from marl.topdrl.network import FORMAT, load_weights, read_sizes
from sim.arrays import BoolArray, IntArray
from sim.decision import WAIT, Decision, Start
from sim.engine.occupancy import Occupancy
from sim.errors import amount, check_numbers
from sim.jobs import JobTable
from sim.simulator import Simulator
from sim.topology.topology import Topology
from sim.view import ClusterView


@dataclass(frozen=True, kw_only=True)
class ProximitySpec:
    """Sizes, and what a placement costs."""

    row_s: float  # times are counted in rows
    most_rows: int  # and cut here
    most_gang: int  # a larger request is shown as this
    server_weight: float  # of each server that a placement spans
    rack_weight: float  # and of each rack
    hidden: int  # width of both layers
    gpus: int = 1  # of the cluster; the network fits no other

    def __post_init__(self) -> None:
        """Raise a TopDrlError, naming key, value and rule, for one out of range."""
        weights = {"server_weight": self.server_weight, "rack_weight": self.rack_weight}
        check_numbers("proximity", "0 or more", TopDrlError, **weights)
        sizes = {key: size for key, size in vars(self).items() if key not in weights}
        check_numbers("proximity", "above 0", TopDrlError, **sizes)


class Choosing:
    """One gang being placed: the head of the queue, GPU by GPU."""

    def __init__(self, view: ClusterView, spec: ProximitySpec, until_free: UntilFree) -> None:
        """Nothing is chosen yet; somebody waits. TopDrlError: other GPUs than the policy's."""
        if view.topology.num_gpus != spec.gpus:
            raise TopDrlError(
                f"the cluster has {amount(view.topology.num_gpus, 'GPU')}, this policy is for "
                f"{spec.gpus}; train one for this cluster"
            )
        self._view, self._spec, self._until_free = view, spec, until_free
        self.job = int(view.queued[0])
        self.gang = int(view.jobs.num_gpus[self.job])
        self.chosen: list[int] = []
        self.usable: BoolArray = Occupancy(view).exclusive(view, self.job).usable.copy()

    @property
    def fits(self) -> bool:
        """Whether enough GPUs are usable for what is not chosen yet."""
        return int(self.usable.sum()) >= self.gang - len(self.chosen)

    @property
    def whole(self) -> bool:
        """Whether all GPUs are chosen."""
        return len(self.chosen) == self.gang

    def choose(self, gpu: int) -> None:
        """One more GPU; it must be usable."""
        self.chosen.append(gpu)
        self.usable[gpu] = False

    def observation(self) -> Observation:
        """`seen` (2 G + 2,): chosen flags, time until each GPU is free, length, request; mask.

        The length is at full speed.
        Idling, the last action, is legal only before the first GPU and while something runs.
        """
        view, spec = self._view, self._spec
        seen = np.zeros(2 * spec.gpus + 2, dtype=np.float32)
        seen[self.chosen] = 1.0
        left_s = self._until_free.seconds(view).tolist()
        for job, seconds in zip(view.running.tolist(), left_s, strict=True):
            seen[spec.gpus + view.gpus_of(job)] = self._rows(seconds)
        seen[-2] = self._rows(float(view.jobs.predicted_remaining_s[self.job]))
        seen[-1] = min(self.gang / spec.most_gang, 1.0)
        mask = np.zeros(spec.gpus + 1, dtype=np.float32)
        mask[:-1] = self.usable
        mask[-1] = not self.chosen and len(view.running) > 0
        return {"seen": seen, "action_mask": mask}

    def _rows(self, seconds: float) -> float:
        return min(seconds / self._spec.row_s, self._spec.most_rows) / self._spec.most_rows


def compactness(gpus: IntArray, topology: Topology, spec: ProximitySpec) -> float:
    """1 for the most compact placement of a gang, 0 for the widest, even in between."""
    servers = np.unique(topology.gpu_server[gpus])
    cost = _cost(len(servers), len(np.unique(topology.server_rack[servers])), spec)
    gang = len(gpus)
    least = -(-gang // int(topology.gpus_per_server.max()))
    in_rack = int(np.bincount(topology.server_rack).max())
    best = _cost(least, -(-least // in_rack), spec)
    worst = _cost(min(gang, topology.num_servers), min(gang, topology.num_racks), spec)
    return 1.0 if worst == best else 1.0 - (cost - best) / (worst - best)


def _cost(servers: int, racks: int, spec: ProximitySpec) -> float:
    return spec.server_weight * servers + spec.rack_weight * racks


IDLE_REWARD = -1.0


class PickGpuEnv(gym.Env[Observation, np.int64]):
    """One GPU a step for the head of the queue; a whole gang starts.

    Observation: `Choosing.observation`. Action: a usable GPU, or idle (the last number), by
    `action_mask`; others raise ValueError. Reward: `compactness` where a gang starts, 0 for the
    GPUs before, -1 for idling. While the head does not fit, time passes. Termination: all jobs are
    done; truncation: the last has come.
    """

    def __init__(
        self, *, world: World, spec: ProximitySpec, make_jobs: Callable[[int], JobTable]
    ) -> None:
        """`make_jobs` gets a number drawn from the environment's own stream at each reset."""
        self._world, self._spec, self._make_jobs = world, spec, make_jobs
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
            jobs = self._make_jobs(draw_window(self._make_jobs, self.np_random, MOST_SEED))
        self._simulator = self._world.simulator(jobs)
        self._views = self._simulator.views(NEEDS)
        self._until_free = UntilFree(Pricing(self._views.view()))
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
        self._choosing = head(self._views.view(), self._spec, self._until_free)
        alive = self._choosing is not None or self._wait()
        return compactness(gpus, self._world.topology, self._spec), alive

    def _wait(self) -> bool:
        """Let time pass until the head of the queue fits; False at the end."""
        assert self._simulator is not None
        while self._simulator.advance():
            self._choosing = head(self._views.view(), self._spec, self._until_free)
            if self._choosing is not None:
                return True
            self._simulator.apply(WAIT)
        return False

    def _observed(self) -> Observation:
        if self._choosing is None:  # nobody waits: nothing is seen, and idling is legal
            sizes = {"seen": 2 * self._spec.gpus + 2, "action_mask": self._spec.gpus + 1}
            seen = {key: np.zeros(size, dtype=np.float32) for key, size in sizes.items()}
            seen["action_mask"][-1] = 1.0
        else:
            seen = self._choosing.observation()
        self._actions.legal = seen["action_mask"].astype(np.int8)
        return seen


def head(view: ClusterView, spec: ProximitySpec, until_free: UntilFree) -> Choosing | None:
    """The first waiting job, if it fits."""
    if len(view.queued) == 0:
        return None
    choosing = Choosing(view, spec, until_free)
    return choosing if choosing.fits else None


MASKED = -1e9  # not infinity: entropies stay finite
KIND = "proximity"


class GpuScores(nn.Module):
    """Two layers shared by scores and value."""

    def __init__(self, spec: ProximitySpec) -> None:
        """Random weights."""
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(2 * spec.gpus + 2, spec.hidden), nn.Tanh(),
            nn.Linear(spec.hidden, spec.hidden), nn.Tanh(),
        )  # fmt: skip
        self.scores = nn.Linear(spec.hidden, spec.gpus + 1)
        self.value = nn.Linear(spec.hidden, 1)

    def forward(self, observation: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """(B, GPUs + 1) logits, very low where masked; (B, hidden) state."""
        state = self.body(observation["seen"])
        return self.scores(state).masked_fill(observation["action_mask"] == 0, MASKED), state

    def values(self, state: Tensor) -> Tensor:
        """(B,) of states."""
        return self.value(state)[:, 0]


def save_proximity(folder: Path, weights: Mapping[str, Tensor], spec: ProximitySpec) -> None:
    """Write weights, then sizes."""
    write_policy(folder, weights, {"format": FORMAT, "kind": KIND, "proximity": asdict(spec)})


def read_proximity(folder: Path) -> ProximitySpec:
    """Sizes of the policy in `folder`; TopDrlError: they are missing, broken or of another kind."""
    sizes = read_sizes(folder, KIND)
    try:
        return ProximitySpec(**sizes["proximity"])
    except (KeyError, TypeError) as error:
        raise TopDrlError(f"{folder / SPEC}: is no description of a policy ({error})") from error


def load_proximity(folder: Path) -> GpuScores:
    """The network in `folder`; errors as in `read_proximity`."""
    network = GpuScores(read_proximity(folder))
    load_weights(network, folder)
    return network.eval()


def best_gpu(network: GpuScores, observation: Mapping[str, object]) -> int:
    """The action of the largest score."""
    batch = {key: torch.as_tensor(value)[None] for key, value in observation.items()}
    with torch.no_grad():
        return int(network(batch)[0][0].argmax())
