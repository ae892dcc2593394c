"""What to type after Ctrl-C: the command that goes on where the run was stopped."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from sim.report.record import Record

RESUMED = {"train": "auto", "train_topdrl": "FOLDER", "tune_linear_score": "FOLDER"}  # resume=
GOES_ON = ("reproduce", "train_worl", "measure_colocation")  # the same command in the same folder
TELLS_ITSELF = ("learn",)
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
    if record is None or folder is None or record.program in TELLS_ITSELF:
        return None
    resumed = RESUMED.get(record.program)
    if resumed is None and record.program not in GOES_ON:
        return f"{record.program}.py keeps nothing half-done: start it again"
    words = [word for word in record.overrides if not word.startswith("resume=")]
    own = [f"hydra.run.dir={folder}"]
    if resumed is not None:
        own.append(f"resume={folder if resumed == 'FOLDER' else resumed}")
    return "to go on: " + shlex.join(
        ["python", f"scripts/{record.program}.py", *words, *own],
    )
