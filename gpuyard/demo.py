"""The main job from end to end, small (`make demo`): look, fit, learn, compare."""

import os
import shutil
import sys
import time
from pathlib import Path

from gpuyard.launch.errors import ConfigError
from gpuyard.launch.sweeps import run_program

DEMO = Path("runs") / "demo"


def _measured_rows() -> bool:
    """Whether the measured co-location rows are at hand (see docs/interference.md)."""
    data = Path(os.environ.get("GPUYARD_DATA", Path("..", "shared", "data")))
    found = (data / "colocation" / "gavel_pairs.csv").is_file()
    if found:
        os.environ["GPUYARD_DATA"] = str(data)
    return found


def _step(title: str, program: str, folder: Path, *overrides: str) -> None:
    """Run one entry point; its output is shown as it comes."""
    print(f"\n=== {title}", flush=True)
    status = run_program([program, f"hydra.run.dir={folder}", *overrides])
    if status != 0:
        sys.exit(status)


def main() -> None:
    """A first table, the interference model, agents that learn from nothing, and everybody.

    Raises:
        ConfigError: words stand behind the program's name.
    """
    if sys.argv[1:]:
        raise ConfigError(f"demo takes no keys, but {sys.argv[1]!r} is given; leave it out")
    began = time.monotonic()
    shutil.rmtree(DEMO, ignore_errors=True)
    source = "measured" if _measured_rows() else "shipped"
    physics = [f"profiles={source}", f"interference={source}"]
    fitted, learned = DEMO / "interference", DEMO / "learn"
    _step(
        "1/4 a first look: three rules on one window",
        "evaluate", DEMO / "first", "experiment=demo_first", *physics,
    )  # fmt: skip
    _step(
        "2/4 fit the interference model",
        "fit_interference", fitted,
        f"data_sets=[{'gavel' if source == 'measured' else 'generated'}]",
        "models=[constant,linear,learned]", "folds=3",
    )  # fmt: skip
    belief = f"belief.model.path={fitted / 'model.json'}"
    _step(
        "3/4 four agents with a graph network learn from nothing, by playing",
        "learn", learned, "experiment=demo_learn", belief, *physics,
    )  # fmt: skip
    _step(
        "4/4 compare on unseen windows",
        "evaluate", DEMO, "experiment=demo_evaluate", belief, *physics,
        f"checkpoint={learned / 'policy'}",
    )  # fmt: skip
    shutil.copy(learned / "curve.png", DEMO / "learning_curve.png")
    minutes = (time.monotonic() - began) / 60.0
    print(f"\nphysics: {source}; {minutes:.1f} minutes; tables and figures in {DEMO}")
