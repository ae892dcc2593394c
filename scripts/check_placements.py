"""Network physics against measurements: `python scripts/check_placements.py data_dir=DIR`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import hydra
import numpy as np
from launch import Launch, run_main, start
from launch_errors import ConfigError
from omegaconf import DictConfig
from placement_report import (
    error_rows,
    error_table,
    law_rows,
    plain_table,
    write_errors,
    write_figure,
)
from plain_rules import check_plain
from terminal import table_console

from sim.physics.placement_check import Prediction, check_split, fold_splits, scale_up_split
from sim.physics.placement_costs import Costs, Machines, link_costs, table_costs
from sim.physics.placement_rows import READERS, MeasuredStep
from sim.physics.sharing_check import check_laws, read_network_pairs

RULES = {"seed": (True, 0), "folds": (True, 2), "scale_up_gpus": (True, 1)}


@hydra.main(version_base=None, config_path="../conf", config_name="check_placements")
def main(cfg: DictConfig) -> None:
    """Read, fit, predict, write."""
    launch = start(cfg)
    check_plain(launch.config, RULES)
    found: list[Prediction] = []
    for read in READERS.values():
        steps = read(Path(launch.config["data_dir"]))
        for gpu_type in sorted({step.gpu_type for step in steps}):
            found += _check(launch, [step for step in steps if step.gpu_type == gpu_type])
    write_errors(launch.folder / "placement_errors.csv", error_rows(found, by_app=True))
    rows = error_rows(found, by_app=False)
    write_errors(launch.folder / "placement_errors_by_type.csv", rows)
    write_figure(launch.folder / "placement_errors.png", found)
    table_console().print(error_table(rows))
    _check_sharing(launch)
    print(f"{len(found):,} predictions of MEASURED steps; results in {launch.folder}")


def _check_sharing(launch: Launch) -> None:
    """Laws of sharing links against measured pairs."""
    config = launch.config
    pairs = read_network_pairs(Path(config["data_dir"]))
    laws = check_laws(pairs, config["folds"], np.random.default_rng(config["seed"]))
    write_errors(launch.folder / "sharing_errors.csv", law_rows(laws))
    title = "speed beside another job on the network, held-out pairs"
    table_console().print(plain_table(law_rows(laws), title))


def _check(launch: Launch, steps: list[MeasuredStep]) -> list[Prediction]:
    """Every split of one source and GPU type."""
    config = launch.config
    rng = np.random.default_rng(config["seed"])
    splits = [
        *fold_splits(steps, config["folds"], rng),
        scale_up_split(steps, config["scale_up_gpus"]),
    ]
    models = _models(launch, steps)
    return [each for split in splits for each in check_split(steps, split, models)]


def _models(launch: Launch, steps: list[MeasuredStep]) -> dict[str, Sequence[Costs]]:
    """Costs of each network model; `links_fitted` tries several NIC rates."""
    config, placements = launch.config, [step.placement for step in steps]
    plain = Machines(**config["plain_machines"])
    told = _machines(config, steps[0].gpu_type)
    links = launch.build("models.links")
    nics = [told["intra_gbps"] * factor for factor in config["nic_factors"]]
    return {
        "none": [table_costs(launch.build("models.none"), plain, placements)],
        "alpha_beta": [table_costs(launch.build("models.alpha_beta"), plain, placements)],
        "links": [link_costs(links, Machines(**told), placements)],
        "links_fitted": [
            link_costs(links, Machines(**(told | {"nic_gbps": nic})), placements) for nic in nics
        ],
    }


def _machines(config: dict[str, Any], gpu_type: str) -> dict[str, Any]:
    if gpu_type not in config["machines"]:
        raise ConfigError(
            f"machines has no entry for GPU type {gpu_type!r} of the measured files; add one with "
            "gpus_per_server, intra_gbps, nic_gbps and inside"
        )
    return dict(config["machines"][gpu_type])


if __name__ == "__main__":
    run_main(main)
