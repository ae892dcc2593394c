"""The role of a co-location model."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from interference.rows import CoRows, SoloProfiles
from sim.arrays import FloatArray

LEAST_SPEED = 0.05  # no prediction below this normalised speed (a slow-down of 20)


@dataclass(frozen=True)
class Prediction:
    """What a model says of N rows."""

    norm_speed: FloatArray  # (N,) at least LEAST_SPEED
    sd: FloatArray  # (N,) standard deviation that the model expects of its error, above 0


class SpeedModel(Protocol):
    """Learns normalised speed from rows and the solo profiles of their jobs."""

    @property
    def name(self) -> str:
        """Short name in tables and files."""

    def fit(self, rows: CoRows, solos: SoloProfiles) -> None:
        """Learn from feasible rows with a measured speed; forgets what was learned before."""

    def predict(self, rows: CoRows, solos: SoloProfiles) -> Prediction:
        """Predict rows; their `norm_speed` is not read, their jobs may be new."""


def prediction(norm_speed: FloatArray, sd: FloatArray | float) -> Prediction:
    """A prediction with the floors of its fields."""
    speed = np.maximum(norm_speed, LEAST_SPEED)
    return Prediction(speed, np.maximum(np.broadcast_to(sd, speed.shape), 1e-3))
