"""What a training tells: lines and bars, the chosen loggers, rivals in the curve."""

import csv
import errno
import importlib.util
import logging
import math
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from hydra.core.global_hydra import GlobalHydra
from rich.progress import Progress

from gpuyard.evaluation.lineup import Contender, lineup_of
from gpuyard.evaluation.task import Task, run_task, setting_text
from gpuyard.launch.errors import ConfigError, instead
from gpuyard.launch.start import going_on
from gpuyard.launch.terminal import clock_text, error_console, phase_bars
from marl.rllib.checkpoint import FOLDER, JUDGED, checkpoints
from marl.training.spec import CheckpointError, TrainingError
from sim.errors import GpuYardError
from sim.files import csv_text, known_cells, write_atomically
from sim.report.run_folder import Record
from sim.times import HOUR_S

if TYPE_CHECKING:
    from marl.rllib.trainer import Iteration  # torch and Ray, which take seconds

log = logging.getLogger(__name__)

BOARD = "tensorboard"
FLUSH_EVERY_S = 10  # to be watched while it trains
PROJECT = "gpuyard"  # of wandb, and the experiment of mlflow
PACKAGES = {"tensorboard": "tensorboardX", "csv": "csv", "wandb": "wandb", "mlflow": "mlflow"}


def check_logger(name: object) -> None:
    """Raise ConfigError for a logger that nobody knows or that is not installed."""
    if name not in [*PACKAGES]:  # which a list can be asked of, too
        raise ConfigError(f"logger is {name!r}; {instead(name, PACKAGES)}")
    if importlib.util.find_spec(PACKAGES[str(name)]) is None:
        raise ConfigError(f"logger={name} needs a package: pip install {PACKAGES[str(name)]}")


SERVICES = {  # -> what keeps it on this machine
    "wandb": "WANDB_MODE=offline",
    "mlflow": "MLFLOW_TRACKING_URI=sqlite:///mlflow.db",
}

CURVE, POLICY = "learning_curve.csv", "policy"


def write_rows(
    folder: Path, columns: Sequence[str], rows: Sequence[Mapping[str, float | None]]
) -> None:
    """Write the learning curve, whole or not at all; a cell is empty where there is no number."""
    known = (known_cells(row.get(name) for name in columns) for row in rows)
    write_atomically(folder / CURVE, csv_text(columns, known).encode())


def adopted(earlier: Path, folder: Path) -> list[dict[str, Any]] | None:
    """Rows of an earlier run's curve, whose best policy is copied to go on with in `folder`.

    Returns:
        None, told in a warning, where it has no curve or no policy.

    Raises:
        CheckpointError: a line of the curve cannot be read.
    """
    curve, best = earlier / CURVE, earlier / POLICY
    if not (curve.is_file() and best.is_dir()):
        log.warning("%s has no learning curve and policy: only its checkpoint goes on", earlier)
        return None
    if best.resolve() != (folder / POLICY).resolve():
        (folder / POLICY / JUDGED).unlink(missing_ok=True)  # of an earlier policy
        shutil.copytree(best, folder / POLICY, dirs_exist_ok=True)
    with curve.open(newline="", encoding="utf-8") as file:
        lines, rows = csv.DictReader(file), []
        for row in lines:
            try:
                rows.append({key: _number(cell) for key, cell in row.items()})
            except (AttributeError, ValueError):  # of a short line, or a long one
                raise CheckpointError(
                    f"{curve}, line {lines.line_num}: has what is no number, or not as many cells "
                    "as line 1; mend or remove the line, or begin anew in another folder"
                ) from None
    return rows


FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def full_disk(error: OSError, folder: Path, record: Record) -> TrainingError:
    """What is told of a full disk: what stays, and how to go on; `error` may name no file."""
    last = [path.name for path in checkpoints(folder).values()][-1:]
    kept = f"{last[0]} stays" if last else "there is no checkpoint yet"
    where, why = error.filename or folder / FOLDER, os.strerror(error.errno or 0)
    on = going_on(record, folder, sys.argv)
    return TrainingError(f"{where}: cannot be written ({why}); {kept}; make room\n{on}")


def spent_s(rows: Sequence[Mapping[str, Any]]) -> float:
    """Wall time of an earlier run's curve, which a resume goes on from."""
    return max((row["wall_s"] or 0.0 for row in rows), default=0.0)


def _number(cell: str) -> float | None:
    """What `write_rows` wrote."""
    if cell == "":
        return None
    return int(cell) if cell.isdigit() else float(cell)


@dataclass(frozen=True)
class Logger:
    """Takes the rows of learning_curve.csv."""

    put: Callable[[dict[str, float], int], object]  # numbers by name, and the iteration
    close: Callable[[], object]

    def write(self, row: Mapping[str, float | None]) -> None:
        """Numbers of one iteration, under their names there; NaN is left out."""
        known = {
            name: float(value)
            for name, value in row.items()
            if name != "iteration" and value is not None and not math.isnan(value)
        }
        self.put(known, int(row["iteration"] or 0))


def logger_of(name: str, folder: Path, first: int, config: Mapping[str, Any]) -> Logger:
    """The logger of that name.

    Args:
        name: one of PACKAGES.
        folder: of the run.
        first: iteration of the first row; a resumed run drops later ones of earlier starts.
        config: shown beside the numbers.

    Raises:
        ConfigError: a service refuses, for want of a login or of a place for example.
    """
    if name not in SERVICES:  # of `csv` learning_curve.csv is all
        nothing = Logger(lambda *_: None, lambda: None)
        return _board(folder, first) if name == BOARD else nothing
    try:
        return (_wandb if name == "wandb" else _mlflow)(folder, dict(config))
    except Exception as error:  # of classes of their own
        raise ConfigError(
            f"logger={name} cannot begin ({' '.join(str(error).split())}); set its environment "
            f"variables ({SERVICES[name]}), or take logger={BOARD}"
        ) from error


def _board(folder: Path, first: int) -> Logger:
    """One event file a start; a resumed run adds another, which replaces what it does again."""
    from tensorboardX import SummaryWriter  # only trainings need it

    writer = SummaryWriter(str(folder / BOARD), purge_step=first, flush_secs=FLUSH_EVERY_S)

    def put(known: dict[str, float], iteration: int) -> None:
        for name, value in known.items():
            writer.add_scalar(name, value, iteration)

    return Logger(put, writer.close)


def _wandb(folder: Path, config: dict[str, Any]) -> Logger:
    """One run of Weights & Biases; the same folder goes on with the same one."""
    import wandb

    run = wandb.init(
        project=PROJECT, name=folder.name, id=folder.name, resume="allow", dir=str(folder),
        config=config,
    )  # fmt: skip
    return Logger(lambda known, iteration: run.log(known, step=iteration), run.finish)


def _mlflow(folder: Path, config: dict[str, Any]) -> Logger:
    """A run of MLflow, where its environment variables say."""
    import mlflow

    mlflow.set_experiment(PROJECT)
    mlflow.start_run(run_name=folder.name)
    mlflow.log_dict(config, "config.yaml")
    return Logger(
        lambda known, iteration: mlflow.log_metrics(known, step=iteration), mlflow.end_run
    )


SHORT = 10.0  # returns below it are told to three decimals


def training_bars() -> Progress:
    """A bar a phase; nothing where standard error is no terminal (see `Iterations`)."""
    return phase_bars("{task.percentage:.0f}%", console=error_console(), only_drawn=True)


class Iterations:
    """Tells how far PPO is."""

    def __init__(self, progress: Progress, *, made: int, total: int, until: float | None) -> None:
        """`made` iterations of `total` are there; it ends at `until` of the monotonic clock."""
        self._progress, self._first, self._total, self._until = progress, made, total, until
        self._began = time.monotonic()
        self._task = progress.add_task("PPO", total=total, note="")

    def tell(self, done: "Iteration", judged_s: float | None, best_s: float) -> None:
        """One more is made; `judged_s`: validation JCT, if the policy was judged."""
        words = return_text(done.return_mean)
        # After a resume from another setting there is no best one until the next is judged.
        best = f", best validation JCT {jct_text(best_s)}" if math.isfinite(best_s) else ""
        self._progress.update(self._task, completed=done.number, note=f"{words}{best}")
        if self._progress.disable:
            judged = "" if judged_s is None else f", validation JCT {jct_text(judged_s)}"
            left = clock_text(self._left_s(done.number))
            log.info(
                "iteration %d/%d: %s%s%s, %s left",
                done.number, self._total, words, judged, best, left,
            )  # fmt: skip

    def _left_s(self, number: int) -> float:
        """As long as the iterations so far took each, unless the budget ends it before."""
        now = time.monotonic()
        each_s = (now - self._began) / max(number - self._first, 1)
        left_s = each_s * max(self._total - number, 0)
        return left_s if self._until is None else max(min(left_s, self._until - now), 0.0)


def return_text(value: float) -> str:
    """A mean episode return; NaN: no episode ended."""
    if math.isnan(value):
        return "no whole episode yet"
    return f"return {value:,.1f}" if abs(value) >= SHORT else f"return {value:.3f}"


def jct_text(seconds: float) -> str:
    """Like `2.31 h (8,316 s)`."""
    return f"{seconds / HOUR_S:,.2f} h ({seconds:,.0f} s)"


def rivals_of(config: Mapping[str, Any]) -> list[Contender]:
    """Schedulers that stand in the learning curve; none in a trial of a search (no Hydra there).

    Raises:
        ConfigError: naming the entry and what is wrong with it.
    """
    given = config["rivals"]
    if not isinstance(given, list | None):
        raise ConfigError(f"rivals is {given!r}; it must be a list of lists of words")
    if not given or not GlobalHydra.instance().is_initialized():
        return []
    entries = [{"role": "composite", "overrides": words} for words in given]
    line_up = {"lineup": {"entries": entries}, "checkpoint": None}
    return lineup_of({**line_up, "agent_counts": None}, at="rivals")


def best_rival(config: Mapping[str, Any], rivals: Sequence[Contender]) -> dict[str, float]:
    """Name -> geometric mean over the validation windows of its mean JCT, of the best one.

    Empty without rivals that have one, and where one cannot run: the training is done by then, and
    the curve has a line less.
    """
    try:
        found = _means_s(config, rivals)
    except GpuYardError as error:
        log.warning("no rival in the learning curve: %s", error)
        return {}
    if not found:
        return {}
    name = min(found, key=found.__getitem__)
    log.info("best rival on the validation windows: %s, JCT %s", name, jct_text(found[name]))
    return {name: found[name]}


def _means_s(config: Mapping[str, Any], rivals: Sequence[Contender]) -> dict[str, float]:
    found = {}
    for contender in rivals:
        setting = setting_text(config, contender)
        rows = [
            run_task(Task(setting, contender, "validation", window)).row
            for window in range(config["validation_windows"])
        ]
        times_s = [row.metrics["jct_mean_s"] for row in rows]
        name = rows[0].labels.scheduler
        empty = np.flatnonzero(np.isnan(times_s))
        if len(empty):
            log.warning("rival %s left out: no job of validation window %d ended", name, empty[0])
        else:
            found[name] = float(np.exp(np.mean(np.log(times_s))))
    return found
