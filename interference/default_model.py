"""Writes the fitted models that the package ships, one for each source of profiles."""

from pathlib import Path

from interference.data_sets import data_sets
from interference.fit import SAVED, saved_model
from interference.learned import SHIPPED_DIR, save_model

SEED = 20
FOLDS = 5


def write_default_model(data_dir: Path) -> None:
    """Fit on Gavel's rows (MIT) and on generated rows.

    No measured row is copied: every pair is predicted by a model that did not see it, and the
    memory rule stands in for which pairs fitted.
    """
    for source, name, folder in (("measured", "gavel", data_dir), ("shipped", "generated", None)):
        data = data_sets(folder, seed=SEED, names=[name])[name]
        saved = saved_model(data, SAVED, seed=SEED, folds=FOLDS, keep_observed=False)
        save_model(saved, SHIPPED_DIR / f"{source}.json")
