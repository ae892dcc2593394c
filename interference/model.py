"""The role of a co-location model."""

from typing import Protocol

from interference.dataset import ColocationRows
from sim.arrays import FloatArray

LEAST_NORM = 0.05  # no prediction below this normalised speed (a slow-down of 20)


class SpeedModel(Protocol):
    """Learns normalised speed from directed rows."""

    @property
    def name(self) -> str:
        """Short name used in tables and files."""

    def fit(self, rows: ColocationRows) -> None:
        """Learn from feasible rows; forgets what was learned before."""

    def predict(self, rows: ColocationRows) -> FloatArray:
        """(N,) normalised speed, at least `LEAST_NORM`, of rows over the fitted GPU types.

        `rows.norm_speed` is not read.
        """
