"""Where a training's numbers go beside learning_curve.csv: `logger=tensorboard|csv|wandb|mlflow`.

`tensorboard --logdir RUN/tensorboard` shows the first; wandb and mlflow are packages of their own,
set up by their own environment variables (WANDB_MODE, MLFLOW_TRACKING_URI, ...).
"""

import importlib.util
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from launch_errors import ConfigError, nearest

BOARD = "tensorboard"
FLUSH_EVERY_S = 10  # to be watched while it trains
PROJECT = "gpuyard"  # of wandb, and the experiment of mlflow
PACKAGES = {"tensorboard": "tensorboardX", "csv": "csv", "wandb": "wandb", "mlflow": "mlflow"}


def check_logger(name: object) -> None:
    """Refuse a logger that nobody knows or that is not installed.

    Raises:
        ConfigError: with the loggers, or with the command that installs it.
    """
    if name not in PACKAGES:
        hint = nearest(str(name), PACKAGES)
        fix = f"did you mean {hint}?" if hint else f"it must be one of {', '.join(PACKAGES)}"
        raise ConfigError(f"logger is {name!r}; {fix}")
    if importlib.util.find_spec(PACKAGES[str(name)]) is None:
        raise ConfigError(f"logger={name} needs a package: pip install {PACKAGES[str(name)]}")


class Logger(Protocol):
    """Takes the rows of learning_curve.csv."""

    def write(self, row: Mapping[str, float | None]) -> None:
        """Numbers of one iteration, under their names there; NaN is left out."""

    def close(self) -> None:
        """Finish."""


def logger_of(name: str, folder: Path, first: int, config: Mapping[str, Any]) -> Logger:
    """The logger of that name; `first` as in `Board`, `config` is shown beside the numbers."""
    if name == "wandb":
        return Wandb(folder, config)
    if name == "mlflow":
        return Mlflow(folder, config)
    return Board(folder, first) if name == BOARD else Nowhere()


class Board:
    """One event file a start; a resumed run adds another, which replaces what it does again."""

    def __init__(self, folder: Path, first: int) -> None:
        """`first`: the iteration of the first row; later ones of earlier starts are dropped."""
        from tensorboardX import SummaryWriter  # only trainings need it

        path = str(folder / BOARD)
        self._writer = SummaryWriter(path, purge_step=first, flush_secs=FLUSH_EVERY_S)

    def write(self, row: Mapping[str, float | None]) -> None:
        """As scalars."""
        for name, value in _known(row).items():
            self._writer.add_scalar(name, value, _step(row))

    def close(self) -> None:
        """Finish the file."""
        self._writer.close()


class Wandb:
    """One run of Weights & Biases; the same folder goes on with the same one."""

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        """Begin, or go on."""
        import wandb

        name = folder.name
        self._run = wandb.init(
            project=PROJECT, name=name, id=name, resume="allow", dir=str(folder),
            config=dict(config),
        )  # fmt: skip

    def write(self, row: Mapping[str, float | None]) -> None:
        """As metrics."""
        self._run.log(_known(row), step=_step(row))

    def close(self) -> None:
        """Send what is left."""
        self._run.finish()


class Mlflow:
    """A run of MLflow, where its environment variables say."""

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        """Begin."""
        import mlflow

        self._mlflow = mlflow
        mlflow.set_experiment(PROJECT)
        mlflow.start_run(run_name=folder.name)
        mlflow.log_dict(dict(config), "config.yaml")

    def write(self, row: Mapping[str, float | None]) -> None:
        """As metrics."""
        self._mlflow.log_metrics(_known(row), step=_step(row))

    def close(self) -> None:
        """End it."""
        self._mlflow.end_run()


class Nowhere:
    """learning_curve.csv is written anyway."""

    def write(self, row: Mapping[str, float | None]) -> None:
        """Nothing more."""

    def close(self) -> None:
        """Nothing."""


def _step(row: Mapping[str, float | None]) -> int:
    return int(row["iteration"] or 0)


def _known(row: Mapping[str, float | None]) -> dict[str, float]:
    return {
        name: float(value)
        for name, value in row.items()
        if name != "iteration" and value is not None and not math.isnan(value)
    }
