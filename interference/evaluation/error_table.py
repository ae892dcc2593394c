"""Errors as tables, one a data set and split; and where models are worst."""

from collections.abc import Hashable
from typing import Any

import numpy as np
import pandas as pd

from interference.evaluation.score_file import COUNTS, Results
from sim.report.table_text import TableText

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
