"""Jobs that follow each other within seconds: submission scripts and impatient users."""

from dataclasses import dataclass

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.traces.spec_rules import check_spec


@dataclass(frozen=True, kw_only=True)
class Clumps:
    """Poisson arrivals start clumps; a clump goes on with another job with probability `prob`.

    A Poisson cluster process (Neyman and Scott, 1958) with geometric sizes. The jobs of a clump
    are independent apart from their times; recurrence makes them alike.
    """

    prob: float  # 0 to below 1; also the share of the jobs that follow in a clump
    mean_gap_s: float  # gaps in a clump are exponential

    def __post_init__(self) -> None:
        """Check ranges.

        Raises:
            TraceError: naming the key, the value and the rule.
        """
        check_spec("clumps.prob", self.prob, 0 <= self.prob < 1, "must be in [0, 1)")
        check_spec("clumps.mean_gap_s", self.mean_gap_s, 0 <= self.mean_gap_s < np.inf,
                   "must be 0 or more")  # fmt: skip

    @property
    def excess_variance(self) -> float:
        """Variance over mean of a count of jobs whose clumps are Poisson."""
        return (1 + self.prob) / (1 - self.prob)


def clump_sizes(clumps: Clumps, count: int, rng: np.random.Generator) -> IntArray:
    """Sizes of the clumps of `count` jobs; the last is cut."""
    begins = rng.random(count) >= clumps.prob
    begins[:1] = True
    return np.diff(np.append(np.flatnonzero(begins), count))


def spread_clumps(
    clumps: Clumps, start_s: FloatArray, sizes: IntArray, rng: np.random.Generator
) -> FloatArray:
    """(sum(sizes),) ascending times of the jobs of clumps that start at `start_s` (C,)."""
    total = int(sizes.sum())
    gap_s = rng.exponential(clumps.mean_gap_s, total)
    first = np.cumsum(sizes) - sizes
    gap_s[first] = 0.0
    run_s = np.cumsum(gap_s)
    since_start_s = run_s - np.repeat(run_s[first], sizes)
    return np.sort(np.repeat(start_s, sizes) + since_start_s)
