"""The checkpoints of one run: `checkpoint/iteration_000020`, whole or not there; the last few."""

import logging
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from marl.rllib.checkpoint import MANIFEST, checked
from marl.training.errors import CheckpointError

log = logging.getLogger(__name__)

FOLDER = "checkpoint"  # within the run's folder
PART = ".part"


def name_of(iteration: int) -> str:
    """Folder of the checkpoint after `iteration`."""
    return f"iteration_{iteration:06d}"


def add_checkpoint(run: Path, iteration: int, fill: Callable[[Path], None], *, keep: int) -> Path:
    """Have `fill` write a sealed checkpoint beside the others, then give it its name.

    Afterwards the `keep` newest are left. Those of later iterations go too: they belong to a
    history that was left when an earlier checkpoint was resumed.
    """
    store = run / FOLDER
    part = store / f"{name_of(iteration)}{PART}"
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    fill(part)
    target = store / name_of(iteration)
    shutil.rmtree(target, ignore_errors=True)  # of a run that was resumed before it
    part.rename(target)
    found = checkpoints(run)
    kept = [number for number in found if number <= iteration][-keep:]
    for number, path in found.items():
        if number not in kept:
            shutil.rmtree(path, ignore_errors=True)
    return target


def checkpoints(run: Path) -> dict[int, Path]:
    """Iteration -> folder of the run's checkpoints, oldest first; half-written ones are not."""
    found = {}
    for path in (run / FOLDER).glob("iteration_*"):
        match = re.fullmatch(r"iteration_(\d+)", path.name)
        if match:
            found[int(match[1])] = path
    return dict(sorted(found.items()))


def drop_checkpoints(run: Path) -> None:
    """Remove what an earlier run in the same folder left."""
    shutil.rmtree(run / FOLDER, ignore_errors=True)


def last_whole(resume: Path) -> Path:
    """The checkpoint to go on with: `resume` itself, or the last whole one of that run.

    A newer one that is not whole is passed over with a warning.

    Raises:
        CheckpointError: there is none; the message says what is wrong with the newest.
    """
    if (resume / MANIFEST).is_file():
        checked(resume, None)
        return resume
    found = checkpoints(resume)
    if not found:
        raise CheckpointError(
            f"{resume}: there is no training checkpoint; give the folder of a training run (the "
            f"one that holds `{FOLDER}`) as resume=FOLDER"
        )
    faults = []
    for path in reversed(found.values()):
        try:
            checked(path, None)
        except CheckpointError as error:
            faults.append(str(error))
            continue
        for fault in faults:
            log.warning("passed over: %s", fault)
        return path
    raise CheckpointError(f"resume={resume}: none of its checkpoints is whole. {faults[0]}")
