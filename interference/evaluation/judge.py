"""Judging models: rows held out from fitting, what was said of them, and measures of that.

Both sides of a pair, and the same pair on every GPU type, are one mix (`mix_numbers`): they are
always on one side of a division.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from interference.models.encoding import Prediction, SpeedModel
from interference.rows import CoRows, SoloProfiles, mix_numbers
from sim.arrays import BoolArray, IntArray, TextArray
from sim.errors import PhysicsError

Fold = tuple[IntArray, IntArray]  # rows to fit, rows to judge


def pair_folds(rows: CoRows, folds: int, rng: np.random.Generator) -> Iterator[Fold]:
    """Hold out mixes: no fitted row has the same jobs, on whatever GPU type."""
    mix = mix_numbers(rows)
    every = np.unique(mix)
    if len(every) < 2:  # noqa: PLR2004  (one to hold out, one to fit)
        raise PhysicsError(
            f"the rows with a measured speed have {len(every)} mix; folds need at least 2 to hold "
            "one out: add rows"
        )
    if not 1 < folds <= len(every):
        raise PhysicsError(
            f"folds is {folds}; the rows have {len(every)} mixes: set folds=2, or up to that"
        )
    dealt = rng.permutation(every)
    for fold in range(folds):
        test = np.isin(mix, dealt[fold::folds])
        yield np.flatnonzero(~test), np.flatnonzero(test)


LEAST_MODELS = 3  # to hold one out


def model_folds(rows: CoRows, solos: SoloProfiles) -> Iterator[Fold]:
    """Hold out one model at a time: judged are all rows that it takes part in, in any role.

    No fold where there are fewer than LEAST_MODELS. A model that every row has is passed over:
    without it there is nothing to fit.
    """
    models, names = models_of(rows, solos), model_names(rows, solos)
    for name in sorted(names) if len(names) >= LEAST_MODELS else ():
        test = np.array([name in row for row in models], dtype=np.bool_)
        if not test.all():
            yield np.flatnonzero(~test), np.flatnonzero(test)


def type_folds(rows: CoRows) -> Iterator[Fold]:
    """Hold out one GPU type at a time."""
    for name in sorted(set(rows.gpu_type)):
        test = rows.gpu_type == name
        yield np.flatnonzero(~test), np.flatnonzero(test)


def model_names(rows: CoRows, solos: SoloProfiles) -> set[str]:
    """The models that take part in the rows, in any role."""
    return {name for row in models_of(rows, solos) for name in row}


def models_of(rows: CoRows, solos: SoloProfiles) -> TextArray:
    """(N,) tuple of the models in each row, victim's first."""
    model = dict(zip(solos.keys(), solos.model, strict=True))
    models = np.empty(len(rows), dtype=np.object_)
    facts = zip(rows.source, rows.gpu_type, rows.victim, rows.aggressors, strict=True)
    for row, (source, gpu_type, victim, others) in enumerate(facts):
        models[row] = tuple(model[source, gpu_type, name] for name in (victim, *others))
    return models


def prediction_lines(rows: CoRows, solos: SoloProfiles, predicted: Prediction) -> pd.DataFrame:
    """A line a row: who it is of (`models` are the victim's, then the others'), and speeds.

    `measured` and `predicted` are normalised speeds, `sd` is the spread that the model expects.
    """
    return pd.DataFrame({
        "gpu_type": rows.gpu_type, "victim": rows.victim, "aggressors": rows.aggressors,
        "models": models_of(rows, solos), "group": rows.group, "measured": rows.norm_speed,
        "predicted": predicted.norm_speed, "sd": predicted.sd,
    })  # fmt: skip


LEVEL = 0.9  # of truths that lie inside
NORMAL = 1.645  # half its width in standard deviations, where errors are normal

LEAST_CANDIDATES = 2


def choice_score(held: pd.DataFrame) -> tuple[float, float]:
    """Measured worth of the partners that the model picks, over that of the best; and of any.

    The worth of a measured group is the mean normalised speed of its judged rows. For every job
    (profile on a GPU type) with two or more groups among the judged ones the model picks the group
    of the largest predicted worth. The first number is the mean over jobs of picked / best worth (1
    is perfect), the second that of a blind pick: mean / best. NaN where no job has a choice.
    """
    worth = held.groupby("group")[["measured", "predicted"]].mean()
    groups = held[["gpu_type", "victim", "group"]].drop_duplicates().sort_values("group")
    chosen, blind = [], []
    for _, of_job in groups.join(worth, on="group").groupby(["gpu_type", "victim"]):
        if len(of_job) >= LEAST_CANDIDATES:
            best = of_job.measured.max()
            chosen.append(of_job.measured.iloc[int(of_job.predicted.argmax())] / best)
            blind.append(of_job.measured.mean() / best)
    if not chosen:
        return float("nan"), float("nan")
    return float(np.mean(chosen)), float(np.mean(blind))


def measures(held: pd.DataFrame) -> dict[str, float]:
    """Of all rows together; NaN where a measure says nothing.

    `mae` and `mape` are means of absolute error and of it over the truth, `rank` is Spearman's
    correlation, `covered` the share of truths inside the 90 % interval and `width` its mean width,
    `choice` and `choice_blind` are explained at `choice_score`.
    """
    truth, predicted = held.measured.to_numpy(), held.predicted.to_numpy()
    error, half = np.abs(predicted - truth), NORMAL * held.sd.to_numpy()
    spread = float(np.var(truth))
    chosen, blind = choice_score(held)
    return {
        "mae": float(error.mean()),
        "mape": float((error / truth).mean()),
        "r2": 1.0 - float(np.square(error).mean()) / spread if spread > 0 else float("nan"),
        "rank": _rank_correlation(truth, predicted),
        "covered": float((error <= half).mean()),
        "width": float(2.0 * half.mean()),
        "choice": chosen,
        "choice_blind": blind,
        "rows": float(len(truth)),
    }


def _rank_correlation(truth: np.ndarray, predicted: np.ndarray) -> float:
    if np.ptp(truth) == 0 or np.ptp(predicted) == 0:
        return float("nan")
    return float(spearmanr(truth, predicted).statistic)


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
) -> pd.DataFrame:
    """Hold out pairs, whole models and (where there are several) whole GPU types.

    Whatever a model chooses for itself it chooses on the fitted rows of a fold, so that the judged
    ones stay unseen: nested cross-validation. Lines of `prediction_lines` with `split` and `model`.
    `rows` have a speed (`fit_rows`); `folds` and `seed` are of the split by pair, the others have
    one fold a model or type; `done` is told the name of every finished (split, model).
    """
    judged = {}
    for split, parts in splits(rows, solos, folds=folds, seed=seed).items():
        for model in models():
            judged[split, model.name] = held_out(model, rows, solos, parts)
            done(f"{split}, {model.name}")
    return below_each_other(judged, "split", "model")


def below_each_other(parts: Mapping[Any, pd.DataFrame], *names: str) -> pd.DataFrame:
    """Frames as one, whose first columns are the keys."""
    return pd.concat(parts, names=list(names)).reset_index(list(names)).reset_index(drop=True)


def splits(rows: CoRows, solos: SoloProfiles, *, folds: int, seed: int) -> dict[str, list[Fold]]:
    """Folds of every split that the rows allow."""
    found = {"pair": list(pair_folds(rows, folds, np.random.default_rng(seed)))}
    if by_model := list(model_folds(rows, solos)):
        found["model"] = by_model
    if len(set(rows.gpu_type)) > 1:
        found["gpu_type"] = list(type_folds(rows))
    return found


def held_out(
    model: SpeedModel, rows: CoRows, solos: SoloProfiles, folds: Iterable[Fold]
) -> pd.DataFrame:
    """Judged rows of all folds, one after the other; a row of two models is judged twice."""
    parts = []
    for train, test in folds:
        model.fit(rows.take(train), solos)
        judged = rows.take(test)
        parts.append(prediction_lines(judged, solos, model.predict(judged, solos)))
    return pd.concat(parts, ignore_index=True)


def parts_of(lines: pd.DataFrame, several: Collection[str]) -> Iterator[tuple[str, pd.DataFrame]]:
    """Lines of each data set, and of each GPU type of those in `several` as `set/type`."""
    for name, own in lines.groupby("data_set", sort=False):
        yield str(name), own
        if name in several:
            yield from ((f"{name}/{gpu_type}", part) for gpu_type, part in own.groupby("gpu_type"))


def errors_of(predictions: pd.DataFrame, several: Collection[str]) -> pd.DataFrame:
    """`measures` by data_set, split and model; of each type, too, of the sets in `several`."""
    return pd.DataFrame(
        {"data_set": part, "split": split, "model": model, **measures(held)}
        for part, own in parts_of(predictions, several)
        for (split, model), held in own.groupby(["split", "model"], sort=False)
    )
