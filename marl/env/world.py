"""The world that all episodes share, and rewards, one's own and the team's."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from marl.env.memory import Gathered
from sim.arrays import FloatArray, IntArray
from sim.errors import check_numbers
from sim.jobs import JobTable
from sim.physics.physics import Physics
from sim.physics.shipped_files import NoInterference
from sim.run import Rules
from sim.simulator import Simulator
from sim.topology.outages import Outages
from sim.topology.topology import Topology


@dataclass(frozen=True)
class World:
    """A cluster, its physics, what agents are told of it, and the limits on decisions."""

    topology: Topology
    physics: Physics  # what happens: in training usually the learned interference model
    belief: Physics  # what agents are told
    partition_of_server: IntArray  # (S,)
    rules: Rules
    outages: Outages

    @property
    def partitions(self) -> int:
        """Number of partitions, and so of agents."""
        return int(np.max(self.partition_of_server)) + 1

    @property
    def partition_gpus(self) -> IntArray:
        """(M,) GPUs of each partition."""
        gpus = np.bincount(self.partition_of_server, weights=self.topology.gpus_per_server)
        return gpus.astype(np.int64)

    def simulator(self, jobs: JobTable) -> Simulator:
        """A fresh run over `jobs`."""
        return Simulator(
            jobs=jobs,
            topology=self.topology,
            physics=self.physics,
            belief=self.belief,
            partition_of_server=self.partition_of_server,
            rules=self.rules,
            outages=self.outages,
        )


class Reward(Protocol):
    """Turns what was gathered into rewards."""

    def __call__(self, gathered: Gathered) -> FloatArray:
        """(M,) rewards."""


@dataclass(frozen=True)
class DelayReward:
    """reward_m = -(own_weight * own delay_m + (1 - own_weight) * mean delay) / scale_s.

    The sum over agents and time is -(total JCT - total work) / scale_s whatever `own_weight` is:
    what is reported is what is optimised.
    """

    own_weight: float
    scale_s: float

    def __post_init__(self) -> None:
        """Raise GpuYardError for a weight that is no share, or a scale that is not above 0."""
        check_numbers("reward", "from 0 to 1", own_weight=self.own_weight)
        check_numbers("reward", "above 0", scale_s=self.scale_s)

    def __call__(self, gathered: Gathered) -> FloatArray:
        """(M,) rewards for the seconds of delay gathered in each partition."""
        return _blended(gathered.delay_s, self.own_weight) / -self.scale_s


@dataclass(frozen=True)
class ProgressReward:
    """reward_m = (own_weight * own progress_m + (1 - own_weight) * mean progress) / scale_jobs.

    Progress of a job is the share of its work that it has done: each finished job is worth
    1 / scale_jobs, whenever it finishes, so only the discount says that earlier is better. The
    form of DL2 (Peng et al., TPDS 2021), whose lab is that of Zhao and Wu.
    """

    own_weight: float
    scale_jobs: float

    def __post_init__(self) -> None:
        """Raise GpuYardError for a weight that is no share, or a scale that is not above 0."""
        check_numbers("reward", "from 0 to 1", own_weight=self.own_weight)
        check_numbers("reward", "above 0", scale_jobs=self.scale_jobs)

    def __call__(self, gathered: Gathered) -> FloatArray:
        """(M,) rewards for the progress made in each partition."""
        return _blended(gathered.progress, self.own_weight) / self.scale_jobs


def _blended(each: FloatArray, own_weight: float) -> FloatArray:
    return own_weight * each + (1.0 - own_weight) * each.mean()


def draw_window(make_jobs: Callable[[int], JobTable], rng: np.random.Generator, most: int) -> int:
    """What to ask `make_jobs` for: below its `windows`, where it has so many alone, or `most`."""
    return int(rng.integers(getattr(make_jobs, "windows", None) or most))


def discounted(rewards: Sequence[float], gamma: float | FloatArray, over: bool) -> list[float]:
    """Rewards to go; after a cut they go on with the episode's means, if gamma's is not 1.

    `gamma`: what follows a reward counts so much; one for each reward, or one for all.
    """
    total, mean = 0.0, float(np.mean(gamma)) if rewards else 1.0
    if not over and mean != 1.0:
        total = float(np.mean(rewards)) / (1.0 - mean)
    factors, gains = np.broadcast_to(gamma, len(rewards)).tolist(), []
    for reward, factor in zip(reversed(rewards), reversed(factors), strict=True):
        total = reward + factor * total
        gains.append(total)
    return gains[::-1]


def without_interference(world: World) -> World:
    """The world in which co-location costs nothing, whatever agents are told: an ablation."""
    none = NoInterference().pair_table(world.physics.catalogue)
    pairs = replace(none, feasible=world.physics.pairs.feasible)
    return replace(world, physics=replace(world.physics, pairs=pairs))


# In what episodes of training run: what agents are told, what happens, or free co-location.
TRAIN_PHYSICS: dict[str, Callable[[World], World]] = {
    "belief": lambda world: replace(world, physics=world.belief),
    "truth": lambda world: world,
    "none": without_interference,
}
