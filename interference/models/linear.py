"""LIF-Linear: a plane over what each job uses alone, as least-interference-first schedulers have.

The literature's predictor is a regression of the slow-down on the utilisations of both jobs. Where
a source has no utilisations (Gavel, DeepShare) the inputs are what it does have of a run alone:
step time here and on other GPU types, samples a second, numbers of GPUs and nodes. Chosen here: no
names, no products, the aggressors' inputs are added up, one plane a GPU type.
"""

import numpy as np

from interference.models.by_type import PlanesByType
from interference.models.encoding import Encoded, RowEncoder
from interference.models.protocol import Prediction, prediction
from interference.rows import CoRows, SoloProfiles
from sim.arrays import FloatArray

UTILISATIONS = ("gpu_util", "gmem_util", "ln_gmem", "ln_bandwidth")
INSTEAD = ("ln_step", "ln_samples_per_s", "ln_gpus", "ln_nodes")
PENALTY = 1e-3


class LinearModel:
    """One least-squares plane a GPU type; knows no names."""

    name = "linear"

    def fit(self, rows: CoRows, solos: SoloProfiles) -> None:
        """Least squares, GPU type by GPU type."""
        self._encoder = RowEncoder(rows, solos)
        names = self._encoder.feature_names
        used = [name for name in names if name in UTILISATIONS]
        used = used or [n for n in names if n in INSTEAD or n in self._other_types()]
        self._columns = [names.index(name) for name in used]
        encoded = self._encoder.encode(rows, solos)
        self._planes = PlanesByType(PENALTY)
        inputs = self._inputs(encoded)
        self._planes.fit(inputs, rows.norm_speed, encoded.gpu_type)
        fitted = self._planes.predict(inputs, encoded.gpu_type)
        self._sd = float((fitted - rows.norm_speed).std())

    def predict(self, rows: CoRows, solos: SoloProfiles) -> Prediction:
        """Value of the plane, with the spread of the fitted residuals."""
        encoded = self._encoder.encode(rows, solos)
        return prediction(self._planes.predict(self._inputs(encoded), encoded.gpu_type), self._sd)

    def _other_types(self) -> list[str]:
        return [f"ln_step_{name}" for name in self._encoder.gpu_types]

    def _inputs(self, encoded: Encoded) -> FloatArray:
        columns = self._columns
        sides = encoded.victim[:, columns], encoded.pooled()[1][:, columns]
        return np.hstack([*sides, encoded.share[:, None]])
