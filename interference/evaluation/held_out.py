"""Rows that a model was not fitted on, beside what it says of them."""

from dataclasses import dataclass

import numpy as np

from interference.models.protocol import Prediction
from interference.rows import CoRows
from sim.arrays import BoolArray


@dataclass(frozen=True)
class HeldOut:
    """N judged rows of all folds of one split, and one model's predictions."""

    rows: CoRows
    told: Prediction  # (N,) each by the fold that held the row out

    def take(self, index: BoolArray) -> "HeldOut":
        """The rows of `index`."""
        told = Prediction(self.told.norm_speed[index], self.told.sd[index])
        return HeldOut(self.rows.take(np.flatnonzero(index)), told)

    def by_type(self) -> dict[str, "HeldOut"]:
        """Parts by GPU type."""
        kinds = self.rows.gpu_type
        return {kind: self.take(kinds == kind) for kind in sorted(set(kinds))}
