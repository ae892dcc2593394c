"""Judging models: rows held out from fitting, what was said of them, and measures of that.

Both sides of a pair, and the same pair on every GPU type, are one mix (`mix_numbers`): they are
always on one side of a division.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
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

    None where there are fewer than LEAST_MODELS. A model that every row has is passed over: without
    it there is nothing to fit.
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
    told = np.empty(len(rows), dtype=np.object_)
    facts = zip(rows.source, rows.gpu_type, rows.victim, rows.aggressors, strict=True)
    for row, (source, kind, victim, others) in enumerate(facts):
        told[row] = tuple(model[source, kind, name] for name in (victim, *others))
    return told


@dataclass(frozen=True)
class HeldOut:
    """N judged rows of all folds of one split, and one model's predictions."""

    rows: CoRows
    told: Prediction  # (N,) each by the fold that held the row out

    def take(self, index: BoolArray) -> "HeldOut":
        """The rows of `index`."""
        told = Prediction(self.told.norm_speed[index], self.told.sd[index])
        return HeldOut(self.rows.take(np.flatnonzero(index)), told)

    def by_type(self) -> dict[str, "HeldOut"]:
        """Parts by GPU type."""
        kinds = self.rows.gpu_type
        return {kind: self.take(kinds == kind) for kind in sorted(set(kinds))}


LEVEL = 0.9  # of truths that lie inside
NORMAL = 1.645  # half its width in standard deviations, where errors are normal


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


Judged = dict[str, dict[str, HeldOut]]  # split -> model -> held-out predictions
Errors = dict[str, dict[str, dict[str, float]]]  # split -> model -> measures


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
    if by_model := list(model_folds(rows, solos)):
        found["model"] = by_model
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
