"""Numbers that say how good predictions of normalised speed are."""

import numpy as np
from scipy.stats import spearmanr

from interference.evaluation.choice import choice_score
from interference.evaluation.held_out import HeldOut
from interference.models.intervals import NORMAL

MEASURES = ("mae", "mape", "r2", "rank", "covered", "width", "choice", "choice_blind", "rows")


def measures(held: HeldOut) -> dict[str, float]:
    """Of all rows together; NaN where a measure says nothing.

    `mae` and `mape` are means of absolute error and of it over the truth, `rank` is Spearman's
    correlation, `covered` the share of truths inside the 90 % interval and `width` its mean width,
    `choice` and `choice_blind` are explained at `choice_score`.
    """
    truth, told = held.rows.norm_speed, held.told.norm_speed
    error, half = np.abs(told - truth), NORMAL * held.told.sd
    spread = float(np.var(truth))
    chosen, blind = choice_score(held)
    return {
        "mae": float(error.mean()),
        "mape": float((error / truth).mean()),
        "r2": 1.0 - float(np.square(error).mean()) / spread if spread > 0 else float("nan"),
        "rank": _rank_correlation(truth, told),
        "covered": float((error <= half).mean()),
        "width": float(2.0 * half.mean()),
        "choice": chosen,
        "choice_blind": blind,
        "rows": float(len(truth)),
    }


def _rank_correlation(truth: np.ndarray, told: np.ndarray) -> float:
    if np.ptp(truth) == 0 or np.ptp(told) == 0:
        return float("nan")
    return float(spearmanr(truth, told).statistic)
