"""What was found for one group in one round, and its file."""

import hashlib
import json
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

from interference.measuring.errors import MeasureError
from interference.measuring.gpu_use import Use
from interference.measuring.messages import LoopTask
from interference.measuring.together import Timing, Together
from sim.report.atomic import write_atomically


@dataclass(frozen=True)
class Result:
    """One group, once."""

    number: int  # of the group
    members: tuple[str, ...]
    round: int
    together: Together


def part_name(
    tasks: tuple[LoopTask, ...], timing: Timing, *, gpu_type: str, how: str, round_: int
) -> str:
    """A name that two measurements share if they are the same one.

    The code of a model does not count; the version of PyTorch does.
    """
    decides = [
        [asdict(task) for task in tasks], asdict(timing), gpu_type, how, round_, version("torch"),
    ]  # fmt: skip
    return f"{hashlib.sha256(json.dumps(decides).encode()).hexdigest()[:32]}.json"


def write_part(path: Path, result: Result) -> None:
    """Store one measured group, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(asdict(result), indent=1).encode())


def read_part(path: Path, number: int) -> Result | None:
    """A stored group under the number that it has now; None where there is none.

    Raises:
        MeasureError: the file is no measured group.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    try:
        held = json.loads(text)
        found = held["together"]
        use = None if found["use"] is None else Use(**found["use"])
        speeds, busy = tuple(found["steps_per_s"]), tuple(found["busy"])
        together = Together(**{**found, "use": use, "steps_per_s": speeds, "busy": busy})
        return Result(number, tuple(held["members"]), held["round"], together)
    except (ValueError, KeyError, TypeError):
        raise MeasureError(f"{path} is no measured group; remove it to measure again") from None
