"""How much jobs clump within an hour: the cluster process whose gaps are most like a trace's."""

import numpy as np

from sim.arrays import FloatArray
from sim.traces.clumps import Clumps, clump_sizes, spread_clumps
from sim.traces.job_sample import HOUR_S

PROBS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
MEAN_GAPS_S = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0, 120.0, 300.0)
WORTH = 0.01  # by how much clumps must bring the distributions of gaps closer
MOST_JOBS = 20_000


def fit_clumps(submit_s: FloatArray, rng: np.random.Generator) -> tuple[Clumps | None, float]:
    """The clumps, and the share of jobs that then arrive in their predecessor's second.

    Each candidate fills the trace's own hours, so that the bursts of hours play no part; compared
    are gaps above 0 (Kolmogorov-Smirnov).

    Args:
        submit_s: (J,) ascending, without the jobs of batches.
        rng: simulates.
    """
    submit_s = submit_s[:MOST_JOBS]
    hour = ((submit_s - submit_s[0]) // HOUR_S).astype(np.int64)
    gaps_s = np.diff(submit_s)
    found: dict[Clumps, tuple[float, float]] = {}
    for prob in PROBS:
        for mean_gap_s in MEAN_GAPS_S if prob else MEAN_GAPS_S[:1]:
            clumps = Clumps(prob=prob, mean_gap_s=mean_gap_s)
            theirs = np.diff(np.floor(_filled(clumps, hour, rng)))
            found[clumps] = _distance(gaps_s, theirs), float(np.mean(theirs == 0))
    best = min(found, key=lambda each: found[each][0])
    none = Clumps(prob=0.0, mean_gap_s=MEAN_GAPS_S[0])
    if found[none][0] - found[best][0] < WORTH:
        return None, found[none][1]
    return best, found[best][1]


def _filled(clumps: Clumps, hour: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Times of as many jobs; clumps start in the hours (J,) of jobs drawn at random."""
    sizes = clump_sizes(clumps, len(hour), rng)
    start = rng.choice(hour, len(sizes)) + rng.random(len(sizes))
    return spread_clumps(clumps, np.sort(start) * HOUR_S, sizes, rng)


def _distance(first_s: FloatArray, second_s: FloatArray) -> float:
    """Largest difference of the distribution functions of the gaps above 0."""
    first, second = np.sort(first_s[first_s > 0]), np.sort(second_s[second_s > 0])
    grid = np.concatenate([first, second])
    ours = np.searchsorted(first, grid, side="right") / max(len(first), 1)
    theirs = np.searchsorted(second, grid, side="right") / max(len(second), 1)
    return float(np.abs(ours - theirs).max())
