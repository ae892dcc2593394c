"""What a tuning writes: its curve, and a file of weights that says where it comes from."""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from tuning_search import Generation

from sim.linear.weights import START_FEATURES, named
from sim.report.atomic import write_atomically
from sim.report.record import Record

CURVE_FILE = "tuning.csv"
COLUMNS = ("generation", "best", "median", "sigma")


def write_curve(folder: Path, generations: Sequence[Generation]) -> None:
    """One row a generation: ln(JCT / reference) of its best and its median candidate."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(COLUMNS)
    rows.writerows((g.number, g.best, g.median, g.sigma) for g in generations)
    write_atomically(folder / CURVE_FILE, text.getvalue().encode())


def write_weights(path: Path, weights: Sequence[float], heading: Sequence[str]) -> None:
    """A file for conf/linear_weights/; `heading` becomes comments."""
    x = np.array(weights).round(6)
    cut = len(START_FEATURES)
    body = yaml.safe_dump(named(x[:cut], x[cut:]), sort_keys=False)
    write_atomically(path, "".join(f"# {line}\n" for line in heading).encode() + body.encode())


def heading_of(config: Mapping[str, Any], record: Record, chosen: str, verdict: str) -> list[str]:
    """Where the weights come from; `chosen` says which of the search's weights they are."""
    jobs = config["train_jobs"] or config["workload"]["num_jobs"]
    words = " ".join(["scripts/tune_linear_score.py", *record.overrides])
    commit = "no commit" if record.git_commit is None else f"commit {record.git_commit[:12]}"
    changed = " and changes beside it" if record.git_dirty else ""
    windows = config["train_windows"]
    if config["mix"] is not None:
        windows = sum(cell["windows"] for cell in config["mix"])
    anew = ", drawn anew for every generation" if config["redraw"] else ""
    return [
        f"python {words}",
        f"Made by {commit}{changed}, seed {config['seed']}: {chosen},",
        f"of {config['population']} candidates on {windows} training windows of {jobs} jobs{anew}.",
        verdict,
    ]
