"""Mixes of up to seven jobs, on MISO's rows: models held out and compared by number of tenants."""

from dataclasses import replace

import numpy as np

from interference.readers.miso import DUMMY
from interference.rows import CoRows, mix_numbers
from sim.arrays import IntArray, objects
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
