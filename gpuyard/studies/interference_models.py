"""Co-location models: `scripts/fit_interference.py` fits them, `judge_mixes.py` tries mixes."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from omegaconf import DictConfig

from gpuyard.launch.build import SEED, Rules, check_count, check_kinds, check_plain, check_texts
from gpuyard.launch.errors import ConfigError
from gpuyard.launch.start import program, start
from gpuyard.launch.terminal import RunCount, table_console
from interference.data_sets import DataSet, data_sets
from interference.evaluation.card import error_text, model_card, number, worst_text
from interference.evaluation.judge import (
    below_each_other,
    fit_rows,
    held_out,
    measures,
    pair_folds,
    splits,
)
from interference.evaluation.score_file import Asked, Results, read_files, results_of, score
from interference.evaluation.write import remove_report, write_figures, write_tables
from interference.fit import fit_and_report, fresh_models
from interference.learned import save_model
from interference.models.linear import CrowdModel
from interference.readers.miso import drawn_mixes, mig_rows, mps_rows, rows_of_miso
from interference.rows import CoRows, SoloProfiles
from sim.files import write_atomically
from sim.report.table_text import TableText, rich_tables

RULES: Rules = SEED | {"folds": (True, 2)}  # one fold holds nothing out


@dataclass(frozen=True)
class Choice:
    """What to fit and to judge by."""

    data_dir: Path | None
    data_sets: list[str] | None
    models: list[str] | None
    seed: int
    folds: int
    files: list[Path]  # to score
    with_folds: bool  # judge by held-out folds, and save a model


@program("fit_interference")
def fit_interference(cfg: DictConfig) -> None:
    """Fit, judge, write, print."""
    launch = start(cfg)
    config = launch.config
    given = any(word.startswith("data_dir=") for word in launch.record.overrides)
    choice = _choice(config, given=given)
    fresh_models(choice.seed, choice.models)  # refuses unknown names before minutes of work
    sets = data_sets(choice.data_dir, seed=choice.seed, names=choice.data_sets)
    asked = read_files(choice.files, sets, folder=choice.data_dir)
    fitted = sets if choice.with_folds else {name: sets[name] for name in asked}
    launch.begin()
    remove_report(launch.folder)
    print(_source(fitted, choice))
    with RunCount("fitting", _steps(sets, asked, choice), unit="steps") as count:
        report = None
        if choice.with_folds:
            report = fit_and_report(
                data_dir=choice.data_dir, seed=choice.seed, folds=choice.folds,
                names=choice.data_sets, models=choice.models, done=count.tell,
            )  # fmt: skip
        models = partial(fresh_models, choice.seed, choice.models)
        scores = score(asked, sets, models, done=count.tell) if asked else None
    results = results_of(None if report is None else report.predictions, scores)
    write_tables(results, launch.folder)
    if config["figures"]:
        write_figures(results, launch.folder)
    if report is not None:
        save_model(report.saved, launch.folder / "model.json")
        folds, seed = results_of(report.predictions, None), choice.seed
        card = model_card(folds, report.data_sets, report.saved, folds=choice.folds, seed=seed)
        write_atomically(launch.folder / "model_card.md", card.encode())
    _print_fit(results, launch.folder)


def _choice(config: dict[str, Any], *, given: bool) -> Choice:
    """`given`: the user names `data_dir`; else made-up rows may stand in for it."""
    check_plain(config, RULES)
    check_kinds(config, bool, "figures", "eval.only")
    data_dir = None if config["data_dir"] is None else Path(str(config["data_dir"]))
    named = given or (data_dir is not None and data_dir.suffix == ".csv")
    if data_dir is not None and named and not data_dir.exists():
        raise ConfigError(f"data_dir is {data_dir}, which is not there; name a file or a folder")
    files = config["eval"]["rows"]
    files = [files] if isinstance(files, str) else _names("eval.rows", files) or []
    return Choice(
        data_dir=data_dir,
        data_sets=_names("data_sets", config["data_sets"]),
        models=_names("models", config["models"]),
        seed=config["seed"],
        folds=config["folds"],
        files=[Path(file) for file in files],
        with_folds=not files or not config["eval"]["only"],
    )


def _names(key: str, value: Any, *, empty: bool = False) -> list[str] | None:
    """A list of texts, or None."""
    if value is not None:
        check_texts(
            key, value, f"like [a,b]{'' if empty else ' with a name at least'}", empty=empty
        )
    return value


def _source(sets: dict[str, DataSet], choice: Choice) -> str:
    """Whether the rows were measured, said plainly."""
    if all(data.source == "measured" for data in sets.values()):
        first = next(iter(sets))
        saved = "" if len(sets) == 1 else f"; model.json, for schedulers, on {first} alone"
        return f"fitted on MEASURED rows from {choice.data_dir}: {', '.join(sets)}{saved}"
    where = (
        "data_dir is null"
        if choice.data_dir is None
        else f"{choice.data_dir} holds no measured pairs"
    )
    return f"fitted on GENERATED rows ({where}): the errors say nothing about real GPUs"


def _steps(sets: dict[str, DataSet], asked: dict[str, Asked], choice: Choice) -> int:
    """How many times the fit tells that something is done."""
    models = len(fresh_models(choice.seed, choice.models))
    steps = models * len(asked)
    if choice.with_folds:
        for data in sets.values():
            rows = data.rows.take(fit_rows(data.rows))
            steps += models * len(splits(rows, data.solos, folds=choice.folds, seed=choice.seed))
        steps += 1  # tables for the simulator
    return steps


def _print_fit(results: Results, folder: Path) -> None:
    console = table_console()
    console.print(rich_tables(error_text(results), texts=1))
    console.print(rich_tables(worst_text(results), texts=5))
    print(f"results in {folder}")


@program("judge_mixes")
def judge_mixes(cfg: DictConfig) -> None:
    """Judge on both sets, write, print."""
    launch = start(cfg)
    config = launch.config
    check_plain(config, RULES)
    check_count("most_rows", config["most_rows"], null=True)
    fresh_models(config["seed"], _names("models", config["models"], empty=True))  # in time
    check_kinds(config, Path | None, "data_dir")
    rows, solos = rows_of_miso(Path(config["data_dir"] or "."))
    mixes = mps_rows(rows)
    launch.begin()
    if config["most_rows"] is not None:
        rng = np.random.default_rng(config["seed"])
        mixes = mixes.take(drawn_mixes(mixes, config["most_rows"], rng))
    found = {
        name: _judged(part, solos, config)
        for name, part in (("miso_mig", mig_rows(rows)), ("miso_mps", mixes))
    }
    lines = below_each_other(found, "data_set")
    table_console().print(rich_tables(_text(lines), texts=2))
    write_atomically(launch.folder / "mixes.csv", lines.to_csv(index=False).encode())
    print(f"results in {launch.folder}")


def _judged(rows: CoRows, solos: SoloProfiles, config: dict[str, Any]) -> pd.DataFrame:
    """Measures of held-out mixes by model and number of tenants, "all" of them first.

    Whole mixes are held out, also where they were run twice.
    """
    folds = list(pair_folds(rows, config["folds"], np.random.default_rng(config["seed"])))
    lines = []
    for model in (CrowdModel(), *fresh_models(config["seed"], config["models"])):
        held = held_out(model, rows, solos, folds)
        parts = (("all", held), *held.groupby(held.models.str.len()))
        lines += [{"model": model.name, "tenants": name, **measures(part)} for name, part in parts]
    return pd.DataFrame(lines)


def _text(lines: pd.DataFrame) -> TableText:
    shown = ("mae", "r2", "covered")
    blocks = []
    for name, block in lines.groupby("data_set", sort=False):
        rows = tuple(
            (of["model"], str(of["tenants"]), f"{of['rows']:.0f}",
             *(number(of[key], 3) for key in shown))
            for of in block.to_dict("records")
        )  # fmt: skip
        blocks.append((f"{name!s}, held-out mixes", rows))
    return TableText(("model", "tenants", "rows", *shown), tuple(blocks), "")
