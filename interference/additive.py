"""Additive terms of victim and aggressor in ln(normalised speed), one fit a GPU type."""

import numpy as np

from interference.dataset import ColocationRows
from interference.model import LEAST_NORM
from sim.arrays import FloatArray
from sim.physics.additive_fit import fit_additive


class AdditiveModel:
    """Knows each profile by name; a profile without rows is taken as average."""

    name = "additive"

    def fit(self, rows: ColocationRows) -> None:
        """Least squares on feasible rows, GPU type by GPU type."""
        profiles = len(rows.profiles)
        self._log_norm = np.full(
            (len(rows.gpu_types), profiles, profiles), float(np.log(rows.norm_speed).mean())
        )
        for gpu_type in np.unique(rows.gpu_type):
            here = rows.gpu_type == gpu_type
            fit = fit_additive(
                victim=rows.victim[here],
                aggressor=rows.aggressor[here],
                norm=rows.norm_speed[here],
                profiles=profiles,
            )
            self._log_norm[gpu_type] = fit.log_norm()

    def predict(self, rows: ColocationRows) -> FloatArray:
        """(N,) exp of the sum of terms."""
        norm = np.exp(self._log_norm[rows.gpu_type, rows.victim, rows.aggressor])
        return np.asarray(np.maximum(norm, LEAST_NORM))
