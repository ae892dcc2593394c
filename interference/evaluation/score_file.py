"""Models fitted on all rows of a data set, scored on rows of any file; results of all kinds."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from interference.data_sets import DataSet, rows_of_file
from interference.evaluation.judge import (
    below_each_other,
    errors_of,
    fit_rows,
    model_names,
    models_of,
    parts_of,
    prediction_lines,
)
from interference.fit import LEARNED
from interference.models.encoding import SpeedModel
from interference.rows import CoRows, SoloProfiles, jobs_of, stacked_profiles, stacked_rows
from sim.arrays import objects
from sim.errors import PhysicsError

UNNAMED = "file"  # split of rows whose file names none

# Of the rows of a file: judged; left out because the group did not fit, or because the speed was
# set by the source or is relative to something else than a run alone; and of those judged, how many
# had the same victim, aggressors and GPU type fitted, and of how many others the same jobs were
# fitted in other roles or on another GPU type.
COUNTS = ("scored_rows", "infeasible_rows", "unmeasured_rows", "fitted_rows", "met_rows")


@dataclass(frozen=True)
class Scores:
    """What was said of rows of files, and what the fit knew of them."""

    predictions: pd.DataFrame  # lines of `prediction_lines` with data_set, split and model
    known: pd.DataFrame  # a line a row: data_set, split, gpu_type, COUNTS as booleans, new_models


@dataclass(frozen=True)
class Asked:
    """All rows of the files that belong to one data set."""

    rows: CoRows
    solos: SoloProfiles  # of the data set and the files


def read_files(
    paths: Sequence[Path], sets: Mapping[str, DataSet], *, folder: Path | None
) -> dict[str, Asked]:
    """Rows of several files by data set; rows without a split are of the split `UNNAMED`.

    Files are in the columns of `data_sets.FORMATS`; `folder` has the published runs alone.

    Raises:
        PhysicsError: for faulty files, rows of a source that `sets` lacks, and rows of a source
            none of which has a speed to compare with.
    """
    found: dict[str, list[tuple[CoRows, SoloProfiles]]] = {}
    for path in paths:
        rows, solos = rows_of_file(path, folder=folder)
        for source in sorted(set(rows.source)):
            if source not in sets:
                raise PhysicsError(
                    f"{path}: its rows are of {source!r}, but the data sets to fit on are "
                    f"{', '.join(sets)}; set data_dir (and data_sets) so that {source!r} is there"
                )
            found.setdefault(source, []).append((rows.take(rows.source == source), solos))
    asked = {source: _asked(parts, sets[source]) for source, parts in found.items()}
    for source, each in asked.items():
        if not fit_rows(each.rows).any():
            raise PhysicsError(
                f"{', '.join(map(str, paths))}: no row of {source} is feasible, measured and "
                "relative to a run alone; there is nothing to compare with"
            )
    return asked


def score(
    asked: Mapping[str, Asked],
    sets: Mapping[str, DataSet],
    models: Callable[[], Iterable[SpeedModel]],
    *,
    done: Callable[[str], None] = lambda _: None,
) -> Scores:
    """Fit each model on all rows of a data set and predict the rows of the files (`read_files`).

    `done` is told the name of every finished (data set, model).
    """
    lines, known = {}, {}
    for name, each in asked.items():
        data, rows = sets[name], each.rows.take(fit_rows(each.rows))
        for model in models():
            model.fit(data.rows.take(fit_rows(data.rows)), data.solos)
            found = prediction_lines(rows, each.solos, model.predict(rows, each.solos))
            lines[name, model.name] = found.assign(split=rows.split)
            done(f"{name}: scored {model.name}")
        known[name] = _known(each, data)
    return Scores(below_each_other(lines, "data_set", "model"), below_each_other(known, "data_set"))


def _asked(parts: list[tuple[CoRows, SoloProfiles]], data: DataSet) -> Asked:
    rows = stacked_rows([rows for rows, _ in parts])
    named = rows.split.copy()
    named[rows.split == ""] = UNNAMED
    solos = data.solos
    for _, more in parts:
        known = set(solos.keys())
        fresh = np.array([key not in known for key in more.keys()], dtype=np.bool_)  # noqa: SIM118
        solos = stacked_profiles([solos, more.take(fresh)])
    return Asked(replace(rows, split=named), solos)


def _known(asked: Asked, data: DataSet) -> pd.DataFrame:
    """As `Scores.known`, of one data set."""
    rows, known = asked.rows, data.rows.take(fit_rows(data.rows))
    scored = fit_rows(rows)
    keys, mixes, old = set(_keys(known)), set(jobs_of(known)), model_names(known, data.solos)
    fitted = scored & np.array([key in keys for key in _keys(rows)], dtype=np.bool_)
    met = scored & np.array([mix in mixes for mix in jobs_of(rows)], dtype=np.bool_)
    # What did not fit may hold jobs that have no profile.
    new_models = objects([()] * len(rows))
    of_scored = models_of(rows.take(scored), asked.solos)
    new_models[scored] = objects([tuple(set(models) - old) for models in of_scored])
    marks = (scored, ~rows.feasible, rows.feasible & ~scored, fitted, met & ~fitted)
    return pd.DataFrame({
        "split": rows.split, "gpu_type": rows.gpu_type, **dict(zip(COUNTS, marks, strict=True)),
        "new_models": new_models,
    })  # fmt: skip


def _keys(rows: CoRows) -> Iterator[tuple[object, ...]]:
    """What a row is about, whatever its speed."""
    columns = rows.gpu_type, rows.sharing, rows.share.tolist(), rows.victim, rows.aggressors
    return zip(*columns, strict=True)


HELD_OUT_PAIRS = "pair"


@dataclass(frozen=True)
class Results:
    """Of held-out folds, of rows of files, or of both."""

    predictions: pd.DataFrame  # lines of `prediction_lines` with data_set, split, model and of_file
    errors: pd.DataFrame  # measures by data_set (or set/GPU type), split, model
    counts: pd.DataFrame | None  # COUNTS, new_models by data_set (likewise), split; None: no files

    @property
    def drawn(self) -> str:
        """The model that figures and lists of faults are about: the learned one if it is there."""
        names = self.predictions.model.unique()
        return LEARNED if LEARNED in names else str(names[-1])

    def of_pairs(self) -> pd.DataFrame:
        """What that model said of held-out pairs and of rows of files.

        Rows of other folds are the same pairs, some of them twice.
        """
        held = self.predictions
        return held[(held.model == self.drawn) & ((held.split == HELD_OUT_PAIRS) | held.of_file)]


def results_of(folds: pd.DataFrame | None, files: Scores | None) -> Results:
    """Both together, one of which is there.

    A split of a file that is called like one of the folds gets ` (file)`.
    """
    predictions, known = [], None
    taken = set() if folds is None else set(zip(folds.data_set, folds.split, strict=True))

    def renamed(lines: pd.DataFrame) -> pd.DataFrame:
        own = zip(lines.data_set, lines.split, strict=True)
        return lines.assign(
            split=[f"{split} (file)" if (name, split) in taken else split for name, split in own]
        )

    if folds is not None:
        predictions.append(folds.assign(of_file=False))
    if files is not None:
        predictions.append(renamed(files.predictions).assign(of_file=True))
        known = renamed(files.known)
    every = pd.concat(predictions, ignore_index=True)
    places = every if known is None else pd.concat([every, known])
    types = places.groupby("data_set").gpu_type.nunique()
    several = set(types.index[types > 1])
    return Results(
        every, errors_of(every, several), None if known is None else _counts(known, several)
    )


def _counts(known: pd.DataFrame, several: set[str]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "data_set": part, "split": split, **rows[list(COUNTS)].sum(),
            "new_models": sorted(set().union(*rows.new_models)),
        }
        for part, own in parts_of(known, several)
        for split, rows in own.groupby("split", sort=False)
    )  # fmt: skip
