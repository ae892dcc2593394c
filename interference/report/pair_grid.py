"""Held-out pairs as tables of victims and aggressors."""

from dataclasses import dataclass

import numpy as np

from interference.evaluation.held_out import HeldOut
from interference.rows import SoloProfiles
from sim.arrays import FloatArray

LEAST_PAIRS = 4  # fewer make no map


@dataclass(frozen=True)
class PairGrid:
    """P profiles, those of one model side by side; NaN where no pair was judged."""

    profiles: tuple[str, ...]  # (P,)
    models: tuple[str, ...]  # (P,)
    measured: FloatArray  # (P, P) normalised speed [victim, aggressor]
    predicted: FloatArray  # (P, P)


def grids(held: HeldOut, solos: SoloProfiles) -> dict[str, PairGrid]:
    """GPU type -> grid of its pairs; rows with no or several aggressors are left out.

    Where a pair was judged more than once its cell has the means.
    """
    single = np.array([len(others) == 1 for others in held.rows.aggressors], dtype=np.bool_)
    found = held.take(single).by_type()
    return {kind: _grid(part, solos) for kind, part in found.items()
            if len(part.rows) >= LEAST_PAIRS}  # fmt: skip


def _grid(held: HeldOut, solos: SoloProfiles) -> PairGrid:
    rows = held.rows
    model = dict(zip(solos.keys(), solos.model, strict=True))
    source, kind = rows.source[0], rows.gpu_type[0]
    names = set(rows.victim) | {name for (name,) in rows.aggressors}
    order = sorted(names, key=lambda name: (model[source, kind, name], _natural(name)))
    at = {name: place for place, name in enumerate(order)}
    cell = (
        np.array([at[name] for name in rows.victim]),
        np.array([at[name] for (name,) in rows.aggressors]),
    )
    return PairGrid(
        tuple(order),
        tuple(model[source, kind, name] for name in order),
        _means(cell, rows.norm_speed, len(order)),
        _means(cell, held.told.norm_speed, len(order)),
    )


def _means(cell: tuple[np.ndarray, np.ndarray], values: FloatArray, size: int) -> FloatArray:
    total, count = np.zeros((2, size, size))
    np.add.at(total, cell, values)
    np.add.at(count, cell, 1.0)
    return np.where(count > 0, total / np.maximum(count, 1.0), np.nan)


def _natural(profile: str) -> tuple[tuple[int, int, str], ...]:
    """Numbers in a name by size, so that 16 comes before 128."""
    parts, digits = [], ""
    for sign in f"{profile}/":
        if sign.isdigit():
            digits += sign
            continue
        if digits:
            parts.append((0, int(digits), ""))
            digits = ""
        parts.append((1, 0, sign))
    return tuple(parts)
