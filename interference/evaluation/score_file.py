"""Models fitted on all rows of a data set, scored on rows of any file; results of all kinds."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from interference.data_sets import DataSet, rows_of_file
from interference.evaluation.judge import Errors, HeldOut, Judged, fit_rows, measures, model_names
from interference.fit import LEARNED
from interference.models.encoding import Prediction, SpeedModel
from interference.rows import CoRows, SoloProfiles, jobs_of, stacked_profiles, stacked_rows
from sim.arrays import BoolArray
from sim.errors import PhysicsError

UNNAMED = "file"  # split of rows whose file names none


@dataclass(frozen=True)
class Counts:
    """Rows of one split of the files, and what the fit knew of them."""

    scored: int
    infeasible: int  # left out: the group did not fit
    unmeasured: int  # left out: set by the source, or relative to something else than a run alone
    fitted: int  # of the scored: the same victim, aggressors and GPU type were fitted
    met: int  # of the others: the same jobs were fitted in other roles or on another GPU type
    new_models: tuple[str, ...]  # of the scored rows: no fitted row has them


@dataclass(frozen=True)
class Scores:
    """What was found, by data set; counts and errors also by `set/GPU type`."""

    judged: dict[str, Judged]  # data set -> split of the file -> model -> predictions
    errors: dict[str, Errors]
    counts: dict[str, dict[str, Counts]]  # -> split


@dataclass(frozen=True)
class Asked:
    """All rows of the files that belong to one data set."""

    rows: CoRows
    solos: SoloProfiles  # of the data set and the files


def read_files(
    paths: Sequence[Path], sets: Mapping[str, DataSet], *, folder: Path | None
) -> dict[str, Asked]:
    """Rows of several files by data set; rows without a split are of the split `UNNAMED`.

    Args:
        paths: files in the columns of `data_sets.LAYOUTS`.
        sets: data sets that models can be fitted on, by the `source` of their rows.
        folder: of the published runs alone.

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
    """Fit each model on all rows of a data set and predict the rows of the files.

    Args:
        asked: data set -> rows, of `read_files`.
        sets: data sets by name.
        models: fresh models, in the order of tables.
        done: told the name of every finished (data set, model).
    """
    scores = Scores({}, {}, {})
    for name, each in asked.items():
        data = sets[name]
        known = data.rows.take(fit_rows(data.rows))
        judged: Judged = {split: {} for split in _splits(each.rows.take(fit_rows(each.rows)))}
        for model in models():
            model.fit(known, data.solos)
            for split, held in _predicted(model, each):
                judged[split][model.name] = held
            done(f"{name}: scored {model.name}")
        scores.judged[name] = judged
        for part, kind in _parts(name, data.rows, each.rows):
            scores.errors[part], scores.counts[part] = _errors(judged, kind), {}
            for split in _splits(each.rows):
                here = each.rows.take(_of(each.rows, split, kind))
                if len(here):
                    scores.counts[part][split] = _counts(replace(each, rows=here), known, data)
    return scores


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


def _splits(rows: CoRows) -> list[str]:
    """In the order of the file."""
    return list(dict.fromkeys(rows.split))


def _predicted(model: SpeedModel, asked: Asked) -> Iterator[tuple[str, HeldOut]]:
    rows = asked.rows.take(fit_rows(asked.rows))
    told = model.predict(rows, asked.solos)
    for split in _splits(rows):
        here = rows.split == split
        yield split, HeldOut(rows.take(here), Prediction(told.norm_speed[here], told.sd[here]))


def _parts(name: str, fitted: CoRows, asked: CoRows) -> Iterator[tuple[str, str | None]]:
    """The data set, and where it has several GPU types each that is asked for."""
    yield name, None
    if len({*fitted.gpu_type, *asked.gpu_type}) > 1:
        yield from ((f"{name}/{kind}", kind) for kind in sorted(set(asked.gpu_type)))


def _of(rows: CoRows, split: str, kind: str | None) -> BoolArray:
    here = rows.split == split
    return np.asarray(here if kind is None else here & (rows.gpu_type == kind))


def _errors(judged: Judged, kind: str | None) -> Errors:
    found: Errors = {}
    for split, by_model in judged.items():
        for model, held in by_model.items():
            part = held if kind is None else held.take(_of(held.rows, split, kind))
            if len(part.rows):
                found.setdefault(split, {})[model] = measures(part)
    return found


def _counts(here: Asked, known: CoRows, data: DataSet) -> Counts:
    rows = here.rows
    scored = rows.take(fit_rows(rows))
    keys, mixes = set(_keys(known)), set(jobs_of(known))
    fitted = np.array([key in keys for key in _keys(scored)], dtype=np.bool_)
    met = np.array([mix in mixes for mix in jobs_of(scored)], dtype=np.bool_)
    old, asked = model_names(known, data.solos), model_names(scored, here.solos)
    return Counts(
        scored=len(scored),
        infeasible=int((~rows.feasible).sum()),
        unmeasured=int((rows.feasible & ~fit_rows(rows)).sum()),
        fitted=int(fitted.sum()),
        met=int((met & ~fitted).sum()),
        new_models=tuple(sorted(asked - old)),
    )


def _keys(rows: CoRows) -> Iterator[tuple[object, ...]]:
    """What a row is about, whatever its speed."""
    columns = rows.gpu_type, rows.sharing, rows.share.tolist(), rows.victim, rows.aggressors
    return zip(*columns, strict=True)


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
