"""Where models are worst, what is reported of them, and how often intervals hold the truth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy.stats import norm

from interference.evaluation.judge import Errors, HeldOut, Judged, models_of
from interference.evaluation.score_file import Counts, Scores
from interference.fit import LEARNED
from interference.rows import SoloProfiles
from sim.arrays import FloatArray, objects
from sim.report.figures import GREY, heading, line_look, new_figure, save_png, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes


HELD_OUT_PAIRS = "pair"


@dataclass(frozen=True)
class Results:
    """Of held-out folds, of rows of files, or of both."""

    judged: dict[str, Judged]  # data set -> split -> model -> predictions
    errors: dict[str, Errors]  # data set, or "set/GPU type" -> split -> model -> measures
    counts: dict[str, dict[str, Counts]]  # likewise; of splits of files only
    solos: dict[str, SoloProfiles]  # data set -> profiles of its jobs

    def drawn(self, data_set: str) -> str:
        """The model that figures and lists of faults are about: the learned one if it is there."""
        names = list(next(iter(self.judged[data_set].values())))
        return LEARNED if LEARNED in names else names[-1]

    def set_of(self, part: str) -> str:
        """The data set of an entry of `errors`."""
        inside = [name for name in self.judged if part == name or part.startswith(f"{name}/")]
        return max(inside, key=len)  # a name may hold a slash itself

    def of_drawn(self, data_set: str) -> Iterator[tuple[str, HeldOut]]:
        """Each split, and the predictions of that model."""
        for split, by_model in self.judged[data_set].items():
            yield split, by_model[self.drawn(data_set)]

    def is_of_files(self, data_set: str, split: str) -> bool:
        """Whether a split is one of files; else its rows were held out by folds."""
        return split in self.counts.get(data_set, {})


def joined(folds: Results, files: Scores, solos: dict[str, SoloProfiles]) -> Results:
    """Both together; a split of a file that is called like one of the folds gets ` (file)`.

    Args:
        folds: of held-out folds; may be empty.
        files: of rows of files.
        solos: data set -> profiles, of the files' jobs too.
    """

    def name(data_set: str, split: str) -> str:
        taken = folds.errors.get(data_set, {})
        return f"{split} (file)" if split in taken else split

    judged = {key: dict(each) for key, each in folds.judged.items()}
    errors = {key: dict(each) for key, each in folds.errors.items()}
    for key, by_split in files.judged.items():
        judged.setdefault(key, {}).update({name(key, s): e for s, e in by_split.items()})
    for key, of_part in files.errors.items():
        found = {name(key, split): each for split, each in of_part.items()}
        errors.setdefault(key, {}).update(found)
    counts = {
        key: {name(key, split): each for split, each in by.items()}
        for key, by in files.counts.items()
    }
    return Results(judged, errors, counts, folds.solos | solos)


MOST = 10


@dataclass(frozen=True)
class WorstRow:
    """One prediction; the names are columns of a file."""

    data_set: str
    split: str
    gpu_type: str
    victim: str
    aggressors: str
    measured: float
    predicted: float
    sd: float


@dataclass(frozen=True)
class VictimModel:
    """Errors over all rows of one victim's model; the names are columns of a file."""

    data_set: str
    split: str
    victim_model: str
    rows: int
    mae: float
    bias: float  # mean of predicted - measured


def worst_rows(results: Results) -> list[WorstRow]:
    """The largest errors over all data sets, on held-out pairs and rows of files."""
    found = [
        row
        for data_set in results.judged
        for split, held in results.of_drawn(data_set)
        if split == HELD_OUT_PAIRS or results.is_of_files(data_set, split)
        for row in _worst(data_set, split, held)
    ]
    return sorted(found, key=lambda row: -abs(row.predicted - row.measured))[:MOST]


def by_victim_model(results: Results) -> list[VictimModel]:
    """Every data set, split and model, worst of each split first."""
    found = []
    for data_set in results.judged:
        for split, held in results.of_drawn(data_set):
            victims = objects([row[0] for row in models_of(held.rows, results.solos[data_set])])
            error = held.told.norm_speed - held.rows.norm_speed
            told = []
            for name in sorted(set(victims)):
                own = error[victims == name]
                told.append(VictimModel(data_set, split, name, len(own),
                                        float(np.abs(own).mean()), float(own.mean())))  # fmt: skip
            found += sorted(told, key=lambda each: -each.mae)
    return found


def csv_of(rows: Sequence[WorstRow] | Sequence[VictimModel]) -> str:
    """A header and a line a row, or nothing where there are none."""
    return pd.DataFrame(rows).round(6).to_csv(index=False) if rows else ""


def _worst(data_set: str, split: str, held: HeldOut) -> list[WorstRow]:
    rows, told = held.rows, held.told
    error = np.abs(told.norm_speed - rows.norm_speed)
    return [
        WorstRow(
            data_set,
            split,
            rows.gpu_type[at],
            rows.victim[at],
            " + ".join(rows.aggressors[at]),
            float(rows.norm_speed[at]),
            float(told.norm_speed[at]),
            float(told.sd[at]),
        )
        for at in np.argsort(-error, kind="stable")[:MOST].tolist()
    ]


LEVELS = np.arange(10, 96, 5) / 100.0
OWN_SPREADS = 0.5  # share of rows with a spread of their own from which a model is drawn


def reliability(judged: Judged, *, title: str, path: Path) -> None:
    """Draw a panel a split and a line a model whose spread tells rows apart.

    Models with one spread for all rows of a fit are left out: theirs is no claim about a row.

    Args:
        judged: split -> model -> predictions.
        title: of which data set.
        path: PNG to write.
    """
    figure = new_figure(4.2 * len(judged) + 1.0, 4.6)
    panels = figure.subplots(1, len(judged), sharey=True, squeeze=False)[0]
    names = [LEARNED, *(name for name in next(iter(judged.values())) if name != LEARNED)]
    drawn = [name for name in names if any(_drawn(by, name) for by in judged.values())]
    places = {name: place for place, name in enumerate(drawn)}
    for axes, (split, by_model) in zip(panels, judged.items(), strict=True):
        _panel(axes, by_model, places)
        heading(axes, split)
    panels[0].set_ylabel("truths inside the interval")
    lines = {line.get_label(): line for axes in panels for line in axes.get_lines()}
    figure.legend(lines.values(), list(map(str, lines)), loc="outside lower center",
                  ncols=max(2, 2 * len(judged)), fontsize=9, frameon=False)  # fmt: skip
    figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold")
    save_png(figure, path)


def covered(held: HeldOut) -> FloatArray:
    """(L,) share of truths inside the central interval of each of LEVELS, for normal errors."""
    error = np.abs(held.told.norm_speed - held.rows.norm_speed) / held.told.sd
    half = norm.ppf((1.0 + LEVELS) / 2.0)
    return np.asarray((error[:, None] <= half).mean(axis=0))


def tells_rows_apart(held: HeldOut) -> bool:
    """Whether the spread is each row's own, not one number a fit and GPU type."""
    return len(np.unique(held.told.sd)) > OWN_SPREADS * len(held.rows)


def _drawn(by_model: Mapping[str, HeldOut], name: str) -> bool:
    return name in by_model and tells_rows_apart(by_model[name])


def _panel(axes: Axes, by_model: Mapping[str, HeldOut], places: Mapping[str, int]) -> None:
    axes.plot([0, 1], [0, 1], color=GREY, linewidth=1.0, linestyle=":", label="ideal")
    for name, place in places.items():
        if _drawn(by_model, name):
            look = line_look(place) | {"linewidth": 2.6 if name == LEARNED else 1.3}
            axes.plot(LEVELS, covered(by_model[name]), label=name, **look)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("nominal level of the interval")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda share, _: f"{share:.0%}")
    tidy(axes, grid="both")
