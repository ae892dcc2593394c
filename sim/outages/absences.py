"""From absences (a server is away from here to there) to changes in order of time."""

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.errors import SimulationError
from sim.outages.changes import Change, Outages


def outages_of_absences(
    server: IntArray, away_s: FloatArray, back_s: FloatArray, change: Change
) -> Outages:
    """Changes by which each server goes and comes back; absences of one server may overlap.

    Args:
        server: (N,)
        away_s: (N,) when it goes.
        back_s: (N,) when it comes back, not before it goes; inf: never.
        change: how it goes, FAIL or CLOSE.
    """
    at_s = np.stack([away_s, back_s], axis=1).ravel()
    kinds = np.tile(np.array([change, Change.OPEN], dtype=np.int64), len(server))
    order = np.argsort(at_s, kind="stable")  # at one instant nothing comes back before it went
    order = order[np.isfinite(at_s[order])]
    return Outages(at_s[order], np.repeat(server, 2)[order].astype(np.int64), kinds[order])


def joined(one: Outages, other: Outages) -> Outages:
    """Both, in order of time; at one instant those of `one` come first."""
    at_s = np.concatenate([one.at_s, other.at_s])
    order = np.argsort(at_s, kind="stable")
    return Outages(
        at_s[order],
        np.concatenate([one.server, other.server])[order],
        np.concatenate([one.change, other.change])[order],
    )


def check_seconds(owner: str, zero_ok: bool = False, **values: float) -> None:
    """Refuse a number that is no length of time.

    Raises:
        SimulationError: naming `owner` and key, value and rule.
    """
    for key, value in values.items():
        if not (0 < value < np.inf or (zero_ok and value == 0)):
            rule = "0 or more" if zero_ok else "above 0"
            raise SimulationError(f"{owner}.{key} is {value}; it must be a finite number {rule}")
