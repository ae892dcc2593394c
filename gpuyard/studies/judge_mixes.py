"""Models on mixes of up to seven jobs: `python scripts/judge_mixes.py data_dir=DIR`."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import DictConfig
from rich.table import Table

from gpuyard.launch.build import SEED, Rules, check_plain
from gpuyard.launch.start import program, start
from gpuyard.launch.terminal import table_console
from interference.evaluation.judge import HeldOut, measures
from interference.evaluation.mixes import (
    Law,
    ProductLaw,
    SumLaw,
    by_tenants,
    drawn_mixes,
    errors_by_tenants,
    judged_mixes,
    mig_rows,
    mps_rows,
    ratios,
)
from interference.fit import fresh_models
from interference.models.linear import CrowdModel
from interference.readers.miso import rows_of_miso
from interference.report.error_table import plain_json
from interference.rows import CoRows, SoloProfiles
from sim.report.files import write_atomically

RULES: Rules = SEED | {"folds": (True, 2)}
FEW = 2  # tenants, from which the laws tell more
WHOLE = 1.0  # thread limit whose times the laws are about

Told = dict[str, dict[str, dict[str, float]]]  # model or law -> "all" or tenants -> measures


@program("judge_mixes")
def main(cfg: DictConfig) -> None:
    """Judge on both sets, compare the laws, write, print."""
    launch = start(cfg)
    config = launch.config
    check_plain(config, RULES)
    rows, solos = rows_of_miso(Path(config["data_dir"]))
    mixes = mps_rows(rows)
    found: dict[str, Told] = {"laws": _laws(mixes, solos)}  # of all rows: a draw is too few
    _print("laws fitted on at most two tenants: time at 100 % over that at 14 %", found["laws"])
    if config["most_rows"] is not None:
        rng = np.random.default_rng(config["seed"])
        mixes = mixes.take(drawn_mixes(mixes, config["most_rows"], rng))
    for name, part in (("miso_mig", mig_rows(rows)), ("miso_mps", mixes)):
        found[name] = _models(part, solos, config)
        _print(f"{name}, {len(part)} rows, held-out mixes", found[name])
    write_atomically(launch.folder / "mixes.json", plain_json(found).encode())
    print(f"results in {launch.folder}")


def _models(rows: CoRows, solos: SoloProfiles, config: dict[str, Any]) -> Told:
    models = [CrowdModel(), *fresh_models(config["seed"], config["models"])]
    held = judged_mixes(rows, solos, models, folds=config["folds"], seed=config["seed"])
    return {name: _measured(each) for name, each in held.items()}


def _measured(held: HeldOut) -> dict[str, dict[str, float]]:
    parts = {str(tenants): told for tenants, told in by_tenants(held).items()}
    return {"all": measures(held)} | parts


def _laws(rows: CoRows, solos: SoloProfiles) -> Told:
    of = ratios(rows, solos, limit=WHOLE)
    laws: Iterable[Law] = (SumLaw(), ProductLaw())
    return {
        law.name: {
            str(tenants): told for tenants, told in errors_by_tenants(law, of, most=FEW).items()
        }
        for law in laws
    }


def _print(title: str, told: Told) -> None:
    shown = ("mae", "r2", "covered", "mean", "bias")
    table = Table("of", "tenants", *shown, title=title, title_justify="left")
    for name, by_part in told.items():
        for part, found in by_part.items():
            cells = (f"{found[key]:.3f}" if key in found else "" for key in shown)
            table.add_row(name, part, *cells)
    table_console().print(table)
