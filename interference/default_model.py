"""Writes the fitted models that the package ships, one for each source of profiles."""

from pathlib import Path

import numpy as np

from interference.dataset import gavel_rows
from interference.fit import fit_saved, judge
from interference.generated import generated_rows
from interference.learned import SHIPPED_DIR
from interference.saved_model import save_model

SEED = 20
FOLDS = 5


def write_default_model(data_dir: Path) -> None:
    """Fit on Gavel's rows (MIT) and on generated rows.

    No measured row is copied: every pair is predicted by a model that did not see it, and the
    memory rule stands in for which pairs fitted.
    """
    for source, rows in {
        "measured": gavel_rows(data_dir),
        "shipped": generated_rows(np.random.default_rng(SEED)),
    }.items():
        errors = judge(rows, seed=SEED, folds=FOLDS)
        saved = fit_saved(rows, errors, seed=SEED, folds=FOLDS, keep_observed=False)
        save_model(saved, SHIPPED_DIR / f"{source}.json")
