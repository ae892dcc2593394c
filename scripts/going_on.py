"""What to type after Ctrl-C, or an error on the way: the command that goes on."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from sim.report.record import Record

RESUMED = {  # program -> what it must have left to be resumed
    "train": "",
    "train_topdrl": "checkpoint",
    "tune_linear_score": "checkpoint.pickle",
    "learn": "checkpoint.npz",
}
AUTO = ("train",)  # resume=auto begins anew where nothing was left; the others name the folder
GOES_ON = ("reproduce", "train_worl", "measure_colocation")  # the same command in the same folder
SWEEP = {"-m", "--multirun"}


def going_on(record: Record | None, folder: Path | None, argv: Sequence[str]) -> str | None:
    """One sentence; None where there is nothing to say.

    Args:
        record: of the run that was under way; None: none had begun in this process.
        folder: its own.
        argv: the command line.
    """
    if SWEEP.intersection(argv):
        place = "the folder of this sweep" if folder is None else str(folder.parent)
        words = [word for word in argv if not word.startswith("hydra.sweep.dir=")]
        command = shlex.join(["python", *words, f"hydra.sweep.dir={place}"])
        return f"to go on without the points that are finished: {command}"
    if record is None or folder is None:
        return None
    left = RESUMED.get(record.program)
    if left is None and record.program not in GOES_ON:
        return f"{record.program}.py keeps nothing half-done: start it again"
    if left and not (folder / left).exists():
        return "there is no checkpoint yet: start it again"
    words = [word for word in record.overrides if not word.startswith("resume=")]
    own = [f"hydra.run.dir={folder}"]
    if left is not None:
        own.append(f"resume={'auto' if record.program in AUTO else folder}")
    return "to go on: " + shlex.join(["python", f"scripts/{record.program}.py", *words, *own])
