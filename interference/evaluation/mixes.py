"""Mixes of up to seven jobs, on MISO's rows: models held out and compared, and how pushes add up.

MISO's MPS rows have a job's times at 100, 50 and 14 % of the threads, known against each other
only. If 14 % for each of seven processes protects a job from the others, then

    time at a wider limit / time at 14 %  =  alone(profile) (1 + sum of excess(model, aggressor)),

against a product of (1 + excess): both laws are fitted on few tenants and judged on more. If 14 %
protects a job only in part, its true slow-down is larger than either law has it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from interference.evaluation.judge import HeldOut, held_out, measures, pair_folds
from interference.models.encoding import SpeedModel
from interference.models.linear import counts
from interference.readers.miso import DUMMY
from interference.rows import CoRows, SoloProfiles, mix_numbers
from sim.arrays import BoolArray, FloatArray, IntArray, objects
from sim.errors import PhysicsError


def mps_rows(rows: CoRows) -> CoRows:
    """Rows of mixes without the dummies that fill them up to seven.

    A dummy is no tenant: it is light, nothing is known of it alone, and how many there are follows
    from how many tenants there are. Jobs have 0 to 6 aggressors.
    """
    mixes = rows.take((rows.relative_to == "best") & (rows.victim != DUMMY))
    beside = [tuple(name for name in others if name != DUMMY) for others in mixes.aggressors]
    return replace(mixes, aggressors=objects(beside))


def mig_rows(rows: CoRows) -> CoRows:
    """Rows of jobs alone on slices."""
    return rows.take((rows.sharing == "mig") & (rows.relative_to == "solo"))


def tenants(rows: CoRows) -> IntArray:
    """(N,) jobs of each row's mix, the victim among them."""
    return np.array([1 + len(others) for others in rows.aggressors], dtype=np.int64)


def drawn_mixes(rows: CoRows, most_rows: int, rng: np.random.Generator) -> IntArray:
    """Rows, in order, of whole mixes in random order until one more would be too many.

    Raises:
        PhysicsError: if the first mix has more rows than that.
    """
    mix = mix_numbers(rows)
    order = rng.permutation(mix.max() + 1)
    fits = np.cumsum(np.bincount(mix)[order]) <= most_rows
    if not fits[0]:
        raise PhysicsError(f"most_rows is {most_rows}; a mix has up to {np.bincount(mix).max()}")
    return np.flatnonzero(np.isin(mix, order[fits]))


def judged_mixes(
    rows: CoRows, solos: SoloProfiles, models: Iterable[SpeedModel], *, folds: int, seed: int
) -> dict[str, HeldOut]:
    """Held-out predictions by model: whole mixes are held out, also where they were run twice."""
    parts = list(pair_folds(rows, folds, np.random.default_rng(seed)))
    return {model.name: held_out(model, rows, solos, parts) for model in models}


def by_tenants(held: HeldOut) -> dict[int, dict[str, float]]:
    """Measures (`evaluation.measures`) by number of tenants."""
    number = tenants(held.rows)
    return {int(each): measures(held.take(number == each)) for each in np.unique(number)}


PROTECTED = 0.14  # the thread limit at which jobs are taken to leave each other alone
PENALTY = 0.5  # rows that say that an aggressor is as bad as the mean one
ROUNDS = 20  # of alternating least squares: 60 tell the same to two decimals


@dataclass(frozen=True)
class Ratios:
    """M jobs of mixes, of P profiles and L models."""

    ratio: FloatArray  # (M,) time at the wider limit over time at PROTECTED
    group: IntArray  # (M,)
    victim: FloatArray  # (M, P) one-hot
    beside: FloatArray  # (M, L P) how often each profile is an aggressor, by the victim's model
    tenants: IntArray  # (M,) jobs of the mix, the victim among them


def ratios(rows: CoRows, solos: SoloProfiles, *, limit: float) -> Ratios:
    """Of rows without dummies (`mixes.mps_rows`), which hold a job's three levels in sequence.

    Args:
        rows: of one source and GPU type.
        solos: a profile of each job.
        limit: the wider thread limit, such as 1.0.

    Raises:
        PhysicsError: for a limit that is not in the rows.
    """
    wide = np.flatnonzero(rows.share == limit)
    if len(wide) == 0:
        raise PhysicsError(f"limit is {limit}; the rows have {sorted(set(rows.share))}")
    narrow = np.flatnonzero(rows.share == PROTECTED)
    victims, beside = rows.victim[wide], rows.aggressors[wide]
    number = {name: i for i, name in enumerate(sorted(set(rows.victim)))}
    model = dict(zip(solos.profile, solos.model, strict=True))
    models = {name: i for i, name in enumerate(sorted({model[name] for name in number}))}
    most = max(len(others) for others in beside)
    cells = np.full((len(wide), most), -1, dtype=np.int64)
    for row, (victim, others) in enumerate(zip(victims, beside, strict=True)):
        part = models[model[victim]] * len(number)
        cells[row, : len(others)] = [part + number[name] for name in others]
    who = np.array([number[name] for name in victims], dtype=np.int64)
    return Ratios(
        ratio=rows.norm_speed[narrow] / rows.norm_speed[wide],
        group=rows.group[wide],
        victim=counts(who, len(number)),
        beside=counts(cells, len(models) * len(number)),
        tenants=tenants(rows)[wide],
    )


class Law(Protocol):
    """How the pushes of several aggressors come together."""

    name: str

    def fitted_told(self, of: Ratios, fit: BoolArray) -> FloatArray:
        """(M,) ratios as the law has them, learned where `fit`."""


class SumLaw:
    """Excesses add up."""

    name = "sum"

    def fitted_told(self, of: Ratios, fit: BoolArray) -> FloatArray:
        """Alternating least squares of relative errors."""
        slowed = np.ones(len(of.ratio))
        seen = of.victim[fit].sum(axis=0)
        for _ in range(ROUNDS):
            relative = of.ratio[fit] / slowed[fit]
            alone = of.victim[fit].T @ relative / np.maximum(seen, 1.0)
            base = of.victim @ np.where(seen > 0, alone, relative.mean())
            excess = _ridge(of.beside[fit], of.ratio[fit] / base[fit] - 1.0)
            slowed = np.maximum(1.0 + _pushed(of.beside, excess), 0.1)
        return base * slowed


class ProductLaw:
    """Slow-downs multiply."""

    name = "product"

    def fitted_told(self, of: Ratios, fit: BoolArray) -> FloatArray:
        """The same in logarithms."""
        slowed = np.zeros(len(of.ratio))
        seen = of.victim[fit].sum(axis=0)
        ln = np.log(of.ratio)
        for _ in range(ROUNDS):
            rest = ln[fit] - slowed[fit]
            alone = of.victim[fit].T @ rest / np.maximum(seen, 1.0)
            base = of.victim @ np.where(seen > 0, alone, rest.mean())
            slowed = _pushed(of.beside, _ridge(of.beside[fit], ln[fit] - base[fit]))
        return np.exp(base + slowed)


def errors_by_tenants(law: Law, of: Ratios, *, most: int) -> dict[int, dict[str, float]]:
    """Fit mixes of up to `most` tenants; by number of tenants above it, what was wrong.

    `mean` is of the measured ratios, `bias` of told minus measured, `mae` of its size.
    """
    told = law.fitted_told(of, of.tenants <= most)
    found = {}
    for number in np.unique(of.tenants[of.tenants > most]):
        here = of.tenants == number
        wrong = told[here] - of.ratio[here]
        found[int(number)] = {
            "mean": float(of.ratio[here].mean()),
            "bias": float(wrong.mean()),
            "mae": float(np.abs(wrong).mean()),
        }
    return found


def _ridge(design: FloatArray, target: FloatArray) -> tuple[float, FloatArray]:
    """The mean aggressor's push, free, and how far each is from it, penalised."""
    together = design.sum(axis=1)
    columns = design.shape[1]
    rows = np.vstack([design, np.sqrt(PENALTY) * np.eye(columns)])
    rows = np.column_stack([rows, np.append(together, np.zeros(columns))])
    weights = np.linalg.solve(
        rows.T @ rows + 1e-9 * np.eye(columns + 1), rows.T @ np.append(target, np.zeros(columns))
    )
    return float(weights[-1]), weights[:-1]


def _pushed(design: FloatArray, push: tuple[float, FloatArray]) -> FloatArray:
    mean, apart = push
    return np.asarray(mean * design.sum(axis=1) + design @ apart)
