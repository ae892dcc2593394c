"""The decision a scheduler would take: whom to put beside a job, of all that fit."""

from collections import defaultdict

import numpy as np

from interference.evaluation.held_out import HeldOut

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
