"""Errors as tables and where models are worst; the page that goes with a fit.

The page tells data and licences, errors, where it fails, what is not known.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from interference.data_sets import DataSet
from interference.evaluation.judge import fit_rows
from interference.evaluation.score_file import COUNTS, Results
from interference.fit import LEARNED
from interference.learned import SavedModel
from sim.report.table_text import TableText, markdown_table

# Header -> measure, factor and decimals.
COLUMNS = {
    "MAPE [%]": ("mape", 100.0, 1),
    "R2": ("r2", 1.0, 3),
    "rank corr.": ("rank", 1.0, 3),
    "in 90 % [%]": ("covered", 100.0, 1),
    "width": ("width", 1.0, 3),
    "choice [%]": ("choice", 100.0, 1),
}
READING = (
    "MAE, MAPE: mean error of normalised speed, absolute and over the truth. rank corr.: "
    "Spearman's. in 90 %: share of truths in the 90 % interval; width: its mean width. choice: "
    "worth of the partners the model picks over that of the best. * smallest MAE of a block."
)


def error_text(results: Results) -> TableText:
    """A block a (data set, split), models as they were judged; notes of files stand at the end."""
    settings = []
    for (name, split), block in results.errors.groupby(["data_set", "split"], sort=False):
        any_model = block.iloc[0]
        title = f"{name}, {split} ({any_model.rows:.0f} rows)"
        if not np.isnan(any_model.choice_blind):
            title += f"; a blind choice is worth {any_model.choice_blind:.1%}"
        rows = [
            (of["model"], f"{of['mae']:.4f}",
             *(number(factor * of[key], places) for key, factor, places in COLUMNS.values()))
            for of in block.to_dict("records")
        ]  # fmt: skip
        best = int(block.mae.argmin())
        rows[best] = (rows[best][0], f"{rows[best][1]} *", *rows[best][2:])
        settings.append((title, tuple(rows)))
    headers = ("model", "MAE", *COLUMNS)
    return TableText(headers, tuple(settings), "\n".join([READING, *_notes(results)]))


def number(value: float, decimals: int) -> str:
    """`-` where it says nothing."""
    return "-" if np.isnan(value) else f"{value:.{decimals}f}"


def _notes(results: Results) -> list[str]:
    """What is to be known of rows of files, by data set and split."""
    if results.counts is None:
        return []
    return [
        f"{of['data_set']}, {of['split']}: {_note(of)}" for of in results.counts.to_dict("records")
    ]


def _note(of: dict[Hashable, Any]) -> str:
    sentences = ["None of the rows was fitted."]
    if of["fitted_rows"]:
        sentences = [
            f"IN-SAMPLE: {of['fitted_rows']} of {of['scored_rows']} rows were fitted too, so these "
            "errors are too small."
        ]
    if of["met_rows"]:
        sentences.append(
            f"Of {of['met_rows']} rows the same jobs were fitted in other roles or on another GPU "
            "type."
        )
    if of["new_models"]:
        sentences.append(f"Models that no fitted row has: {', '.join(of['new_models'])}.")
    if of["infeasible_rows"] or of["unmeasured_rows"]:
        sentences.append(
            f"Left out: {of['infeasible_rows']} infeasible rows, {of['unmeasured_rows']} without a "
            "measured speed relative to a run alone."
        )
    return " ".join([*sentences, *([] if of["scored_rows"] else ["Nothing is left to score."])])


def error_lines(results: Results) -> pd.DataFrame:
    """A line a (data set, split, model), numbers in full; the counts are of files only."""
    keys = ["data_set", "split"]
    if results.counts is None:
        return results.errors.assign(**dict.fromkeys(COUNTS[1:]))
    counts = results.counts[[*keys, *COUNTS[1:]]]
    return results.errors.merge(counts, on=keys, how="left")


MOST = 10
WORST = ("data_set", "split", "gpu_type", "victim", "aggressors", "measured", "predicted", "sd")


def worst_rows(results: Results) -> pd.DataFrame:
    """The largest errors over all data sets, on held-out pairs and rows of files."""
    held = results.of_pairs()
    error = (held.predicted - held.measured).abs()
    worst = held.loc[error.nlargest(MOST).index, list(WORST)]
    return worst.assign(aggressors=worst.aggressors.map(" + ".join))


def by_victim_model(results: Results) -> pd.DataFrame:
    """Errors by data_set, split and victim_model, worst of each split first.

    `bias` is the mean of predicted - measured.
    """
    held = results.predictions[results.predictions.model == results.drawn]
    held = held.assign(victim_model=held.models.str[0], bias=held.predicted - held.measured)
    held["mae"] = held.bias.abs()
    by_model = held.groupby(["data_set", "split", "victim_model"], sort=False, as_index=False)
    found = by_model.agg(rows=("mae", "size"), mae=("mae", "mean"), bias=("bias", "mean"))
    splits = found.groupby(["data_set", "split"], sort=False)
    return pd.concat(
        [part.sort_values("mae", ascending=False, kind="stable") for _, part in splits]
    )


def worst_text(results: Results) -> TableText:
    """`worst_rows` for a terminal or a page."""
    headers = "data set", "split", "GPU type", "victim", "beside", "measured", "predicted", "sd"
    rows = tuple(
        (*row[:5], *(f"{value:.3f}" for value in row[5:]))
        for row in worst_rows(results).itertuples(index=False, name=None)
    )
    title = f"largest errors of {results.drawn} on pairs and rows of files"
    return TableText(headers, ((title, rows),), "")


@dataclass(frozen=True)
class Origin:
    """What has to be said wherever results of a data set are shown."""

    published: str
    licence: str
    caveat: str


ORIGINS = {
    "gavel": Origin(
        "Narayanan et al., OSDI 2020; stanford-futuredata/gavel",
        "MIT",
        "V100 speeds are cut at 1 in the source; a pair that is not feasible either did not fit "
        "or was not run",
    ),
    "lucid": Origin(
        "Hu et al., ASPLOS 2023; S-Lab-System-Group/Lucid",
        "S-Lab License 1.0: NON-COMMERCIAL use only",
        "speeds of PPO and TD3 are 1 by convention and are left out as victims; what was measured "
        "while two jobs ran is not read",
    ),
    "deepshare": Origin(
        "Ryu and Eo, ICPADS 2023; gajagajago/deepshare",
        "Apache-2.0",
        "GPU type and batch are not in the files; jobs share links, not GPUs",
    ),
    "generated": Origin(
        "drawn from the physics that ships with this project",
        "that of this project",
        "generated, not measured: its errors say nothing about real GPUs",
    ),
}
YOURS = Origin("rows of your own", "not known to this program", "")


def origin_of(data_set: str) -> Origin:
    """Of a published or generated set; any other is the user's."""
    return ORIGINS.get(data_set, YOURS)


BASELINES = ("constant", "linear")
WORST_MODELS = 3  # victims' models that are listed of each split
Cells = tuple[str, ...]

CHOSEN = """\
`learned` is a blend whose members depend on whether all models of a row were fitted: if so, a
Gaussian process has most of the say and two kinds of trees the rest; if not, trees over features
and mixed effects share it. What a fit chooses (parameters of the process, the weight of mixed
effects, the width of intervals for new models) it chooses on its own fitted rows, so that no judged
row takes part: nested cross-validation. Which members there are, and their fixed settings, was
decided by people who had seen errors on the published sets; on those the errors are a little too
good for that."""

SPLITS = """\
- `pair`: {folds} folds. No fitted row has the same jobs together, in whatever roles and on
  whatever GPU type; each job may have been fitted in other company.
- `model`: one fold a model that some row lacks. No fitted row has that model, as victim or
  aggressor, in any batch size. A row of two models is judged twice.
- `gpu_type`: one fold a type, where a set has several. No fitted row is of that type; each pair
  may have been fitted on another."""

LIMITS = """\
- Rows are of training jobs on the GPU types above. Another type, or a job much unlike these, gets
  an answer that nothing here has tested; features are cut to the fitted range.
- The published sets have pairs. Three and more tenants of one GPU, and gangs that share GPUs, are
  put together from pairs by the simulator.
- A speed is a mean over a run; nothing is known of its course in time.
- `model.json` answers only for its own profiles and GPU types. Whether a placement is possible is
  the physics' matter, not the model's."""

UNKNOWN = """\
- How far the figures hold for other drivers, frameworks and inputs: the sources give one each.
- The noise of the measurements: hardly a pair was measured twice, so that no error can be compared
  with it.
- The models of your jobs: the split `model` is the nearest thing to a job that nobody measured,
  over a handful of models."""


def model_card(
    results: Results, sets: Mapping[str, DataSet], saved: SavedModel, *, folds: int, seed: int
) -> str:
    """Markdown, of held-out folds; `saved` is of the first of `sets`."""
    first = next(iter(sets))
    parts = [
        "# Co-location model",
        *(["**Fitted on generated rows: the errors say nothing about real GPUs.**"]
          if saved.source == "generated" else []),
        "Predicts normalised speed: that of a job beside others over its speed alone. Seed "
        f"{seed}; `config.yaml` and `record.json` beside this page tell the rest of the run.",
        "## Data", *_data(sets),
        *(["## How models were chosen", CHOSEN] if results.drawn == LEARNED else []),
        "## Splits", SPLITS.format(folds=folds),
        "## Errors", _errors(results),
        "MAE of normalised speed; every model and measure: `error_table.md`.",
        "## Intervals", _intervals(results),
        "A 90 % interval is prediction ± 1.645 standard deviations. Figures, where there are any: "
        "`reliability_*.png`.",
        "## Choosing partners", _choices(results),
        "Mean over jobs of the measured worth (mean speed of the group) of the partner that the "
        "model picks among the judged ones, over that of the best. Blind: any partner.",
        "## Worst at", _worst(results),
        "## What `model.json` holds", _held(saved, first),
        "## Limits", LIMITS,
        "## Not known", UNKNOWN,
    ]  # fmt: skip
    return "\n\n".join(parts) + "\n"


def _data(sets: Mapping[str, DataSet]) -> Iterator[str]:
    rows = []
    for name, data in sets.items():
        kept, every = fit_rows(data.rows), data.rows
        cells = (
            name, f"{kept.sum()}", f"{(~every.feasible).sum()}",
            f"{(every.feasible & ~kept).sum()}", ", ".join(sorted(set(every.gpu_type))),
            origin_of(name).published, origin_of(name).licence,
        )  # fmt: skip
        rows.append(cells)
    headers = (
        "data set", "rows fitted", "infeasible", "not measured", "GPU types", "published", "licence"
    )  # fmt: skip
    yield _table(headers, rows)
    caveats = {name: origin_of(name).caveat for name in sets}
    if any(caveats.values()):
        yield "\n".join(f"- {name}: {caveat}." for name, caveat in caveats.items() if caveat)
    yield "No measured row is part of the project; the rows were read from the user's own folder."


def _errors(results: Results) -> str:
    rows, shown = [], tuple(dict.fromkeys((*BASELINES, results.drawn)))
    for place, block in _blocks(results):
        maes = (number(block.mae.get(name, np.nan), 3) for name in shown)
        of_all = f"{block.mae.idxmin()} {block.mae.min():.3f}"
        rows.append((*place, f"{block.rows.iloc[0]:.0f}", *maes, of_all))
    headers = "data set", "split", "rows", *shown, "best of all"
    return _table(headers, rows, texts=2)


def _intervals(results: Results) -> str:
    rows = [
        (*place, f"{block.covered[results.drawn]:.1%}", f"{block.width[results.drawn]:.3f}")
        for place, block in _blocks(results)
    ]
    return _table(("data set", "split", "inside 90 %", "mean width"), rows, texts=2)


def _choices(results: Results) -> str:
    rows, shown = [], tuple(dict.fromkeys((results.drawn, "linear")))
    for place, block in _blocks(results):
        found = [block.choice.get(name, np.nan) for name in shown]
        found.append(block.choice_blind[results.drawn])
        if not np.isnan(found[0]):
            rows.append((*place, *("-" if np.isnan(each) else f"{each:.1%}" for each in found)))
    return _table(("data set", "split", *shown, "blind"), rows, texts=2)


def _blocks(results: Results) -> Iterator[tuple[Cells, pd.DataFrame]]:
    """Data set or part of it and split; measures by model."""
    for (part, split), block in results.errors.groupby(["data_set", "split"], sort=False):
        yield (str(part), str(split)), block.set_index("model")


def _worst(results: Results) -> str:
    single = worst_text(results)
    by_model = by_victim_model(results).groupby(["data_set", "split"], sort=False)
    models = [
        (of["data_set"], of["split"], of["victim_model"], str(of["rows"]), f"{of['mae']:.3f}",
         f"{of['bias']:+.3f}")
        for of in by_model.head(WORST_MODELS).to_dict("records")
    ]  # fmt: skip
    about = f"Of `{results.drawn}`: the largest errors on held-out pairs, and the "
    return "\n\n".join(
        [
            f"{about}{WORST_MODELS} worst models of victims of every split (bias: predicted - "
            "measured). All models: `worst_by_model.csv`.",
            _table(single.headers, single.settings[0][1], texts=5),
            _table(("data set", "split", "victim's model", "rows", "MAE", "bias"), models, texts=3),
        ]
    )


def _held(saved: SavedModel, first: str) -> str:
    cells = saved.infeasible.size
    return (
        f"Tables over {len(saved.profiles)} profiles on {', '.join(saved.gpu_types)}, fitted on "
        f"`{first}`, of the models {', '.join(saved.norm_speed)}. Every tried pair is predicted "
        "by a fold that did not see it, so the errors of the split `pair` are those of the file. "
        f"{int(saved.infeasible.sum())} of {cells} ordered (type, pair) cells are marked as not "
        "fitting together."
    )


def _table(headers: Cells, rows: Sequence[Cells], *, texts: int = 1) -> str:
    return "\n".join(markdown_table(headers, rows, texts=texts))
