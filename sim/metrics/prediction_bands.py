"""How far predicted durations are off: shares of jobs in error bands, and how well they rank."""

from dataclasses import dataclass

import numpy as np

from sim.arrays import FloatArray

SHORTEST_S = 1.0  # shorter durations and predictions count as this long


@dataclass(frozen=True)
class PredictionBands:
    """Errors as factors max(predicted / true, true / predicted); shares of jobs, NaN of no job."""

    within_10_frac: float  # the factor is at most 1.1
    within_25_frac: float  # at most 1.25, those within 10 % included; and so on
    within_50_frac: float
    within_factor_2_frac: float
    beyond_frac: float  # more than a factor of 2
    median_factor: float
    rank_correlation: float  # Spearman's; NaN where one side is constant


def prediction_bands(estimate_s: FloatArray, duration_s: FloatArray) -> PredictionBands:
    """Compare (J,) predictions with (J,) durations, both 0 or more seconds."""
    predicted = np.log(np.maximum(estimate_s, SHORTEST_S))
    true = np.log(np.maximum(duration_s, SHORTEST_S))
    if len(true) == 0:
        return PredictionBands(*[np.nan] * 7)
    off = np.abs(predicted - true)
    # Rounding of logarithms must not move a job that is off by exactly a limit.
    shares = [float((off <= np.log(limit) + 1e-12).mean()) for limit in (1.1, 1.25, 1.5, 2.0)]
    return PredictionBands(
        within_10_frac=shares[0],
        within_25_frac=shares[1],
        within_50_frac=shares[2],
        within_factor_2_frac=shares[3],
        beyond_frac=1.0 - shares[-1],
        median_factor=float(np.exp(np.median(off))),
        rank_correlation=_spearman(predicted, true),
    )


def _spearman(a: FloatArray, b: FloatArray) -> float:
    from scipy.stats import rankdata

    ranks = rankdata(a), rankdata(b)
    if any(rank.std() == 0.0 for rank in ranks):
        return float("nan")
    return float(np.corrcoef(*ranks)[0, 1])
