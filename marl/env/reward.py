"""Rewards from what partitions gather, blended between an agent's own and the team's."""

from dataclasses import dataclass
from typing import Protocol

from marl.turns.gathering import Gathered
from sim.arrays import FloatArray


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

    def __call__(self, gathered: Gathered) -> FloatArray:
        """(M,) rewards for the progress made in each partition."""
        return _blended(gathered.progress, self.own_weight) / self.scale_jobs


def _blended(each: FloatArray, own_weight: float) -> FloatArray:
    blended: FloatArray = own_weight * each + (1.0 - own_weight) * each.mean()
    return blended
