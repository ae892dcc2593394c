"""When servers go away and come back: absences as changes in order of time."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray
from sim.errors import SimulationError


class Change(IntEnum):
    """What happens to a server. It is up while every FAIL and CLOSE has had its OPEN."""

    FAIL = 0  # at once: jobs on it fall back to their last checkpoint
    CLOSE = 1  # with notice: jobs on it write a checkpoint
    OPEN = 2


@dataclass(frozen=True)
class Outages:
    """K changes in order of time; at one instant in order of rows."""

    at_s: FloatArray  # (K,) ascending
    server: IntArray  # (K,)
    change: IntArray  # (K,) Change

    def __post_init__(self) -> None:
        """Check lengths, times and kinds, and that only what is away comes back.

        Raises:
            SimulationError: naming the first row at fault.
        """
        if not len(self.at_s) == len(self.server) == len(self.change):
            raise SimulationError("outages: at_s, server and change differ in length")
        wrong = ~(np.isfinite(self.at_s) & (self.at_s >= 0))
        self._refuse(wrong, "a time must be 0 or more seconds")
        self._refuse(np.diff(self.at_s, prepend=0.0) < 0, "times must ascend; sort the rows")
        self._refuse((self.change < 0) | (self.change > Change.OPEN), "there is no such change")
        self._refuse(self._opens_what_is_up(), "the server is up; close it or let it fail first")

    def _opens_what_is_up(self) -> BoolArray:
        """(K,) changes after which a server would have come back more often than gone."""
        by_server = np.argsort(self.server, kind="stable")
        step = np.where(self.change == Change.OPEN, -1, 1)[by_server]
        reasons = np.cumsum(step)
        before = np.concatenate([[0], reasons[:-1]])
        servers = self.server[by_server]
        first = np.concatenate([[True], servers[1:] != servers[:-1]]) if len(step) else step == 0
        start = np.maximum.accumulate(np.where(first, np.arange(len(step)), 0))
        bad = np.zeros(len(self), dtype=np.bool_)
        bad[by_server] = reasons - before[start] < 0
        return bad

    def _refuse(self, wrong: BoolArray, rule: str) -> None:
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise SimulationError(
                f"outages: row {row} (t={self.at_s[row]} s, server {self.server[row]}, change "
                f"{self.change[row]}): {rule}"
            )

    def __len__(self) -> int:
        """Number of changes K."""
        return len(self.at_s)


NO_OUTAGES = Outages(np.zeros(0), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))


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
