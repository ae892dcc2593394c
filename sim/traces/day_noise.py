"""Days that are busier or quieter than their weekday says."""

from dataclasses import dataclass

import numpy as np

from sim.arrays import FloatArray
from sim.traces.spec_rules import check_spec


@dataclass(frozen=True, kw_only=True)
class DayNoise:
    """A factor of mean 1 on the rate of each 24 hours, gamma distributed."""

    dispersion_r: float  # gamma shape; small is uneven
    persistence: float  # probability that a day keeps the factor of the day before

    def __post_init__(self) -> None:
        """Check ranges.

        Raises:
            TraceError: naming the key, the value and the rule.
        """
        check_spec("day_noise.dispersion_r", self.dispersion_r, 0 < self.dispersion_r < np.inf,
                   "must be above 0")  # fmt: skip
        check_spec("day_noise.persistence", self.persistence, 0 <= self.persistence < 1,
                   "must be in [0, 1)")  # fmt: skip


def held_noise(
    shape: float, persistence: float, count: int, level: float, rng: np.random.Generator
) -> tuple[FloatArray, float]:
    """(count,) gamma noise of mean 1, and its last value for the next stretch.

    Every value is gamma(shape, 1/shape); it keeps the one before (the first: `level`) with
    probability `persistence`, else it is drawn anew.
    """
    fresh = rng.gamma(shape, 1.0 / shape, count)
    keeps = rng.random(count) < persistence
    source = np.maximum.accumulate(np.where(keeps, -1, np.arange(count)))
    noise = np.where(source < 0, level, fresh[source])
    return noise, float(noise[-1])
