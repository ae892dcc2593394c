"""Rewards from delay, blended between an agent's own partition and the team."""

from dataclasses import dataclass

from sim.arrays import FloatArray


@dataclass(frozen=True)
class DelayReward:
    """reward_m = -(own_weight * own delay_m + (1 - own_weight) * mean delay) / scale_s.

    The sum over agents and time is -(total JCT - total work) / scale_s whatever `own_weight` is:
    what is reported is what is optimised.
    """

    own_weight: float
    scale_s: float

    def __call__(self, delay_s: FloatArray) -> FloatArray:
        """(M,) rewards for (M,) seconds of delay gathered in each partition."""
        blended: FloatArray = (
            self.own_weight * delay_s + (1.0 - self.own_weight) * delay_s.mean()
        ) / -self.scale_s
        return blended
