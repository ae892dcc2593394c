"""Numbers that say how good predictions of normalised speed are."""

from collections import defaultdict

import numpy as np
from scipy.stats import spearmanr

from interference.evaluation.held_out import HeldOut
from interference.models.intervals import NORMAL

LEAST_CANDIDATES = 2


def choice_score(held: HeldOut) -> tuple[float, float]:
    """Measured worth of the partners that the model picks, over that of the best; and of any.

    The worth of a measured group is the mean normalised speed of its judged rows. For every job
    (profile on a GPU type) with two or more groups among the judged ones the model picks the group
    of the largest predicted worth. The first number is the mean over jobs of picked / best worth (1
    is perfect), the second that of a blind pick: mean / best. NaN where no job has a choice.
    """
    truth, told = _worth(held, held.rows.norm_speed), _worth(held, held.told.norm_speed)
    chosen, blind = [], []
    for groups in _groups_by_job(held).values():
        if len(groups) >= LEAST_CANDIDATES:
            measured = np.array([truth[group] for group in groups])
            predicted = [told[group] for group in groups]
            chosen.append(measured[int(np.argmax(predicted))] / measured.max())
            blind.append(measured.mean() / measured.max())
    if not chosen:
        return float("nan"), float("nan")
    return float(np.mean(chosen)), float(np.mean(blind))


def _worth(held: HeldOut, speed: np.ndarray) -> dict[int, float]:
    groups, index = np.unique(held.rows.group, return_inverse=True)
    mean = np.bincount(index, speed) / np.bincount(index)
    return dict(zip(groups.tolist(), mean.tolist(), strict=True))


def _groups_by_job(held: HeldOut) -> dict[tuple[str, str], list[int]]:
    found: dict[tuple[str, str], set[int]] = defaultdict(set)
    rows = held.rows
    for kind, victim, group in zip(rows.gpu_type, rows.victim, rows.group.tolist(), strict=True):
        found[kind, victim].add(group)
    return {job: sorted(groups) for job, groups in found.items()}


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
