"""Fits every co-location model, judges it on held-out rows and saves the best."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from interference.additive import AdditiveModel
from interference.boosting import BoostingModel
from interference.constant import ConstantModel
from interference.cross_fit import cross_fitted_table
from interference.dataset import ColocationRows, csv_rows, gavel_rows
from interference.evaluate import Measures, held_out_errors, pair_folds, profile_folds
from interference.feasibility import predicted_infeasible
from interference.generated import generated_rows
from interference.linear import LinearModel
from interference.model import SpeedModel
from interference.model_card import model_card
from interference.residual_trees import ResidualTreesModel
from interference.saved_model import SavedModel, save_model
from sim.arrays import FloatArray
from sim.physics.gavel_files import PAIRS_FILE

Errors = dict[str, dict[str, Measures]]  # split -> model -> measures


@dataclass(frozen=True)
class FitReport:
    """What a fit found and where it is."""

    source: str  # "measured" or "generated"
    best: str
    table: list[dict[str, str | float]]  # one row a (split, model): mae and r2 by GPU type
    files: tuple[Path, ...]


def fit_and_report(*, data_dir: Path | None, out_dir: Path, seed: int, folds: int) -> FitReport:
    """Fit on measured rows where there are any, else on generated rows.

    Writes `model.json`, `errors.json` and `model_card.md` into `out_dir`.

    Args:
        data_dir: folder with Gavel's pairs, or a csv file with the columns of `dataset`.
        out_dir: made if missing.
        seed: of folds, models and generated rows.
        folds: of the held-out errors and of the saved predictions.
    """
    rows, data_set = load_rows(data_dir, seed=seed)
    errors = judge(rows, seed=seed, folds=folds)
    saved = fit_saved(rows, errors, seed=seed, folds=folds, keep_observed=True)
    out_dir = Path(out_dir)
    out_dir.mkdir(parents=True, exist_ok=True)
    files = (out_dir / "model.json", out_dir / "errors.json", out_dir / "model_card.md")
    save_model(saved, files[0])
    files[1].write_text(json.dumps({data_set: errors}, indent=2) + "\n", encoding="utf-8")
    table = error_table(errors)
    files[2].write_text(model_card(saved, data_set, table, len(rows), folds), encoding="utf-8")
    return FitReport(source=rows.source, best=saved.learned, table=table, files=files)


def load_rows(data_dir: Path | None, *, seed: int) -> tuple[ColocationRows, str]:
    """Rows and the name of the data set."""
    if data_dir is not None and Path(data_dir).suffix == ".csv":
        return csv_rows(data_dir), Path(data_dir).stem
    if data_dir is not None and (Path(data_dir) / PAIRS_FILE).is_file():
        return gavel_rows(data_dir), "gavel"
    return generated_rows(np.random.default_rng(seed)), "generated"


def models(seed: int) -> list[SpeedModel]:
    """A fresh one of every kind, simplest first."""
    return [
        ConstantModel(),
        AdditiveModel(),
        LinearModel(),
        BoostingModel(seed=seed),
        ResidualTreesModel(seed=seed),
    ]


def judge(rows: ColocationRows, *, seed: int, folds: int) -> Errors:
    """Errors of every model on the same folds, by split."""
    fit_rows = rows.take(rows.feasible)
    splits = {
        "held_out_pairs": list(pair_folds(fit_rows, folds, np.random.default_rng(seed))),
        "held_out_profiles": list(profile_folds(fit_rows, folds, np.random.default_rng(seed))),
    }
    return {
        split: {model.name: held_out_errors(model, fit_rows, parts) for model in models(seed)}
        for split, parts in splits.items()
    }


def fit_saved(
    rows: ColocationRows, errors: Errors, *, seed: int, folds: int, keep_observed: bool
) -> SavedModel:
    """Cross-fitted tables of the additive and linear models and of the best of `errors`."""
    by_model = errors["held_out_pairs"]
    best = min(by_model, key=lambda name: _mean_type_mae(by_model[name]))
    fit_rows = rows.take(rows.feasible)
    tables: dict[str, FloatArray] = {}
    for model in models(seed):
        if model.name in ("additive", "linear", best):
            rng = np.random.default_rng(seed)  # equal folds for every model
            tables[model.name] = cross_fitted_table(model, fit_rows, folds=folds, rng=rng)
    return SavedModel(
        gpu_types=rows.gpu_types,
        profiles=rows.profiles,
        norm_speed=tables,
        infeasible=predicted_infeasible(rows, keep_observed=keep_observed),
        learned=best,
        source=rows.source,
    )


def error_table(errors: Errors) -> list[dict[str, str | float]]:
    """Plain rows to print."""
    table: list[dict[str, str | float]] = []
    for split, by_model in errors.items():
        for name, measured in by_model.items():
            row: dict[str, str | float] = {"split": split, "model": name}
            for group, values in measured.items():
                row[f"mae_{group}"] = round(values["mae"], 4)
                row[f"r2_{group}"] = round(values["r2"], 3)
            table.append(row)
    return table


def _mean_type_mae(measured: Measures) -> float:
    return float(np.mean([values["mae"] for group, values in measured.items() if group != "all"]))
