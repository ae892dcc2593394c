"""How well groups that do not fit into memory are told from those that do."""

import numpy as np
from sklearn.metrics import balanced_accuracy_score, roc_auc_score

from interference.evaluation.judge import Fold
from interference.models.design import MemoryFitModel
from interference.rows import CoRows, SoloProfiles

FAIR = 0.5


def fit_measures(
    rows: CoRows, solos: SoloProfiles, folds: list[Fold], *, seed: int
) -> dict[str, float]:
    """Of held-out rows: area under the curve, balanced accuracy, both kinds of error.

    `missed` is the share of groups that did not fit and were told to, `refused` the reverse. NaN
    throughout where all rows fit, or none.
    """
    told, failed = [], []
    for train, test in folds:
        model = MemoryFitModel(seed=seed)
        model.fit(rows.take(train), solos)
        told.append(model.predict(rows.take(test), solos))
        failed.append(~rows.feasible[test])
    chance, truth = np.concatenate(told), np.concatenate(failed)
    if truth.all() or not truth.any():
        return dict.fromkeys(("auc", "balanced_accuracy", "missed", "refused"), float("nan"))
    said = chance > FAIR
    return {
        "auc": float(roc_auc_score(truth, chance)),
        "balanced_accuracy": float(balanced_accuracy_score(truth, said)),
        "missed": float((~said)[truth].mean()),
        "refused": float(said[~truth].mean()),
    }
