"""Laws of sharing a network against DeepShare's measured pairs of distributed jobs.

The file gives each job's throughput beside another over its throughput alone, but neither links nor
placements. With one unknown a job, the share f of its step alone that it communicates, and both
jobs on the same links, each law says what is left of the speed of job i beside job j:

    none   1
    fair   1 / (1 + f_i)           half the link each, whatever the other does (max-min, k-way)
    duty   1 / (1 + f_i f_j)       the other disturbs as long as it communicates
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.errors import PhysicsError
from sim.physics.placement_rows import csv_rows, positive

PAIRS_FILE = Path("colocation", "deepshare_network_pairs.csv")
SWEEPS = 20  # of coordinate descent; the fit stands still well before
SHARES = np.linspace(0.0, 1.0, 101)

Law = Callable[[FloatArray, FloatArray], FloatArray]
LAWS: dict[str, Law] = {
    "none": lambda mine, other: np.ones(np.broadcast(mine, other).shape),
    "fair": lambda mine, other: 1.0 / (1.0 + mine + 0.0 * other),
    "duty": lambda mine, other: 1.0 / (1.0 + mine * other),
}


@dataclass(frozen=True)
class Pairs:
    """N directed rows over K jobs (a model with its numbers of GPUs and nodes)."""

    victim: IntArray  # (N,)
    other: IntArray  # (N,)
    norm: FloatArray  # (N,) throughput beside the other / alone
    jobs: int


@dataclass(frozen=True)
class LawErrors:
    """How far a law is from pairs that its fit has not seen."""

    law: str
    rows: int
    mape_frac: float
    r2: float


def read_network_pairs(data_dir: Path) -> Pairs:
    """DeepShare's pairs; PhysicsError names file, line and value."""
    number: dict[tuple[str, ...], int] = {}
    rows = []
    for place, row in csv_rows(data_dir / PAIRS_FILE):
        keys = [
            tuple(str(row.get(head + name)) for name in ("model", "gpus", "nodes"))
            for head in ("", "other_")
        ]
        victim, other = (number.setdefault(key, len(number)) for key in keys)
        rows.append((victim, other, positive(row, "norm", place)))
    if not rows:
        raise PhysicsError(f"{data_dir / PAIRS_FILE}: no rows; expected measured pairs")
    victims, others, norms = (np.array(column) for column in zip(*rows, strict=True))
    return Pairs(victims, others, norms.astype(np.float64), len(number))


def fit_shares(law: Law, pairs: Pairs, used: IntArray) -> FloatArray:
    """(K,) communication shares that fit the rows `used` best, by coordinate descent on a grid."""
    share = np.full(pairs.jobs, 0.5)
    victim, other, norm = pairs.victim[used], pairs.other[used], pairs.norm[used]
    for _ in range(SWEEPS):
        for job in range(pairs.jobs):
            mine, rest = victim == job, other == job
            touched = mine | rest
            a = np.where(mine[touched], SHARES[:, None], share[victim[touched]])
            b = np.where(rest[touched], SHARES[:, None], share[other[touched]])
            error = ((law(a, b) - norm[touched]) ** 2).sum(axis=1)
            share[job] = SHARES[int(error.argmin())]
    return share


def check_laws(pairs: Pairs, folds: int, rng: np.random.Generator) -> list[LawErrors]:
    """Errors of every law over `folds` random parts, each predicted from the others."""
    order = rng.permutation(len(pairs.norm))
    found = []
    for name, law in LAWS.items():
        told = np.empty(len(order))
        for fold in range(folds):
            held = order[fold::folds]
            share = fit_shares(law, pairs, np.setdiff1d(order, held))
            told[held] = law(share[pairs.victim[held]], share[pairs.other[held]])
        found.append(
            LawErrors(
                law=name,
                rows=len(told),
                mape_frac=float(np.abs(told / pairs.norm - 1.0).mean()),
                r2=float(1.0 - np.mean((told - pairs.norm) ** 2) / np.var(pairs.norm)),
            )
        )
    return found
