"""Every model on the same folds of one data set."""

from collections.abc import Callable, Iterable

import numpy as np

from interference.evaluation.held_out import HeldOut
from interference.evaluation.measures import measures
from interference.evaluation.splits import Fold, model_folds, model_names, pair_folds, type_folds
from interference.models.protocol import Prediction, SpeedModel
from interference.rows import CoRows, SoloProfiles
from sim.arrays import BoolArray

Judged = dict[str, dict[str, HeldOut]]  # split -> model -> held-out predictions
Errors = dict[str, dict[str, dict[str, float]]]  # split -> model -> measures
LEAST_MODELS = 3  # to hold one out


def fit_rows(rows: CoRows) -> BoolArray:
    """(N,) True where a row has a measured speed relative to the run alone."""
    return np.asarray(rows.feasible & rows.measured & (rows.relative_to == "solo"))


def judge(
    rows: CoRows,
    solos: SoloProfiles,
    models: Callable[[], Iterable[SpeedModel]],
    *,
    folds: int,
    seed: int,
    done: Callable[[str], None] = lambda _: None,
) -> Judged:
    """Hold out pairs, whole models and (where there are several) whole GPU types.

    Whatever a model chooses for itself it chooses on the fitted rows of a fold, so that the judged
    ones stay unseen: nested cross-validation.

    Args:
        rows: rows with a speed (`fit_rows`).
        solos: a profile of each job.
        models: fresh models, in the order of tables.
        folds: of the split by pair; the others have one fold a model or type.
        seed: of the division by pair.
        done: told the name of every finished (split, model).
    """
    judged: Judged = {}
    for split, parts in splits(rows, solos, folds=folds, seed=seed).items():
        judged[split] = {}
        for model in models():
            judged[split][model.name] = held_out(model, rows, solos, parts)
            done(f"{split}, {model.name}")
    return judged


def splits(rows: CoRows, solos: SoloProfiles, *, folds: int, seed: int) -> dict[str, list[Fold]]:
    """Folds of every split that the rows allow."""
    found = {"pair": list(pair_folds(rows, folds, np.random.default_rng(seed)))}
    if len(model_names(rows, solos)) >= LEAST_MODELS:
        found["model"] = list(model_folds(rows, solos))
    if len(set(rows.gpu_type)) > 1:
        found["gpu_type"] = list(type_folds(rows))
    return found


def held_out(model: SpeedModel, rows: CoRows, solos: SoloProfiles, folds: list[Fold]) -> HeldOut:
    """Judged rows of all folds, one after the other; a row of two models is judged twice."""
    speed, sd, index = [], [], []
    for train, test in folds:
        model.fit(rows.take(train), solos)
        told = model.predict(rows.take(test), solos)
        speed.append(told.norm_speed)
        sd.append(told.sd)
        index.append(test)
    judged = rows.take(np.concatenate(index))
    return HeldOut(judged, Prediction(np.concatenate(speed), np.concatenate(sd)))


def errors_of(name: str, judged: Judged) -> dict[str, Errors]:
    """Measures of a data set `name`, and of each GPU type as `name/type` where it has several."""
    parts: dict[str, Errors] = {}
    for split, by_model in judged.items():
        for model, held in by_model.items():
            by_type = held.by_type()
            told = {name: held}
            if len(by_type) > 1:
                told |= {f"{name}/{kind}": part for kind, part in by_type.items()}
            for data_set, part in told.items():
                parts.setdefault(data_set, {}).setdefault(split, {})[model] = measures(part)
    return parts
